//! All files of a load, within one bound on memory.
//!
//! Rows gather in memory until a file has the rows of a row group, or until all files together have half of
//! the memory. Then the file with most of them gets a row group. The other half of the memory has its rows
//! until they are written. So one stream gets large row groups, and many streams get smaller ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_log::{LogId, Schema, Sequence, Value};
use tollgate_value::Date;

use crate::encoder::Encoder;
use crate::error::LakeError;
use crate::iceberg::{FieldIds, FileFacts, folder_of};
use crate::names::{GAPS, LoadName, REJECTS, day_of, table_folder};
use crate::plan::{GapText, PlannedFile};
use crate::rows::FileRows;
use crate::table::{FileColumn, KEY_COLUMN, columns_of, columns_of_gaps, columns_of_rejects};
use crate::writer::{FileWriter, FinishedFile};

/// What happened to the records of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapEvent {
    /// They cannot be read.
    Missing,
    /// A part of them, or all, became rows. The parts that cannot be read are gaps of their own.
    Filled,
}

impl GapEvent {
    const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Filled => "filled",
        }
    }
}

/// A record that is no row.
#[derive(Debug, Clone, Copy)]
pub struct RejectRow<'a> {
    /// The stream of the record.
    pub stream: &'a str,
    /// Why it is no row.
    pub reason: &'a str,
    /// Who refused it.
    pub refused_by: &'a str,
    /// The item.
    pub item: &'a [u8],
    /// The item as text for people.
    pub text: &'a str,
    /// The key of the row.
    pub key: Option<&'a [u8]>,
    /// How long another sink would remember the key.
    pub key_window_ms: Option<i64>,
}

/// The table and the day of a file. Several schemas of one stream have different numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    table: String,
    day: i32,
    schema: usize,
}

/// A file in writing, and its rows in memory.
struct File {
    id: FileId,
    rows: FileRows,
    writer: FileWriter,
}

/// The complete files of a load, in the order of their names.
#[derive(Debug, Default)]
pub struct MadeFiles {
    /// The files.
    pub facts: Vec<FileFacts>,
    /// Their paths on this machine.
    pub parts: Vec<PathBuf>,
}

impl MadeFiles {
    /// Returns the files, as a plan has them.
    pub fn planned(&self) -> Vec<PlannedFile> {
        let planned = |file: &FileFacts| PlannedFile { name: file.name.clone(), rows: file.rows };
        self.facts.iter().map(planned).collect()
    }

    /// Returns the sum of the sizes of the files in bytes.
    pub fn bytes(&self) -> u64 {
        self.facts.iter().map(|file| file.bytes).sum()
    }
}

/// The files of one load.
pub struct Writers {
    folder: PathBuf,
    memory_bytes: usize,
    waiting_bytes: usize,
    /// The schemas of each stream, in the order of their first rows.
    schemas: BTreeMap<String, Vec<Arc<Schema>>>,
    files: Vec<File>,
    /// The thread that encodes row groups. `None` before the first one.
    encoder: Option<Encoder>,
    /// The place of the file whose row group is encoded.
    encoding: Option<usize>,
    /// The place of each file in `files`.
    places: BTreeMap<FileId, usize>,
    /// The namespace and the ids of columns, if the files are of tables of Iceberg.
    tables: Option<(String, BTreeMap<String, FieldIds>)>,
    /// The schema and the day of the last row, and the place of its file. Most rows have the same.
    last: Option<(Arc<Schema>, i32, usize)>,
}

impl Writers {
    /// Creates a load without files. Incomplete files are made in `folder`, which exists, and whose name no
    /// other load has.
    pub fn new(folder: PathBuf, memory_bytes: usize) -> Self {
        Self {
            folder,
            memory_bytes,
            waiting_bytes: 0,
            schemas: BTreeMap::new(),
            files: Vec::new(),
            encoder: None,
            encoding: None,
            places: BTreeMap::new(),
            tables: None,
            last: None,
        }
    }

    /// Makes the files for tables of Iceberg. Their columns get ids, and each row has its time.
    #[must_use]
    pub fn of_tables(mut self, namespace: &str) -> Self {
        self.tables = Some((namespace.to_owned(), BTreeMap::new()));
        self
    }

