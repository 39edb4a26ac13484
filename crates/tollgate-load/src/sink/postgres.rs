//! PostgreSQL as a sink, 15 and later: rows by binary COPY, straight from the log's columns.
//!
//! One transaction brings rows, rejects, gaps, counters and the position, under the lock of the position's row: whoever
//! holds it loads, others wait for `lock_timeout` and find that the position moved. The first load of a log makes that
//! row, where the primary key decides. A connection that breaks at COMMIT leaves open whether it happened; the next one
//! reads the position, and its lock waits for a server process that is still at it.
//!
//! `synchronous_commit` is on, and looked at again by the statement that moves the position: a trigger may have changed
//! it. Errors are told apart in `error`.

mod bookkeeping;
mod chunk;
mod error;
mod lane;
mod options;
mod session;
mod table;
mod tls;
mod wire;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::after::AfterLoad;
use super::{LogCounts, Sink, Tally};
use crate::audit::STREAM_UNKNOWN;
use crate::error::SinkError;
use bookkeeping::{make, position_of, table, uuid_of};
use chunk::Chunk;
use error::{Failure, at};
use session::Session;

pub(crate) use bookkeeping::{read_counts, read_positions};
pub use options::{PostgresOptions, PostgresUrl, TableName, hide_password};

/// A PostgreSQL database that is loaded into.
pub(crate) struct PostgresSink {
    options: PostgresOptions,
    after: Option<AfterLoad>,
    rejects_max: u64,
    session: Session,
    chunk: Option<Chunk>,
}

impl PostgresSink {
    /// Connects and makes the bookkeeping tables.
    ///
    /// # Errors
    /// Nobody there, login refused, settings that would lose rows.
    pub(crate) fn open(
        options: &PostgresOptions,
        after: Option<AfterLoad>,
        rejects_max: u64,
    ) -> Result<Self, SinkError> {
        let mut session = Session::open(options)?;
        make(&mut session, options)?;
        Ok(Self { options: options.clone(), after, rejects_max, session, chunk: None })
    }

    fn at(&self, action: &'static str) -> impl FnOnce(Failure) -> SinkError + use<> {
        at(action, &self.options)
    }

    fn table(&self, name: &str) -> String {
        table(&self.options, name)
    }

    /// Reads the position of a log, and keeps it from changing if `lock` says so.
    fn read_position(&mut self, log: LogId, lock: &str) -> Result<Option<Position>, SinkError> {
        let question = format!("SELECT last, chain FROM {} WHERE log = $1 {lock}", self.table("positions"));
        let rows = self.session.query(&question, &[&uuid_of(log)]).map_err(self.at("read the position"))?;
        Ok(rows.first().map(|row| position_of(row, 0)))
    }

    /// Notes the first record of a chunk; the first of a log makes its position.
    fn saw(&mut self, first: Sequence) -> Result<(), SinkError> {
        let insert = format!(
            "INSERT INTO {} (log, start, last) VALUES ($1, $2, $2) ON CONFLICT (log) DO NOTHING",
            self.table("positions")
        );
        let claimed = self.at("claim the log");
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        if chunk.first.replace(chunk.first.unwrap_or(first)).is_some() || chunk.expected.is_some() {
            return Ok(());
        }
        let before = first.before().0.cast_signed();
        match self.session.execute(&insert, &[&uuid_of(chunk.log), &before]).map_err(claimed)? {
            1 => Ok(()),
            _ => Err(SinkError::Lost { log: chunk.log }),
        }
    }

    fn move_position(&mut self, chunk: &Chunk, end: Position) -> Result<(), SinkError> {
        let update = format!(
            "UPDATE {} SET last = $3, chain = $4, loaded_at = now() WHERE log = $1 AND last = $2 \
             RETURNING current_setting('synchronous_commit')",
            self.table("positions")
        );
        let before = chunk.expected.map(|position| position.last);
        let before = before.or(chunk.first.map(Sequence::before)).unwrap_or_default().0.cast_signed();
        let (last, chain) = (end.last.0.cast_signed(), end.chain.map(i64::from));
        let rows = self
            .session
            .query(&update, &[&uuid_of(chunk.log), &before, &last, &chain])
            .map_err(self.at("move the position"))?;
        let Some(row) = rows.first() else { return Err(SinkError::Lost { log: chunk.log }) };
        match row.get(0) {
            "off" => Err(SinkError::ServerSetting {
                server: self.options.server.to_string(),
                setting: "synchronous_commit",
                found: "off, set by a trigger".to_owned(),
                needed: "anything else: a crash would lose commits",
            }),
            _ => Ok(()),
        }
    }

