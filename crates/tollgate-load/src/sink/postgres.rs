//! PostgreSQL 15 and later as a sink. Rows are written by binary COPY, directly from the log's columns.
//!
//! One transaction writes rows, rejects, gaps, counters and the position, under a lock of the row that has
//! the position. Only the loader with the lock loads. Other loaders wait for the lock, at most
//! `lock_timeout`, and then find that the position moved. The first load of a log inserts the row with the
//! position. If two loaders insert it at once, the primary key lets only one of them continue.
//!
//! If a connection breaks at COMMIT, the outcome is unknown. The next connection reads the position with a
//! lock, so it waits for a server process that still works on the commit.
//!
//! `synchronous_commit` is on. The statement that moves the position checks that setting again, because a
//! trigger may have changed it. `error` classifies the errors.

mod bisection;
mod bookkeeping;
#[cfg(feature = "lake")]
mod catalog;
mod chunk;
mod claims;
mod column_wire;
mod copy_buffer;
mod error;
mod fill;
mod keys;
mod leases;
mod lost;
mod names;
mod numeric;
mod options;
mod origins;
mod refusals;
mod retry;
mod session;
mod table;
mod tls;
mod wire;

use std::collections::BTreeMap;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::contract::{Sink, TopicSink};
use super::reject::{ReadItem, Refused, Retried};
use super::streams::{STREAM_UNKNOWN, Taken};
use super::tally::{LostTable, StreamTallies, Tally};
use super::write_rules::WriteRules;
use crate::error::SinkError;
use bookkeeping::{enroll, make, position_of, sink_of};
use chunk::PostgresChunk;
use error::{Failure, at};
use keys::PostgresKeys;
use lost::lost_tables;
use names::{table, uuid_of};
use session::Session;
pub(crate) use session::connect;

pub(crate) use bookkeeping::{read_counts, read_positions};
#[cfg(feature = "lake")]
pub(crate) use catalog::PostgresCatalog;
pub(crate) use leases::PostgresLeases;
pub use options::{PostgresOptions, PostgresUrl, TableName, hide_password};
pub(crate) use table::check;

/// A PostgreSQL database as a sink.
pub(crate) struct PostgresSink {
    options: PostgresOptions,
    /// Name of the sink in the bookkeeping.
    name: String,
    rules: WriteRules,
    session: Session,
    keys: PostgresKeys,
    chunk: Option<PostgresChunk>,
}

impl PostgresSink {
    /// Connects, and creates the bookkeeping tables.
    ///
    /// # Errors
    /// No server answers, the server refuses the login, or its settings could lose rows.
    pub(crate) fn open(options: &PostgresOptions, name: &str, rules: WriteRules) -> Result<Self, SinkError> {
        let mut session = Session::open(options)?;
        make(&mut session, options)?;
        let keys = PostgresKeys::new(&mut session, options, name);
        let keys = keys.map_err(at("read how long keys are kept", options))?;
        let (options, name) = (options.clone(), name.to_owned());
        Ok(Self { options, name, rules, session, keys, chunk: None })
    }

    fn at(&self, action: &'static str) -> impl FnOnce(Failure) -> SinkError + use<> {
        at(action, &self.options)
    }

    fn table(&self, name: &str) -> String {
        table(&self.options, name)
    }

    /// Reads the position of a log. `lock` is the end of the statement, which may lock the row against other
    /// loaders.
    fn read_position(&mut self, log: LogId, lock: &str) -> Result<Option<Position>, SinkError> {
        let positions = self.table("positions");
        let question = format!("SELECT last, chain FROM {positions} WHERE sink = $1 AND log = $2 {lock}");
        let rows = self.session.query(&question, &[&self.name, &uuid_of(log)]);
        let rows = rows.map_err(self.at("read the position"))?;
        Ok(rows.first().map(|row| position_of(row, 0)))
    }

