//! SQLite as a sink. One connection writes, in WAL mode, with a sync at every commit.
//!
//! Other programs may read the database at the same time (for example `tollgate sql`), and even write to it.
//! While another program holds the lock, the sink waits. Checkpoints run between commits, never inside one,
//! so a commit needs only one sync of the WAL. The WAL stays bounded unless a reader keeps an old snapshot
//! for a long time.
//!
//! The file is checked before each load and after each commit. If the file was removed or replaced in
//! between, the load is lost. The connection is then closed without a checkpoint, because a checkpoint would
//! write into the files of another database.
//!
//! If a statement fails because of the content of its row, the transaction stays intact (`INSERT OR ABORT`).
//! `insert` lists the cases that need a savepoint. So rows need no bisection: a refused row becomes a reject,
//! and the other rows are loaded.

mod bind;
mod bookkeeping;
mod chunk;
mod commit;
mod connection;
mod counts;
mod database;
mod fill;
mod insert;
mod keys;
mod leases;
mod lost;
mod moved;
mod origins;
mod parents;
mod positions;
mod record_writer;
mod reject;
mod retry;
mod sync;
mod table;

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::contract::{Sink, TopicSink};
use super::reject::{ReadItem, Refused, Retried};
use super::streams::{STREAM_UNKNOWN, Taken};
use super::tally::{LostTable, StreamTallies, Tally};
use crate::error::SinkError;
use connection::{failed, now_text};
use record_writer::RecordWriter;
use retry::RetryError;
use table::EnsureError;

pub(super) use counts::read_counts;
pub(super) use database::SqliteSink;
pub(super) use leases::SqliteLeases;
pub(super) use positions::read_positions;
pub(super) use table::check;

impl Sink for SqliteSink {
    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        self.connection
            .query_row("SELECT 1 FROM tollgate_sinks WHERE sink = ?1", [&self.name], |_| Ok(()))
            .optional()
            .map(|row| row.is_some())
            .map_err(self.failed("read whether the sink is new"))
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failed("begin to enroll the sink"))?;
        let enrolled = enroll(&self.connection, &self.name, ends);
        enrolled.and_then(|()| self.connection.execute_batch("COMMIT")).map_err(|error| {
            let error = self.failed("enroll the sink")(error);
            self.rollback();
            error
        })
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        let row = |row: &rusqlite::Row<'_>| {
            let (last, chain): (i64, Option<u32>) = (row.get(0)?, row.get(1)?);
            Ok(Position { last: Sequence(last.cast_unsigned()), chain })
        };
        self.connection
            .prepare_cached("SELECT last, chain FROM tollgate_positions WHERE sink = ?1 AND log = ?2")
            .and_then(|mut statement| {
                statement.query_row(params![self.name, log.to_string()], row).optional()
            })
            .map_err(self.failed("read the position"))
    }

    fn look(&mut self, schema: &Schema) -> Result<(), SinkError> {
        if self.tables.contains_key(schema) {
            return Ok(());
        }
        table::look(&self.connection, &self.rules.declared, schema).map_err(|error| match error {
            EnsureError::Refused(error) => error,
            EnsureError::Database(error) => self.failed("read the columns of a table")(error),
        })
    }

    fn lost_tables(&mut self) -> Result<BTreeMap<String, LostTable>, SinkError> {
        lost::lost_tables(&self.connection, &self.name, &self.rules.declared)
            .map_err(self.failed("look for missing tables"))
    }

    fn tables_met(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.tables_met)
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.begin_chunk(log, expected, None)?;
        // The commit checks the position again. The early check saves the work of a chunk that cannot be
        // committed.
        if self.position(log)?.map(|found| found.last) != expected.map(|position| position.last) {
            return Err(SinkError::Lost { log });
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.enter(batch);
        let mut writer = RecordWriter {
            declared: &self.rules.declared,
            path: &self.path,
            connection: &self.connection,
            tables: &mut self.tables,
            sink: &self.name,
            keys: &mut self.keys,
            log_text: &chunk.log_text,
            triggered: &chunk.triggered,
            parents: chunk.parents,
            inserts: Vec::new(),
            remade: &mut chunk.counts.remade,
            tables_met: &mut chunk.tables_met,
            refusals: &mut chunk.refusals,
        };
        let mut undecodable = Tally::default();
        for (sequence, record) in batch.numbered() {
            match record {
                Ok(record) => writer.record(&record)?,
                Err(error) => {
                    writer.reject(sequence, STREAM_UNKNOWN, &Refused::at_ingest(&error.to_string(), &[]))?;
                    undecodable.rejects += 1;
                }
            }
        }
        let RecordWriter { inserts, .. } = writer;
        for insert in &inserts {
            chunk.counts.add(insert.stream, insert.tally);
        }
        if undecodable.rejects > 0 {
            chunk.counts.add(STREAM_UNKNOWN, undecodable);
        }
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.saw(gap.first);
        chunk.counts.missing = chunk.counts.missing.saturating_add(gap.first.count_to(gap.last));
        let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
        self.connection
            .execute(
                "INSERT INTO tollgate_gaps (sink, log, first, last, reason, since) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![self.name, chunk.log_text, first, last, gap.reason, now_text()],
            )
            .map_err(failed("record a gap", &self.path))?;
        Ok(())
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.counts.add(stream, Tally { skipped: count, ..Tally::default() });
        }
    }

    fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(StreamTallies::default()) };
        if !self.move_position(&chunk, end).map_err(self.failed("move the position"))? {
            return Err(SinkError::Lost { log: chunk.log });
        }
        self.finish_chunk(chunk, end.last)
    }

    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        reject::between(&self.connection, &self.name, log, (first, last))
            .map_err(self.failed("read the rejects"))
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        fill::gaps(&self.connection, &self.name, log).map_err(self.failed("read the gaps"))
    }

    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError> {
        fill::records(&self.connection, &self.name).map_err(self.failed("count the records of gaps"))
    }

    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError> {
        let renamed = fill::rename(&self.connection, &self.name, log, gap, reason);
        let is_renamed = renamed.map_err(self.failed("change the reason of a gap"))?;
        self.check_files()?;
        Ok(is_renamed)
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError> {
        self.begin_chunk(log, None, Some(gap.clone()))?;
        Ok(taken.clone())
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        let Some(gap) = &chunk.filled else { return Ok(Tally::default()) };
        let is_replaced = fill::replace(&self.connection, &self.name, &chunk.log_text, gap, left);
        if !is_replaced.map_err(self.failed("fill a gap"))? {
            return Err(SinkError::Lost { log: chunk.log });
        }
        let last = gap.last;
        Ok(self.finish_chunk(chunk, last)?.total())
    }

    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        let retried = retry::retry(&self.connection, &self.name, &mut self.keys, read);
        let retried = retried.map_err(|error| match error {
            RetryError::Database(error) => self.failed("retry rejects")(error),
            RetryError::RolledBack(table) => SinkError::RolledBack { table },
        })?;
        self.check_files()?;
        Ok(retried)
    }

    fn rollback(&mut self) {
        self.chunk = None;
        // The rollback also removed tables that were created in the transaction.
        self.tables.clear();
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(database = %self.path.display(), %error, "rollback failed");
        }
    }

    fn is_changed(&mut self) -> Result<bool, SinkError> {
        self.look_at_files()
    }

    fn tidy(&mut self, bytes: u64) -> Result<(), SinkError> {
        if self.unchecked_bytes < bytes {
            return Ok(());
        }
        self.check_files()?;
        self.unchecked_bytes = 0;
        let wal_frames: i64 = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
            .map_err(self.failed("checkpoint the WAL"))?;
        let page_bytes: i64 = self
            .connection
            .query_row("PRAGMA page_size", [], |row| row.get(0))
            .map_err(self.failed("read"))?;
        self.warn_of_large_wal(wal_frames, page_bytes);
        Ok(())
    }
}

