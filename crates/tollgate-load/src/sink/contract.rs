//! What a load needs of a database: the contract between following logs and keeping rows.
//!
//! A sink has one transaction open at most. Between [`Sink::begin`] and [`Sink::commit`] it takes batches and
//! gaps of one log, in order. All of them, and the position behind the last, become visible together or not
//! at all.

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::reject::{ReadItem, Retried};
use super::tally::Tally;
use crate::error::SinkError;

/// A database that rows are loaded into.
///
/// # Keys
/// A row whose schema has a key ([`Schema::key`]) and whose key is not null is loaded only if no other record
/// of the stream holds that key. The sink keeps the keys in a table of its own, `(stream, key)` the primary
/// key, with the log and sequence number of the record that holds it and the tick at which its window ends.
/// That table changes in the transaction of the load, so what every sink has to do is this, in the order of
/// the records:
///
/// - insert the key; where it is there already, take it over if its window ended, or if it is held by this
///   very record (a position was taken back by hand); else the record is a duplicate: counted, neither loaded
///   nor rejected;
/// - a row that the database then refuses gives its key back: a reject holds none, so that a mended retry is
///   loaded. It remembers its key, to ask for it again when it is tried again;
/// - rows without a key are loaded always.
///
/// Two loaders of two logs may meet the same key at once: the database decides. In SQLite one of them has the
/// lock of all writes. In PostgreSQL `INSERT ... ON CONFLICT DO UPDATE ... WHERE ... RETURNING` waits for the
/// other transaction; insert the keys of a chunk in their own order, so that two loaders never wait for each
/// other, and COPY only the rows whose key was returned. Where several sinks share a database the keys are
/// each sink's own.
///
/// Ticks are milliseconds that loaders ran, never wall time: the database keeps the count, a loader goes on
/// from it by its monotonic clock, and stores the larger of the two. Several loaders at once thus do not make
/// it run faster, and while none runs it stands, which keeps keys longer and never shorter. Keys whose window
/// ended are deleted with later loads, a bounded number in each.
///
/// After any error of `begin`, `write`, `gap`, `commit` or those of a fill the caller calls
/// [`Self::rollback`] and reads the position again: whether a commit that failed took place is known by that
/// alone.
pub trait Sink: Send {
    /// Whether the database has seen the sink of this name before.
    ///
    /// # Errors
    /// The database fails.
    fn is_enrolled(&mut self) -> Result<bool, SinkError>;

    /// Notes that the sink is there from now on, and that it begins behind these positions, in one
    /// transaction. Does nothing if it is enrolled.
    ///
    /// # Errors
    /// The database fails.
    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError>;

    /// How far a log is loaded; none if nothing of it is.
    ///
    /// # Errors
    /// The database fails.
    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError>;

    /// Looks whether rows of a stream fit its table, as far as there is one, and changes nothing.
    ///
    /// [`Self::write`] makes the table when its first record comes, and adds the columns that the stream
    /// gained. Nothing is ever dropped or retyped.
    ///
    /// # Errors
    /// `StreamName` and `TypeChanged` stop the sink; others are retried.
    fn look(&mut self, schema: &Schema) -> Result<(), SinkError>;

    /// How many schemas the open transaction has met whose table it had to look at or to make.
    fn tables_met(&self) -> usize;

    /// Begins a transaction for records of `log` behind `expected`.
    ///
    /// # Errors
    /// `Lost` if the position is another by now.
    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError>;

    /// Takes the records of a batch: rows, or rejects where the database refuses a row for its content.
    ///
    /// # Errors
    /// Any error that is not one of a row.
    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError>;

    /// Counts records of a stream that the sink does not take; they are left out of the batch that is written
    /// next.
    fn skipped(&mut self, stream: &str, count: u64);

    /// Takes a gap.
    ///
    /// # Errors
    /// The database fails.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// Moves the position to `end` and commits. `Ok` means on disk, in the database that is at its place.
    ///
    /// # Errors
    /// `Lost` if the position is not the expected one, `Orphans` if the same load has to be written once
    /// more: then nothing is committed. After other errors it is unknown.
    fn commit(&mut self, end: Position) -> Result<Tally, SinkError>;

    /// The rejects of a log from `first` to `last`, in order, each with its reason.
    ///
    /// # Errors
    /// The database fails.
    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError>;

    /// The gaps of a log, in order.
    ///
    /// # Errors
    /// The database fails.
    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError>;

    /// How many records are in gaps, those of all logs, by the reason.
    ///
    /// # Errors
    /// The database fails.
    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError>;

    /// Gives a gap another reason. False: it is not there any more.
    ///
    /// # Errors
    /// The database fails.
    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError>;

    /// Begins a transaction for records of `log` that lie in this gap. [`Self::write`] follows, then
    /// [`Self::commit_fill`].
    ///
    /// # Errors
    /// The database fails.
    fn begin_fill(&mut self, log: LogId, gap: &Gap) -> Result<(), SinkError>;

    /// Puts what is left of the gap in its place and commits; the position stays. `Ok` means on disk.
    ///
    /// # Errors
    /// `Lost` if the gap is not there any more, `Orphans` if the same load has to be written once more: then
    /// nothing is committed. After other errors it is unknown.
    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError>;

    /// Tries every reject again: a row that the database refused from its stored bytes, an item as the
    /// streams of today read it. What fits becomes a row, or a duplicate where another record has its key by
    /// now, in one transaction with the end of the reject and the counters. What does not fit stays with the
    /// reason of today.
    ///
    /// # Errors
    /// The database fails; what was committed before counts.
    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError>;

    /// Gives up the open transaction, if there is one.
    fn rollback(&mut self);

    /// Whether the database may hold other positions than before the last call: somebody else wrote to it.
    /// Asked between loads.
    ///
    /// # Errors
    /// `Moved` if it is not the one any more that was opened.
    fn is_changed(&mut self) -> Result<bool, SinkError>;

    /// Does what may be done between loads, to keep the next ones fast and files bounded, once about so many
    /// bytes were written since the last time.
    ///
    /// # Errors
    /// The database fails; no row depends on it.
    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError>;
}