    fn begin_chunk(
        &mut self,
        log: LogId,
        expected: Option<Position>,
        filled: Option<Gap>,
    ) -> Result<(), SinkError> {
        self.session.run("BEGIN").map_err(self.at("begin a load"))?;
        self.chunk = Some(PostgresChunk::new(&self.name, log, (expected, filled), &self.rules));
        Ok(())
    }

    /// Notes the first record of a chunk. For the first chunk of a log, inserts the row with the position.
    fn saw(&mut self, first: Sequence) -> Result<(), SinkError> {
        let insert = format!(
            "INSERT INTO {} (sink, log, start, last) VALUES ($1, $2, $3, $3) ON CONFLICT (sink, log) DO NOTHING",
            self.table("positions")
        );
        let claimed = self.at("claim the log");
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        let is_first = chunk.first.replace(chunk.first.unwrap_or(first)).is_none();
        if !is_first || chunk.expected.is_some() || chunk.filled.is_some() {
            return Ok(());
        }
        let before = first.before().0.cast_signed();
        match self.session.execute(&insert, &[&self.name, &uuid_of(chunk.log), &before]).map_err(claimed)? {
            1 => Ok(()),
            _ => Err(SinkError::Lost { log: chunk.log }),
        }
    }

    fn move_position(&mut self, chunk: &PostgresChunk, end: Position) -> Result<(), SinkError> {
        let update = format!(
            "UPDATE {} SET last = $4, chain = $5, loaded_at = now(), node = coalesce($6, node) \
             WHERE sink = $1 AND log = $2 AND last = $3 \
             RETURNING current_setting('synchronous_commit')",
            self.table("positions")
        );
        let before = chunk.expected.map(|position| position.last);
        let before = before.or(chunk.first.map(Sequence::before)).unwrap_or_default().0.cast_signed();
        let (last, chain) = (end.last.0.cast_signed(), end.chain.map(i64::from));
        let rows = self
            .session
            .query(&update, &[&self.name, &uuid_of(chunk.log), &before, &last, &chain, &chunk.node])
            .map_err(self.at("move the position"))?;
        let Some(row) = rows.first() else { return Err(SinkError::Lost { log: chunk.log }) };
        self.check_commits(row.get(0))
    }

    fn check_commits(&self, synchronous_commit: &str) -> Result<(), SinkError> {
        match synchronous_commit {
            "off" => Err(SinkError::ServerSetting {
                server: self.options.server.to_string(),
                setting: "synchronous_commit",
                found: "off, set by a trigger".to_owned(),
                needed: "any other value, because a crash would lose commits",
            }),
            _ => Ok(()),
        }
    }

    fn add_counts(&mut self, chunk: &PostgresChunk) -> Result<(), SinkError> {
        let upsert = format!(
            "INSERT INTO {} AS old (sink, log, stream, loaded, rejected, duplicates, skipped) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (sink, log, stream) DO UPDATE SET \
             loaded = old.loaded + excluded.loaded, rejected = old.rejected + excluded.rejected, \
             duplicates = old.duplicates + excluded.duplicates, skipped = old.skipped + excluded.skipped",
            self.table("counts")
        );
        for (stream, tally) in chunk.counts.iter() {
            let [rows, rejects, duplicates, skipped] =
                [tally.rows, tally.rejects, tally.duplicates, tally.skipped].map(u64::cast_signed);
            let log = uuid_of(chunk.log);
            self.session
                .execute(&upsert, &[&self.name, &log, stream, &rows, &rejects, &duplicates, &skipped])
                .map_err(self.at("add to the counters"))?;
        }
        Ok(())
    }

    /// Adds the counts of the chunk, runs the operator's file, and commits.
    fn finish_chunk(&mut self, chunk: PostgresChunk, last: Sequence) -> Result<StreamTallies, SinkError> {
        self.add_counts(&chunk)?;
        self.keys.store(&mut self.session).map_err(at("delete old keys", &self.options))?;
        self.run_after(&chunk, last)?;
        self.session.run("COMMIT").map_err(self.at("commit a load"))?;
        Ok(chunk.counts)
    }