impl TopicSink for SqliteSink {
    fn repeated(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.counts.add(stream, Tally { duplicates: count, ..Tally::default() });
        }
    }

    fn segment_sink(&mut self, log: LogId) -> Result<Option<String>, SinkError> {
        positions::sink_of(&self.connection, log).map_err(self.failed("read which sink loads a log"))
    }

    fn origins(&mut self, log: LogId) -> Result<BTreeMap<LogId, Sequence>, SinkError> {
        origins::read(&self.connection, &self.name, log).map_err(self.failed("read the origins of a log"))
    }

    fn pass(&mut self, origin: LogId, last: Sequence) -> Result<(), SinkError> {
        let Some(chunk) = &self.chunk else { return Ok(()) };
        origins::write(&self.connection, &self.name, &chunk.log_text, (origin, last))
            .map_err(self.failed("note the origin of records"))
    }
}

/// Enrolls the sink. Does nothing if another loader has enrolled the sink already.
fn enroll(
    connection: &Connection,
    sink: &str,
    ends: &BTreeMap<LogId, Position>,
) -> Result<(), rusqlite::Error> {
    let now = now_text();
    let new = connection.execute(
        "INSERT INTO tollgate_sinks (sink, since) VALUES (?1, ?2) ON CONFLICT (sink) DO NOTHING",
        params![sink, now],
    )?;
    if new == 0 {
        return Ok(());
    }
    let mut position = connection.prepare_cached(
        "INSERT INTO tollgate_positions (sink, log, start, last, chain, loaded_at) \
         VALUES (?1, ?2, ?3, ?3, ?4, ?5) ON CONFLICT (sink, log) DO NOTHING",
    )?;
    for (log, end) in ends {
        let (last, chain) = (end.last.0.cast_signed(), end.chain.map(i64::from));
        position.execute(params![sink, log.to_string(), last, chain, now])?;
    }
    Ok(())
}
