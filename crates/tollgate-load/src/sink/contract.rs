//! The contract of a sink: what a loader needs of a database.
//!
//! A sink has at most one open transaction. Between [`Sink::begin`] and [`Sink::commit`] it takes batches and
//! gaps of one log, in order. All of them and the position after the last become visible together, or none
//! does.

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::reject::{ReadItem, Retried};
use super::tally::Tally;
use crate::error::SinkError;

/// A database that rows are loaded into.
///
/// # Keys
///
/// A row may have a key: its schema has one ([`Schema::key`]), and the value is not null. Such a row is
/// loaded only if no other record of the stream holds the key. The sink keeps the keys in its own table, with
/// the primary key `(stream, key)`. An entry has the log and sequence number of the record that holds the
/// key, and the tick at which its window ends. The table changes in the transaction of the load. Every sink
/// does the following, in the order of the records:
///
/// - Insert the key. An existing key is taken over if its window ended, or if this very record holds it (a
///   position was moved back by hand). Otherwise the record is a duplicate: it is counted, and neither loaded
///   nor rejected.
/// - If the database then refuses the row, delete the key. A reject holds no key, so that a corrected retry
///   is loaded. The reject stores its key, and asks for it again when it is retried.
/// - Always load a row without a key.
///
/// Two loaders of two logs may claim the same key at once. Then the database decides. In SQLite one of them
/// has the lock of all writes. In PostgreSQL `INSERT ... ON CONFLICT DO UPDATE ... WHERE ... RETURNING` waits
/// for the other transaction. Insert the keys of a chunk in the order of the keys, so that two loaders never
/// wait for each other. COPY only the rows whose key was returned. Sinks that share a database have separate
/// keys.
///
/// Ticks are milliseconds that loaders ran, never wall time. The database stores the count. A loader
/// continues from it by its monotonic clock, and stores the larger of the two. So several loaders at once do
/// not make the count faster. While no loader runs, the count stands, which keeps keys longer and never
/// shorter. Each load deletes a bounded number of keys whose window ended.
///
/// After an error of `begin`, `write`, `gap`, `commit` or a fill, the caller calls [`Self::rollback`] and
/// reads the position again. Only the position shows whether a failed commit took place.
pub trait Sink: Send {
    /// Returns whether the database has seen the sink of this name before.
    ///
    /// # Errors
    /// The database fails.
    fn is_enrolled(&mut self) -> Result<bool, SinkError>;

    /// Notes in one transaction that the sink exists, and that it begins after these positions. Does nothing
    /// if it is enrolled.
    ///
    /// # Errors
    /// The database fails.
    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError>;

    /// Returns how far a log is loaded, or `None` if nothing of it is.
    ///
    /// # Errors
    /// The database fails.
    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError>;

    /// Checks whether rows of a stream fit its table, if the table exists. Changes nothing.
    ///
    /// [`Self::write`] creates the table with the first record of the stream, and adds columns that the
    /// stream gained. It never drops or retypes anything.
    ///
    /// # Errors
    /// `StreamName` and `TypeChanged` stop the sink. Others are retried.
    fn look(&mut self, schema: &Schema) -> Result<(), SinkError>;

    /// Returns how many schemas needed a check or a creation of their table in the open transaction.
    fn tables_met(&self) -> usize;

    /// Begins a transaction for records of `log` after `expected`.
    ///
    /// # Errors
    /// `Lost` if the position is now another.
    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError>;

    /// Writes the records of a batch as rows, or as rejects if the database refuses a row for its content.
    ///
    /// # Errors
    /// Any error that is not caused by one row.
    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError>;

    /// Counts records of a stream that the sink does not take. They are left out of the next batch.
    fn skipped(&mut self, stream: &str, count: u64);

    /// Writes a gap.
    ///
    /// # Errors
    /// The database fails.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// Moves the position to `end` and commits. `Ok` means that the load is on disk, in the database that is
    /// at its path or address.
    ///
    /// # Errors
    /// `Lost` if the position is not the expected one. `Orphans` if the same load has to be written again.
    /// After these nothing is committed. After other errors that is unknown.
    fn commit(&mut self, end: Position) -> Result<Tally, SinkError>;

    /// Returns the rejects of a log from `first` to `last`, in order, each with its reason.
    ///
    /// # Errors
    /// The database fails.
    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError>;

    /// Returns the gaps of a log, in order.
    ///
    /// # Errors
    /// The database fails.
    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError>;

    /// Returns how many records are in gaps of all logs, by reason.
    ///
    /// # Errors
    /// The database fails.
    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError>;

    /// Gives a gap another reason. Returns false if the gap no longer exists.
    ///
    /// # Errors
    /// The database fails.
    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError>;

    /// Begins a transaction for records of `log` in this gap. [`Self::write`] follows, then
    /// [`Self::commit_fill`].
    ///
    /// # Errors
    /// The database fails.
    fn begin_fill(&mut self, log: LogId, gap: &Gap) -> Result<(), SinkError>;

    /// Replaces the gap by what is left of it, and commits. The position stays. `Ok` means on disk.
    ///
    /// # Errors
    /// `Lost` if the gap no longer exists. `Orphans` if the same load has to be written again. After these
    /// nothing is committed. After other errors that is unknown.
    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError>;

    /// Tries every reject again. `read` reads items that clients sent by the current streams. Rows that the
    /// database refused are read from their stored bytes.
    ///
    /// A reject that fits becomes a row, or a duplicate if another record now has its key. The same
    /// transaction deletes the reject and changes the counters. A reject that does not fit stays, with the
    /// reason of this retry.
    ///
    /// # Errors
    /// The database fails. Transactions that were committed before stay.
    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError>;

    /// Rolls back the open transaction, if there is one.
    fn rollback(&mut self);

    /// Returns whether another program may have changed the positions since the last call. Call it between
    /// loads.
    ///
    /// # Errors
    /// `Moved` if the database is no longer the one that was opened.
    fn is_changed(&mut self) -> Result<bool, SinkError>;

    /// Does maintenance between loads, once about `bytes` bytes were written since the last time. It keeps
    /// the next loads fast and the files bounded.
    ///
    /// # Errors
    /// The database fails. No row depends on it.
    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError>;
}