    fn add_counts(&mut self, chunk: &Chunk) -> Result<(), SinkError> {
        let upsert = format!(
            "INSERT INTO {} AS old (log, stream, loaded, rejected) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (log, stream) DO UPDATE SET \
             loaded = old.loaded + excluded.loaded, rejected = old.rejected + excluded.rejected",
            self.table("counts")
        );
        for (stream, tally) in &chunk.counts {
            let (rows, rejects) = (tally.rows.cast_signed(), tally.rejects.cast_signed());
            self.session
                .execute(&upsert, &[&uuid_of(chunk.log), stream, &rows, &rejects])
                .map_err(self.at("add to the counters"))?;
        }
        Ok(())
    }

    /// Runs the operator's file. It may end the transaction, for nobody can keep it from that: then rows and position
    /// went the same way, and where that was back, the load is told as failed.
    fn run_after(&mut self, chunk: &Chunk, end: Position) -> Result<(), SinkError> {
        let Some(after) = self.after.clone() else { return Ok(()) };
        let text = after.read()?;
        let settings = "SELECT set_config('tollgate.log', $1, true), set_config('tollgate.first', $2, true), \
             set_config('tollgate.last', $3, true)";
        let first = chunk.first.unwrap_or(end.last).to_string();
        self.session
            .query(settings, &[&chunk.log.to_string(), &first, &end.last.to_string()])
            .map_err(self.at("set up what runs after a load"))?;
        self.session.run(&text).map_err(|failure| match self.at("run after a load")(failure) {
            SinkError::Server { remedy: crate::error::Remedy::Operator, source, .. } => after.failed(source),
            error => error,
        })?;
        match self.read_position(chunk.log, "")?.map(|position| position.last) {
            Some(last) if last == end.last => Ok(()),
            _ => Err(after.ended()),
        }
    }
}

impl Sink for PostgresSink {
    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        self.read_position(log, "")
    }

    fn ensure(&mut self, schema: &Schema) -> Result<(), SinkError> {
        self.session.run("BEGIN").map_err(self.at("begin to make tables"))?;
        if let Err(error) = table::plan(&mut self.session, &self.options, schema) {
            self.rollback();
            return Err(error);
        }
        self.session.run("COMMIT").map_err(self.at("make tables"))
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        self.session.run("BEGIN").map_err(self.at("begin a load"))?;
        self.chunk = Some(Chunk::new(log, expected, self.rejects_max));
        let found = self.read_position(log, "FOR UPDATE")?;
        match found.map(|found| found.last) == expected.map(|expected| expected.last) {
            true => Ok(()),
            false => Err(SinkError::Lost { log }),
        }
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        self.saw(batch.first())?;
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        let mut sequence = batch.first();
        for record in batch.records() {
            match record {
                Ok(record) => chunk.record(&mut self.session, &self.options, &record)?,
                Err(error) => chunk.reject(sequence, STREAM_UNKNOWN, &error.to_string(), &[]),
            }
            sequence = sequence.after(1);
        }
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.saw(gap.first)?;
        let insert =
            format!("INSERT INTO {} (log, first, last, reason) VALUES ($1, $2, $3, $4)", self.table("gaps"));
        let noted = self.at("note a gap");
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        chunk.missing += gap.last.after(1).0 - gap.first.0;
        let (first, last) = (gap.first.0.cast_signed(), gap.last.0.cast_signed());
        let reason = gap.reason.replace('\0', "\u{fffd}");
        self.session.execute(&insert, &[&uuid_of(chunk.log), &first, &last, &reason]).map_err(noted)?;
        Ok(())
    }

    fn commit(&mut self, end: Position) -> Result<Tally, SinkError> {
        let Some(mut chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        chunk.store(&mut self.session, &self.options)?;
        self.add_counts(&chunk)?;
        self.move_position(&chunk, end)?;
        self.run_after(&chunk, end)?;
        self.session.run("COMMIT").map_err(self.at("commit a load"))?;
        let mut tally = Tally { missing: chunk.missing, ..Tally::default() };
        for count in chunk.counts.values() {
            tally.rows += count.rows;
            tally.rejects += count.rejects;
        }
        Ok(tally)
    }

    fn rollback(&mut self) {
        self.chunk = None;
        // A connection that broke has given its transaction up by that.
        if self.session.is_usable()
            && let Err(error) = self.session.run("ROLLBACK")
        {
            tracing::warn!(database = %self.options.server, %error, "rollback failed");
        }
    }

    /// PostgreSQL keeps itself tidy: autovacuum does, when it should.
    fn tidy(&mut self, _bytes: u64) -> Result<(), SinkError> {
        Ok(())
    }
}