    /// Sets the ids of the columns of a table, before its first row.
    pub fn set_ids(&mut self, table: &str, ids: FieldIds) {
        if let Some((_, tables)) = &mut self.tables {
            tables.insert(table.to_owned(), ids);
        }
    }

    /// Returns whether the ids of all columns of a stream are set, or none are needed.
    pub fn has_ids(&self, schema: &Schema) -> bool {
        self.tables.as_ref().is_none_or(|(_, tables)| {
            let Some(ids) = tables.get(schema.stream()) else { return false };
            // A stream may get a key and no other column.
            let has_key = schema.key().is_none() || ids.contains_key(KEY_COLUMN);
            has_key && schema.table_columns().all(|column| ids.contains_key(&column.name))
        })
    }

    /// Adds a row of a stream.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn row(
        &mut self,
        schema: &Arc<Schema>,
        stamp_us: i64,
        values: &[Value<'_>],
        (log, sequence): (LogId, Sequence),
    ) -> Result<(), LakeError> {
        let day = day_of(stamp_us);
        let place = match &self.last {
            Some((last, of, place)) if Arc::ptr_eq(last, schema) && *of == day.days() => *place,
            _ => self.place_of_row(schema, day.days()),
        };
        let key = schema.key().map(|(place, _)| place);
        self.push(place, values, key, (log, sequence, stamp_us))
    }

