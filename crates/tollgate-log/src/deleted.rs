//! `<log.dir>/deleted`: the last record of each log that retention deleted.
//!
//! A sink's database may be restored to a state from before a log, or from the middle of a log. The sink then
//! lacks records that were deleted because the sink had them. The segments of these records are gone, and the
//! folder too after the last segment. Only this file shows that the records existed. The file is written
//! before a segment is unlinked. A start does not need the file. Without the file the records are missing
//! too, but no gap reports them.
//!
//! The file is text with one line for each log: its id, a blank, a number. A line that cannot be read is
//! skipped.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::LogError;
use crate::id::{LogId, Sequence};
use crate::note_file::{read_note, replace_note};
use crate::storage::Storage;

const NAME: &str = "deleted";
/// Maximum number of logs in the file. If there are more, the entries of the oldest logs are removed.
const LOGS_MAX: usize = 4_096;
/// Maximum bytes of the file that are read. A line has at most 58 bytes: an id, a blank, a number and a line
/// end.
const BYTES_MAX: u64 = 64 * LOGS_MAX as u64;

/// The last deleted record of each log.
#[derive(Debug, Default)]
pub struct Deleted {
    ends: BTreeMap<LogId, Sequence>,
    impossible: Vec<(LogId, u64)>,
}

impl Deleted {
    /// Reads the file in a folder of logs.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(storage: &dyn Storage, dir: &Path) -> Result<Self, LogError> {
        Ok(Self::of(&read_note(storage, &dir.join(NAME), BYTES_MAX)?))
    }

    fn of(text: &str) -> Self {
        let mut deleted = Self::default();
        for (log, last) in text.lines().filter_map(read_line) {
            if Sequence(last).is_possible() {
                deleted.ends.insert(log, Sequence(last));
            } else {
                deleted.impossible.push((log, last));
            }
        }
        deleted
    }

    /// Returns the lines with an impossible record number. Only these lines are skipped.
    pub fn impossible(&self) -> &[(LogId, u64)] {
        &self.impossible
    }

    /// Returns each log with deleted records, and the number of the last deleted record.
    pub fn iter(&self) -> impl Iterator<Item = (LogId, Sequence)> {
        self.ends.iter().map(|(log, last)| (*log, *last))
    }

    /// Notes that a log is deleted up to `last`. The note is on disk when this function returns.
    pub(crate) fn note(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        log: LogId,
        last: Sequence,
    ) -> Result<(), LogError> {
        let known = self.ends.entry(log).or_default();
        *known = last.max(*known);
        while self.ends.len() > LOGS_MAX {
            self.ends.pop_first();
        }
        self.write(storage, dir)
    }

    fn write(&self, storage: &dyn Storage, dir: &Path) -> Result<(), LogError> {
        let text: String = self.iter().map(|(log, last)| format!("{log} {last}\n")).collect();
        replace_note(storage, dir, NAME, &text)
    }
}

fn read_line(line: &str) -> Option<(LogId, u64)> {
    let (log, last) = line.split_once(' ')?;
    Some((log.parse().ok()?, last.parse().ok()?))
}