    /// Runs the operator's file.
    ///
    /// The file may end the transaction, which cannot be prevented. Rows and position are then committed
    /// together, or rolled back together. After a rollback, the load is reported as failed.
    fn run_after(&mut self, chunk: &PostgresChunk, last: Sequence) -> Result<(), SinkError> {
        let Some(after) = self.rules.after.clone() else { return Ok(()) };
        let text = after.read()?;
        let settings = "SELECT set_config('tollgate.log', $1, true), set_config('tollgate.first', $2, true), \
             set_config('tollgate.last', $3, true)";
        let first = chunk.first.unwrap_or(last).to_string();
        self.session
            .query(settings, &[&chunk.log.to_string(), &first, &last.to_string()])
            .map_err(self.at("prepare the statements of after_load"))?;
        self.session.run(&text).map_err(|failure| {
            match self.at("run the statements of after_load")(failure) {
                SinkError::Server { remedy: crate::error::Remedy::Operator, source, .. } => {
                    after.failed(source)
                }
                error => error,
            }
        })?;
        if self.has_taken_place(chunk, last)? { Ok(()) } else { Err(after.ended()) }
    }

    fn has_taken_place(&mut self, chunk: &PostgresChunk, last: Sequence) -> Result<bool, SinkError> {
        match &chunk.filled {
            Some(gap) => Ok(!self.gaps(chunk.log)?.contains(gap)),
            None => Ok(self.read_position(chunk.log, "")?.is_some_and(|position| position.last == last)),
        }
    }
}

