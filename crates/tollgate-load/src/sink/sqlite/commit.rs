//! Begins and commits the transaction of a load. Rows, counters and the position are committed together, or
//! not at all.

use rusqlite::{ErrorCode, params};
use tollgate_log::{Gap, LogId, Position, Sequence};

use super::chunk::SqliteChunk;
use super::connection::{failed, now_text};
use super::counts;
use super::database::SqliteSink;
use super::insert::tables_with_triggers;
use super::parents::{self, Parents};
use crate::error::SinkError;
use crate::sink::contract::Sink;
use crate::sink::refusals::Refusals;
use crate::sink::tally::StreamTallies;

/// Estimated bytes that a commit writes in addition to its rows: partly filled pages of the bookkeeping
/// tables.
const COMMIT_BYTES: u64 = 64 << 10;
const SET_LOAD: &str = "UPDATE temp.tollgate_load SET log = ?1, first = ?2, last = ?3";

impl SqliteSink {
    pub(super) fn begin_chunk(
        &mut self,
        log: LogId,
        expected: Option<Position>,
        filled: Option<Gap>,
    ) -> Result<(), SinkError> {
        self.check_files()?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(self.failed("begin a load"))?;
        let triggered = tables_with_triggers(&self.connection).map_err(self.failed("read the triggers"))?;
        self.chunk = Some(SqliteChunk {
            log,
            log_text: log.to_string(),
            expected,
            start: None,
            node: None,
            filled,
            counts: StreamTallies::default(),
            bytes: 0,
            refusals: Refusals::new(log, self.rules.rejects_max),
            triggered,
            tables_met: 0,
            parents: if self.orphaned.contains(&log) { Parents::AtRow } else { Parents::AtCommit },
        });
        Ok(())
    }

    /// Adds the counts of the chunk, runs the operator's file, and commits.
    pub(super) fn finish_chunk(
        &mut self,
        chunk: SqliteChunk,
        last: Sequence,
    ) -> Result<StreamTallies, SinkError> {
        self.add_counts(&chunk).map_err(self.failed("add to the counters"))?;
        counts::add_refusals(&self.connection, &self.name, &chunk.log_text, &chunk.refusals)
            .map_err(self.failed("count refused rows"))?;
        self.keys.store(&self.connection).map_err(failed("delete old keys", &self.path))?;
        self.run_after(&chunk, last)?;
        if chunk.parents == Parents::AtCommit && parents::are_missing(&self.connection) {
            self.orphaned.insert(chunk.log);
            return Err(SinkError::Orphans { log: chunk.log });
        }
        self.connection.execute_batch("COMMIT").map_err(self.failed("commit a load"))?;
        self.orphaned.remove(&chunk.log);
        self.check_files()?;
        self.unchecked_bytes = self.unchecked_bytes.saturating_add(2 * chunk.bytes + COMMIT_BYTES);
        Ok(chunk.counts)
    }

    pub(super) fn move_position(&self, chunk: &SqliteChunk, end: Position) -> Result<bool, rusqlite::Error> {
        let now = now_text();
        let (last, chain) = (end.last.0.cast_signed(), end.chain.map(i64::from));
        let changed = match (chunk.expected, chunk.start) {
            (Some(expected), _) => self
                .connection
                .prepare_cached(
                    "UPDATE tollgate_positions SET last = ?3, chain = ?4, loaded_at = ?5, node = coalesce(?7, node) \
                     WHERE log = ?1 AND last = ?2 AND sink = ?6",
                )?
                .execute(params![
                    chunk.log_text,
                    expected.last.0.cast_signed(),
                    last,
                    chain,
                    now,
                    self.name,
                    chunk.node
                ])?,
            (None, start) => self
                .connection
                .prepare_cached(
                    "INSERT INTO tollgate_positions (log, start, last, chain, loaded_at, sink, node) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (sink, log) DO NOTHING",
                )?
                .execute(params![
                    chunk.log_text,
                    start.unwrap_or_default().0.cast_signed(),
                    last,
                    chain,
                    now,
                    self.name,
                    chunk.node
                ])?,
        };
        Ok(changed == 1)
    }

    fn add_counts(&self, chunk: &SqliteChunk) -> Result<(), rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(
            "INSERT INTO tollgate_counts (sink, log, stream, loaded, rejected, duplicates, skipped) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (sink, log, stream) DO UPDATE SET \
             loaded = loaded + excluded.loaded, rejected = rejected + excluded.rejected, \
             duplicates = duplicates + excluded.duplicates, skipped = skipped + excluded.skipped",
        )?;
        for (stream, tally) in chunk.counts.iter() {
            let [rows, rejects, duplicates, skipped] =
                [tally.rows, tally.rejects, tally.duplicates, tally.skipped].map(u64::cast_signed);
            statement.execute(params![
                self.name,
                chunk.log_text,
                stream,
                rows,
                rejects,
                duplicates,
                skipped
            ])?;
        }
        Ok(())
    }

    /// Runs the operator's file.
    ///
    /// The file may end the transaction, which cannot be prevented. Rows and position are then committed
    /// together, or rolled back together. After a rollback, the load is reported as failed.
    fn run_after(&mut self, chunk: &SqliteChunk, last: Sequence) -> Result<(), SinkError> {
        let Some(after) = self.rules.after.clone() else { return Ok(()) };
        let text = after.read()?;
        let first = chunk.start.unwrap_or_default().after(1).0.cast_signed();
        self.connection
            .execute(SET_LOAD, params![chunk.log_text, first, last.0.cast_signed()])
            .map_err(self.failed("prepare the statements of after_load"))?;
        self.connection.execute_batch(&text).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => {
                failed("run the statements of after_load", &self.path)(error)
            }
            _ => after.failed(error),
        })?;
        // The operator's file wrote the rows without parents, because all rows of the load had their parents.
        if chunk.parents == Parents::AtRow && parents::are_missing(&self.connection) {
            return Err(after.failed(parents::MISSING));
        }
        let is_there = self.has_taken_place(chunk, last)?;
        if is_there && !self.connection.is_autocommit() { Ok(()) } else { Err(after.ended()) }
    }

    fn has_taken_place(&mut self, chunk: &SqliteChunk, last: Sequence) -> Result<bool, SinkError> {
        match &chunk.filled {
            Some(gap) => Ok(!self.gaps(chunk.log)?.contains(gap)),
            None => Ok(self.position(chunk.log)?.is_some_and(|position| position.last == last)),
        }
    }
}
