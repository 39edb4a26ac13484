//! The contract of a sink: the functions that a loader needs from a database.
//!
//! A sink has at most one open transaction. Between [`Sink::begin`] and [`Sink::commit`], the loader passes
//! batches and gaps of one log to it, in order. All of them, and the position after the last one, become
//! visible together, or not at all.
//!
//! The leases of a sink have their own contract, in `leases`.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};
use tollgate_queue::TopicCopies;

use super::reject::{ReadItem, Retried};
use super::streams::Taken;
use super::tally::{LostTable, StreamTallies, Tally};
use crate::error::SinkError;

/// Where the loads of a sink end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadExtent {
    /// After any batch.
    Records,
    /// At the end of a sealed segment. A load begins when the segments have `bytes` bytes, or when one of
    /// them has waited for `age`.
    Segments {
        /// Bytes of segments after which a load ends.
        bytes: u64,
        /// Longest wait of a sealed segment.
        age: Duration,
    },
}

/// A load that an earlier try decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedLoad {
    /// The last record of the load.
    pub last: Sequence,
    /// The streams of the load.
    pub taken: Taken,
}

/// What became of a load that an earlier try decided, and did not commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// There is none.
    Nothing,
    /// All its files were in the sink, so it is committed now.
    Committed,
    /// The sink has nothing of it. The open load replaces it.
    Replaced,
}

/// A database that rows are loaded into.
///
/// # Keys
///
/// A row has a key if its schema has a key column ([`Schema::key`]) and the value is not null. Such a row is
/// loaded only if no other record of the stream holds the key. The sink keeps the keys in its own table, with
/// the primary key `(stream, key)`. An entry has the log and sequence number of the record that holds the
/// key, and the tick at which its window ends. The transaction of a load also changes this table. Every sink
/// does the following, in the order of the records:
///
/// - Insert the key. A record gets an existing key in two cases. The window of the key has ended, or the
///   record itself holds the key already, because a position was moved back by hand. In all other cases the
///   record is a duplicate: it is counted, and neither loaded nor rejected.
/// - If the database then refuses the row, delete the key. A reject holds no key, so that a corrected retry
///   by the client is loaded. The reject stores the value of its key, and claims the key again when the
///   reject is retried.
/// - Always load a row without a key.
///
/// Two loaders of two logs may claim the same key at once. The database then decides which one gets it. In
/// SQLite, only one of them has the lock for writes. In PostgreSQL, `INSERT ... ON CONFLICT DO UPDATE ...
/// WHERE ... RETURNING` waits for the other transaction. Insert the keys of a chunk in the order of the keys,
/// so that two loaders never wait for each other. Use COPY only for the rows whose key was returned. Sinks
/// that share a database have separate keys.
///
/// A tick is a millisecond in which a loader ran. Ticks never depend on wall time. The database stores the
/// count of ticks. A loader continues the count with its monotonic clock, and stores the larger of its own
/// and the stored count. So several loaders at once do not make the count faster. While no loader runs, the
/// count does not grow, so keys are kept longer and never shorter. Each load deletes a bounded number of keys
/// whose window has ended.
///
/// After an error of `begin`, `write`, `gap`, `commit` or a fill, the caller calls [`Self::rollback`] and
/// reads the position again. Only the position shows whether a failed commit took place.
pub trait Sink: Send {
    /// Returns where loads end.
    fn extent(&self) -> LoadExtent {
        LoadExtent::Records
    }

    /// Returns the load after a position that an earlier try decided. The next load has to be the same. A
    /// sink with loads of records decides nothing before its commit. `taken` are the streams of a new load.
    ///
    /// # Errors
    /// The database fails.
    fn planned(
        &mut self,
        log: LogId,
        expected: Option<Position>,
        taken: &Taken,
    ) -> Result<Option<PlannedLoad>, SinkError> {
        let _ = (log, expected, taken);
        Ok(None)
    }

    /// Makes the open load replace a load with the same first record that an earlier try decided, and did not
    /// commit. Only a command of an operator may call this, while no loader of the sink runs: another loader
    /// could still commit the decided load.
    ///
    /// # Errors
    /// The database fails, or has a part of the decided load.
    fn replace_decided(&mut self) -> Result<Decided, SinkError> {
        Ok(Decided::Nothing)
    }

    /// Returns whether the database has seen the sink of this name before.
    ///
    /// # Errors
    /// The database fails.
    fn is_enrolled(&mut self) -> Result<bool, SinkError>;

    /// Notes in one transaction that the sink exists, and that it begins after these positions. Does nothing
    /// if the sink is enrolled already.
    ///
    /// # Errors
    /// The database fails.
    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError>;

    /// Returns the position of a log, or `None` if no record of the log is loaded.
    ///
    /// # Errors
    /// The database fails.
    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError>;

    /// Checks whether rows of a stream fit its table, if the table exists. Does not change the database.
    ///
    /// [`Self::write`] creates the table when it writes the first record of the stream. It also adds new
    /// columns of the stream. It never drops a column, and never changes the type of one.
    ///
    /// # Errors
    /// `StreamName` and `TypeChanged` stop the sink. The loader retries after other errors.
    fn look(&mut self, schema: &Schema) -> Result<(), SinkError>;