impl Sink for PostgresSink {
    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        let question = format!("SELECT 1 FROM {} WHERE sink = $1", self.table("sinks"));
        let rows = self.session.query(&question, &[&self.name]);
        Ok(!rows.map_err(self.at("read whether the sink is new"))?.is_empty())
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        let enrolled = enroll(&mut self.session, &self.options, &self.name, ends);
        enrolled.map_err(|failure| {
            self.rollback();
            self.at("enroll the sink")(failure)
        })
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        self.read_position(log, "")
    }

    fn look(&mut self, schema: &Schema) -> Result<(), SinkError> {
        table::look(&mut self.session, &self.options, &self.rules.declared, schema)
    }

    fn lost_tables(&mut self) -> Result<BTreeMap<String, LostTable>, SinkError> {
        lost_tables(&mut self.session, &self.options, &self.name, &self.rules.declared)
            .map_err(at("look for missing tables", &self.options))
    }

    fn tables_met(&self) -> usize {
        self.chunk.as_ref().map_or(0, PostgresChunk::tables_met)
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.begin_chunk(log, expected, None)?;
        let found = self.read_position(log, "FOR UPDATE")?;
        match found.map(|found| found.last) == expected.map(|expected| expected.last) {
            true => Ok(()),
            false => Err(SinkError::Lost { log }),
        }
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        self.saw(batch.first())?;
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.enter(batch);
        for (sequence, record) in batch.numbered() {
            match record {
                Ok(record) => chunk.record(&mut self.session, &self.options, &record)?,
                Err(error) => {
                    chunk.reject(sequence, STREAM_UNKNOWN, &Refused::at_ingest(&error.to_string(), &[]));
                }
            }
        }
        Ok(())
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.skipped(stream, count);
        }
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.saw(gap.first)?;
        let insert = format!(
            "INSERT INTO {} (sink, log, first, last, reason) VALUES ($1, $2, $3, $4, $5)",
            self.table("gaps")
        );
        let noted = self.at("record a gap");
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.counts.missing = chunk.counts.missing.saturating_add(gap.first.count_to(gap.last));
        let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
        let reason = gap.reason.replace('\0', "\u{fffd}");
        self.session
            .execute(&insert, &[&self.name, &uuid_of(chunk.log), &first, &last, &reason])
            .map_err(noted)?;
        Ok(())
    }

    fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError> {
        let Some(mut chunk) = self.chunk.take() else { return Ok(StreamTallies::default()) };
        chunk.store(&mut self.session, &self.options, &mut self.keys)?;
        self.move_position(&chunk, end)?;
        self.finish_chunk(chunk, end.last)
    }

    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        let question = format!(
            "SELECT sequence, reason FROM {} WHERE sink = $1 AND log = $2 AND sequence BETWEEN $3 AND $4 \
             ORDER BY sequence",
            self.table("rejects")
        );
        let (first, last) = (first.0.cast_signed(), last.0.cast_signed());
        let rows = self.session.query(&question, &[&self.name, &uuid_of(log), &first, &last]);
        let rows = rows.map_err(self.at("read the rejects"))?;
        Ok(rows.iter().map(|row| (Sequence(row.get::<_, i64>(0).cast_unsigned()), row.get(1))).collect())
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        fill::gaps(&mut self.session, &self.options, &self.name, log).map_err(self.at("read the gaps"))
    }

    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError> {
        let counted = fill::records(&mut self.session, &self.options, &self.name);
        counted.map_err(self.at("count the records of gaps"))
    }

    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError> {
        let renamed = fill::rename(&mut self.session, &self.options, &self.name, log, (gap, reason));
        renamed.map_err(self.at("change the reason of a gap"))
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError> {
        self.begin_chunk(log, None, Some(gap.clone()))?;
        let is_there = fill::lock(&mut self.session, &self.options, &self.name, log, gap);
        match is_there.map_err(self.at("lock a gap"))? {
            true => Ok(taken.clone()),
            false => Err(SinkError::Lost { log }),
        }
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        let Some(mut chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        let Some(gap) = chunk.filled.clone() else { return Ok(Tally::default()) };
        chunk.store(&mut self.session, &self.options, &mut self.keys)?;
        let replaced = fill::replace(&mut self.session, &self.options, &self.name, chunk.log, (&gap, left));
        let Some(synchronous_commit) = replaced.map_err(self.at("fill a gap"))? else {
            return Err(SinkError::Lost { log: chunk.log });
        };
        self.check_commits(&synchronous_commit)?;
        Ok(self.finish_chunk(chunk, gap.last)?.total())
    }

    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        retry::retry(&mut self.session, &self.options, &self.name, &mut self.keys, read)
    }

    fn rollback(&mut self) {
        self.chunk = None;
        // If the connection is broken, the server ends the transaction.
        if self.session.is_usable()
            && let Err(error) = self.session.run("ROLLBACK")
        {
            tracing::warn!(database = %self.options.server, %error, "rollback failed");
        }
    }

    /// Returns false, because no check is needed. If a server is restored, its sessions end, and the next
    /// session reads the positions.
    fn is_changed(&mut self) -> Result<bool, SinkError> {
        Ok(false)
    }

    /// Does nothing, because the autovacuum of PostgreSQL does the maintenance.
    fn tidy(&mut self, _bytes: u64) -> Result<(), SinkError> {
        Ok(())
    }
}

impl TopicSink for PostgresSink {
    fn repeated(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.counts.add(stream, Tally { duplicates: count, ..Tally::default() });
        }
    }

    fn segment_sink(&mut self, log: LogId) -> Result<Option<String>, SinkError> {
        sink_of(&mut self.session, &self.options, log).map_err(self.at("read which sink loads a log"))
    }

    fn origins(&mut self, log: LogId) -> Result<BTreeMap<LogId, Sequence>, SinkError> {
        origins::read(&mut self.session, &self.options, &self.name, log)
            .map_err(self.at("read the origins of a log"))
    }

    fn pass(&mut self, origin: LogId, last: Sequence) -> Result<(), SinkError> {
        let Some(chunk) = &self.chunk else { return Ok(()) };
        origins::write(&mut self.session, &self.options, &self.name, chunk.log, (origin, last))
            .map_err(self.at("note the origin of records"))
    }
}
