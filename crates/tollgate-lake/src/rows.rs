//! The rows of one file that are in memory, column by column.

use tollgate_log::Value;

use crate::columns::ColumnBuffer;
use crate::table::FileColumn;

/// Rows of a row group. DuckDB writes as many, and reads row groups on several threads.
pub(crate) const GROUP_ROWS_MAX: usize = 122_880;

/// The rows of a row group.
pub(crate) struct RowGroup {
    pub(crate) columns: Vec<ColumnBuffer>,
    pub(crate) rows: usize,
}

/// The rows of a file that are in no row group yet.
pub(crate) struct FileRows {
    columns: Vec<FileColumn>,
    next: RowGroup,
    /// Bytes of the rows in memory, as an estimate that depends on the rows alone.
    pub(crate) bytes: usize,
    /// Rows of the file so far, with those in memory.
    pub(crate) total: u64,
}

impl RowGroup {
    fn new(columns: &[FileColumn]) -> Self {
        Self { columns: columns.iter().cloned().map(ColumnBuffer::new).collect(), rows: 0 }
    }
}

impl FileRows {
    pub(crate) fn new(columns: Vec<FileColumn>) -> Self {
        Self { next: RowGroup::new(&columns), columns, bytes: 0, total: 0 }
    }

    /// Adds a row: these values, one for each column. A column of the file that has the place `last` in the
    /// values comes after all others, and before `more`.
    pub(crate) fn push(&mut self, values: &[Value<'_>], last: Option<usize>, more: &[Value<'_>]) {
        let mut columns = self.next.columns.iter_mut();
        let mut bytes = 0;
        let mut push = |value: &Value<'_>| {
            if let Some(column) = columns.next() {
                bytes += column.push(value);
            }
        };
        match last {
            None => values.iter().for_each(&mut push),
            Some(last) => {
                let (before, after) = values.split_at(last.min(values.len()));
                before.iter().chain(after.get(1..).unwrap_or_default()).for_each(&mut push);
                push(after.first().unwrap_or(&Value::Null));
            }
        }
        more.iter().for_each(push);
        self.bytes += bytes;
        self.next.rows += 1;
        self.total += 1;
    }

    /// Returns whether the rows in memory are enough for a row group.
    pub(crate) const fn is_group(&self) -> bool {
        self.next.rows >= GROUP_ROWS_MAX
    }

    /// Takes the rows in memory. `None`: there are none.
    pub(crate) fn take(&mut self) -> Option<RowGroup> {
        self.bytes = 0;
        (self.next.rows > 0).then(|| std::mem::replace(&mut self.next, RowGroup::new(&self.columns)))
    }
}