    /// Returns the tables of configured streams that are missing although this sink loaded rows into them, by
    /// stream. [`Self::write`] creates such a table again, without these rows.
    ///
    /// # Errors
    /// The database fails.
    fn lost_tables(&mut self) -> Result<BTreeMap<String, LostTable>, SinkError>;

    /// Returns how many copies the topics of the sink have, by name. These are all topics that the sink has
    /// written, and the existing topics of `streams`. A database has none.
    ///
    /// # Errors
    /// The broker fails.
    fn topic_copies(&mut self, _: &[String]) -> Result<BTreeMap<String, TopicCopies>, SinkError> {
        Ok(BTreeMap::new())
    }

    /// Notes the logs of this loader without a server. A killed server may have left a transaction of its log
    /// open, which the sink may end. A database ends it by itself.
    fn note_ended(&mut self, _: &[LogId]) {}

    /// Returns the number of schemas whose table was checked or created in the open transaction.
    fn tables_met(&self) -> usize;

    /// Begins a transaction for records of `log` after `expected`.
    ///
    /// # Errors
    /// `Lost` if the position is not `expected`.
    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError>;

    /// Writes the records of a batch as rows, or as rejects if the database refuses a row for its content.
    ///
    /// # Errors
    /// Any error that is not about the content of one row.
    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError>;

    /// Counts records of a stream that the sink does not take. The next batch does not contain these records.
    fn skipped(&mut self, stream: &str, count: u64);

    /// Writes a gap.
    ///
    /// # Errors
    /// The database fails.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// Moves the position to `end` and commits. `Ok` means that the load is on disk, and that the database at
    /// its path or address is still the same.
    ///
    /// # Errors
    /// `Lost` if the position is not the expected one. `Orphans` if the same load has to be written again.
    /// After these two errors, nothing is committed. After any other error, it is unknown whether the load is
    /// committed.
    fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError>;

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

    /// Returns the number of records in the gaps of all logs, by reason.
    ///
    /// # Errors
    /// The database fails.
    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError>;

    /// Gives a gap another reason. Returns false if the gap no longer exists.
    ///
    /// # Errors
    /// The database fails.
    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError>;

    /// Begins a transaction for records of `log` in this gap. `taken` are the streams of a new fill. Returns
    /// the streams of this fill: an earlier try may have decided it with others. The caller leaves the
    /// records of all other streams out, and calls [`Self::write`] and [`Self::commit_fill`].
    ///
    /// # Errors
    /// The database fails.
    fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError>;

    /// Replaces the gap by the gaps `left`, and commits. Does not change the position. `Ok` means that the
    /// load is on disk.
    ///
    /// # Errors
    /// `Lost` if the gap no longer exists. `Orphans` if the same load has to be written again. After these
    /// two errors, nothing is committed. After any other error, it is unknown whether the load is committed.
    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError>;

    /// Tries every reject again. `read` reads an item that a client sent, with the columns of the current
    /// streams. Rows that the database refused are read from their stored JSON.
    ///
    /// A reject that fits becomes a row, or a duplicate if another record now has its key. The same
    /// transaction deletes the reject and changes the counters. A reject that does not fit stays in the
    /// table, with the reason of this retry.
    ///
    /// # Errors
    /// The database fails. Transactions that were committed before the error stay committed.
    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError>;

    /// Rolls back the open transaction, if there is one.
    fn rollback(&mut self);

    /// Returns whether another program may have changed the positions since the last call. Call this between
    /// loads.
    ///
    /// # Errors
    /// `Moved` if the database is no longer the one that was opened.
    fn is_changed(&mut self) -> Result<bool, SinkError>;

    /// Does maintenance between loads, if about `bytes` bytes were written since the last time. Maintenance
    /// keeps the next loads fast and the files bounded.
    ///
    /// # Errors
    /// The database fails. All committed rows are kept.
    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError>;
}

/// A sink that loads topics of a queue. A partition of a topic is a log whose records are numbered by their
/// offsets, and which has records of other logs.
pub(crate) trait TopicSink: Sink {
    /// Counts records that the log has twice. The next batch does not contain these records.
    fn repeated(&mut self, stream: &str, count: u64);

    /// Returns a sink of this database that loads a log from its segments. The sink may have another name.
    /// Positions of topics are under the ids of partitions, so a position of the log itself is from its
    /// segments.
    ///
    /// # Errors
    /// The database fails.
    fn segment_sink(&mut self, log: LogId) -> Result<Option<String>, SinkError>;

    /// Returns the origins of a log: the last record that was loaded of each other log whose records this
    /// log has. A topic has records of several logs.
    ///
    /// # Errors
    /// The database fails.
    fn origins(&mut self, log: LogId) -> Result<BTreeMap<LogId, Sequence>, SinkError>;

    /// Notes the last record of an origin, in the open transaction.
    ///
    /// # Errors
    /// The database fails.
    fn pass(&mut self, origin: LogId, last: Sequence) -> Result<(), SinkError>;
}