    /// Adds a reject.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn reject(
        &mut self,
        stamp_us: i64,
        reject: &RejectRow<'_>,
        (log, sequence): (LogId, Sequence),
    ) -> Result<(), LakeError> {
        let day = day_of(stamp_us);
        let id = FileId { table: REJECTS.to_owned(), day: day.days(), schema: 0 };
        let row = [
            Value::Text(reject.stream),
            Value::Text(reject.reason),
            Value::Text(reject.refused_by),
            Value::Bytes(reject.item),
            Value::Text(reject.text),
            reject.key.map_or(Value::Null, Value::Bytes),
            reject.key_window_ms.map_or(Value::Null, Value::Int),
            Value::Timestamp(stamp_us),
        ];
        let place = self.place_of(id, columns_of_rejects);
        self.push(place, &row, None, (log, sequence, stamp_us))
    }

    /// Adds a row to the table of gaps. Files without tables have none.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn gap(
        &mut self,
        stamp_us: i64,
        event: GapEvent,
        gap: &GapText,
        log: LogId,
    ) -> Result<(), LakeError> {
        if self.tables.is_none() {
            return Ok(());
        }
        let id = FileId { table: GAPS.to_owned(), day: day_of(stamp_us).days(), schema: 0 };
        let row = [
            Value::Text(event.name()),
            Value::Int(gap.first.cast_signed()),
            Value::Int(gap.last.cast_signed()),
            Value::Text(&gap.reason),
        ];
        let place = self.place_of(id, columns_of_gaps);
        self.push(place, &row, None, (log, Sequence(gap.first), stamp_us))
    }

    /// Returns the columns of a file, with the column of the time and all ids, if it is of a table.
    fn in_table(&self, table: &str, mut columns: Vec<FileColumn>) -> Vec<FileColumn> {
        if let Some((_, tables)) = &self.tables {
            columns.push(FileColumn::time());
            let ids = tables.get(table);
            for column in &mut columns {
                column.field = ids.and_then(|ids| ids.get(&column.name).copied());
            }
        }
        columns
    }

    /// Returns the place of the file for rows of a schema and a day, and remembers it.
    fn place_of_row(&mut self, schema: &Arc<Schema>, day: i32) -> usize {
        let number = self.number_of(schema);
        let id = FileId { table: schema.stream().to_owned(), day, schema: number };
        let place = self.place_of(id, || columns_of(schema));
        self.last = Some((schema.clone(), day, place));
        place
    }

    fn place_of(&mut self, id: FileId, columns: impl FnOnce() -> Vec<FileColumn>) -> usize {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let place = self.files.len();
        let columns = self.in_table(&id.table, columns());
        let part = self.folder.join(format!("{}.part", place + 1));
        let (rows, writer) = (FileRows::new(columns), FileWriter::new(part));
        self.files.push(File { id: id.clone(), rows, writer });
        self.places.insert(id, place);
        place
    }

    /// Returns the number of a schema among the schemas of its stream.
    fn number_of(&mut self, schema: &Arc<Schema>) -> usize {
        if !self.schemas.contains_key(schema.stream()) {
            self.schemas.insert(schema.stream().to_owned(), Vec::new());
        }
        let Some(known) = self.schemas.get_mut(schema.stream()) else { return 0 };
        let found = known.iter().position(|known| Arc::ptr_eq(known, schema) || known == schema);
        found.unwrap_or_else(|| {
            known.push(schema.clone());
            known.len() - 1
        })
    }

    /// Adds a row to the file at this place. `key` is the place of the key among the values. The row is of a
    /// record of this log, with this number and this time.
    fn push(
        &mut self,
        place: usize,
        values: &[Value<'_>],
        key: Option<usize>,
        (log, sequence, stamp_us): (LogId, Sequence, i64),
    ) -> Result<(), LakeError> {
        let Some(File { rows, .. }) = self.files.get_mut(place) else { return Ok(()) };
        let before = rows.bytes;
        let sequence = Value::Int(sequence.0.cast_signed());
        let identity = [Value::Uuid(*log.as_bytes()), sequence, Value::Timestamp(stamp_us)];
        // Only files of tables have a column for the time.
        let count = if self.tables.is_some() { identity.len() } else { identity.len() - 1 };
        rows.push(values, key, &identity[..count]);
        self.waiting_bytes += rows.bytes - before;
        if rows.is_group() {
            self.flush(place)?;
        }
        while self.waiting_bytes > self.memory_bytes / 2 {
            let places = self.files.iter().enumerate();
            let Some((largest, _)) = places.max_by_key(|(_, file)| file.rows.bytes) else { break };
            self.flush(largest)?;
        }
        Ok(())
    }

    /// Begins to encode the rows in memory of the file at this place. Writes the row group that
    /// was encoded before.
    fn flush(&mut self, place: usize) -> Result<(), LakeError> {
        self.write()?;
        let Some(File { rows, writer, .. }) = self.files.get_mut(place) else { return Ok(()) };
        self.waiting_bytes -= rows.bytes;
        let Some(group) = rows.take() else { return Ok(()) };
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(Encoder::start(&self.folder)?),
        };
        encoder.begin(writer.tasks(group)?);
        self.encoding = Some(place);
        Ok(())
    }

    /// Writes the row group that is encoded, if there is one.
    fn write(&mut self) -> Result<(), LakeError> {
        let (Some(place), Some(encoder)) = (self.encoding.take(), &mut self.encoder) else { return Ok(()) };
        let chunks = encoder.finish();
        self.files.get_mut(place).map_or(Ok(()), |file| file.writer.write(chunks))
    }

    /// Ends all files of a load whose last record is `last`.
    ///
    /// # Errors
    /// A file cannot be written or synced.
    pub fn finish(&mut self, load: LoadName, last: Sequence, digest: &str) -> Result<MadeFiles, LakeError> {
        let (stem, kind) = (load.file_stem(last), load.file_kind());
        let mut files = Vec::new();
        (self.places, self.last) = (BTreeMap::new(), None);
        for place in 0..self.files.len() {
            self.flush(place)?;
        }
        self.write()?;
        for File { id, rows, writer } in std::mem::take(&mut self.files) {
            let FinishedFile { part, bytes, digest, metrics } = writer.finish(digest)?;
            let name = self.name_of(&id, &stem, kind);
            let day = Date::from_days(id.day).unwrap_or(Date::FIRST);
            let rows = rows.total;
            files.push((FileFacts { name, table: id.table, day, rows, bytes, digest, metrics }, part));
        }
        files.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let (facts, parts) = files.into_iter().unzip();
        Ok(MadeFiles { facts, parts })
    }

    fn name_of(&self, id: &FileId, stem: &str, kind: &str) -> String {
        let day = Date::from_days(id.day).unwrap_or(Date::FIRST);
        let number = if id.schema == 0 { String::new() } else { format!(".{}", id.schema + 1) };
        let folder = match &self.tables {
            Some((namespace, _)) => format!("{}/data", folder_of(namespace, &id.table)),
            None => table_folder(&id.table),
        };
        format!("{folder}/day={day}/{stem}{number}{kind}.parquet")
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // Files that are in the lake are no longer here. The others only occupy space.
        drop(fs::remove_dir_all(&self.folder));
    }
}

#[cfg(test)]
mod tests;
