//! The rows, rejects and counts of one transaction, and their transfer to the tables.
//!
//! All rows of a stream are written by one COPY. If the server refuses a row for its content, `bisection`
//! finds it. A row without its parent is tried again after all other rows. The parent may be a later row, or
//! may wait for its own parent. A row that then still lacks its parent becomes a reject.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tollgate_log::{Gap, LogId, Position, Record, RecordBatch, RecordBody, Schema, SchemaId, Sequence};
use uuid::Uuid;

use super::bisection::{Bisection, BisectionStep, Direction, Refusal};
use super::claims::Claims;
use super::copy_buffer::{ClosedCopyBuffer, CopyBuffer, copy_data};
use super::error::at;
use super::keys::PostgresKeys;
use super::names::{table, uuid_of};
use super::options::PostgresOptions;
use super::refusals;
use super::session::Session;
use super::table::plan;
use crate::error::SinkError;
use crate::sink::declared::DeclaredStreams;
use crate::sink::json::readable;
use crate::sink::key::{millis, storable};
use crate::sink::refusals::Refusals;
use crate::sink::reject::{Refused, RefusedBy};
use crate::sink::tally::{StreamTallies, Tally};
use crate::sink::write_rules::WriteRules;

/// Maximum number of passes over rows that lack their parents. Passes also end after a pass that stored and
/// refused no row. Without the maximum, a client could cause work that grows with the square of its rows. One
/// pass stores a whole chain of parents that follow each other in its direction.
const WAITING_PASSES_MAX: usize = 16;

/// An open transaction.
pub(super) struct PostgresChunk {
    sink: String,
    pub(super) log: LogId,
    pub(super) expected: Option<Position>,
    /// Gap that the transaction fills. `None` if the transaction moves the position.
    pub(super) filled: Option<Gap>,
    /// First record of the chunk. `None` before the first record.
    pub(super) first: Option<Sequence>,
    /// The name of the machine that wrote the log, as soon as a batch has it.
    pub(super) node: Option<String>,
    declared: DeclaredStreams,
    pub(super) counts: StreamTallies,
    buffers: Vec<CopyBuffer>,
    rejects: Rejects,
    refusals: Refusals,
}

impl PostgresChunk {
    pub(super) fn new(
        sink: &str,
        log: LogId,
        (expected, filled): (Option<Position>, Option<Gap>),
        rules: &WriteRules,
    ) -> Self {
        Self {
            declared: rules.declared.clone(),
            sink: sink.to_owned(),
            log,
            expected,
            filled,
            first: None,
            node: None,
            counts: StreamTallies::default(),
            buffers: Vec::new(),
            rejects: Rejects { log: uuid_of(log), data: BytesMut::new() },
            refusals: Refusals::new(log, rules.rejects_max),
        }
    }

    /// Writes a record: encodes its row, or stores it as a reject.
    pub(super) fn record(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        record: &Record<'_>,
    ) -> Result<(), SinkError> {
        let (sequence, stream) = (record.sequence, record.schema.stream());
        match &record.body {
            RecordBody::Reject { reason, item } => {
                // The reject may be retried later, and then becomes a row of this table.
                self.buffer(session, options, record.schema_id, record.schema)?;
                self.reject(sequence, stream, &Refused::at_ingest(reason, item));
            }
            RecordBody::Row(values) => {
                let buffer = self.buffer(session, options, record.schema_id, record.schema)?;
                if let Err(reason) = buffer.push(sequence, values) {
                    self.refuse(session, options, sequence)?;
                    self.reject(sequence, stream, &Refused::row(reason, record.schema, values));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of tables that were checked and locked.
    pub(super) fn tables_met(&self) -> usize {
        self.buffers.len()
    }

    /// Stores a record that is no row.
    pub(super) fn reject(&mut self, sequence: Sequence, stream: &str, refused: &Refused<'_>) {
        self.rejects.push(&self.sink, sequence, stream, refused);
        self.counts.add(stream, Tally { rejects: 1, ..Tally::default() });
    }

    /// Notes the segment and the machine of the next records.
    pub(super) fn enter(&mut self, batch: &RecordBatch<'_>) {
        self.refusals.enter(batch.segment());
        if self.node.is_none() && !batch.node().is_empty() {
            self.node = Some(batch.node().to_owned());
        }
    }

    /// Counts a row that the database refused. Items that were refused at ingest do not count, because they
    /// were never written to the table.
    fn refuse(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        row: Sequence,
    ) -> Result<(), SinkError> {
        let (sink, log) = (&self.sink, self.log);
        self.refusals.count(row, |segment| {
            refusals::read(session, options, sink, log, segment)
                .map_err(at("read how many rows were refused", options))
        })
    }

    /// Counts records of a stream that the sink does not take.
    pub(super) fn skipped(&mut self, stream: &str, skipped: u64) {
        self.counts.add(stream, Tally { skipped, ..Tally::default() });
    }

    fn buffer(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        id: SchemaId,
        schema: &Arc<Schema>,
    ) -> Result<&mut CopyBuffer, SinkError> {
        let at = match self.buffers.iter().position(|buffer| buffer.schema_id == id) {
            Some(at) => at,
            None => {
                let mut plan = plan(session, options, (&self.sink, &self.declared), schema)?;
                let stream = schema.stream();
                self.counts.remade.extend(plan.remade.take().map(|table| (stream.to_owned(), table)));
                self.buffers.push(CopyBuffer::new(id, schema.clone(), plan));
                self.buffers.len() - 1
            }
        };
        Ok(&mut self.buffers[at])
    }

    /// Writes rows, rejects and counts to the tables.
    pub(super) fn store(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        keys: &mut PostgresKeys,
    ) -> Result<(), SinkError> {
        let buffers: Vec<_> =
            self.buffers.drain(..).map(CopyBuffer::close).filter(|buffer| buffer.rows() > 0).collect();
        match buffers.iter().all(|buffer| buffer.keyed().is_empty()) {
            true => drop(self.copy(session, options, &buffers)?),
            false => self.store_keyed(session, options, keys, &buffers)?,
        }
        refusals::add(session, options, &self.sink, self.log, &self.refusals)
            .map_err(at("count refused rows", options))?;
        self.rejects.store(session, options)
    }

    fn store_keyed(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        keys: &mut PostgresKeys,
        buffers: &[ClosedCopyBuffer],
    ) -> Result<(), SinkError> {
        let failed = || at("claim keys", options);
        let mut claims = Claims::of(buffers);
        let mut rows: Vec<_> = buffers.iter().map(ClosedCopyBuffer::without_key).collect();
        while !claims.is_empty() {
            claims.claim(session, keys, self.log, &mut rows).map_err(failed())?;
            let chosen =
                buffers.iter().zip(&mut rows).map(|(buffer, rows)| buffer.select(&std::mem::take(rows)));
            let chosen: Vec<_> = chosen.filter(|buffer| buffer.rows() > 0).collect();
            let refused = self.copy(session, options, &chosen)?;
            let copied = chosen.iter().flat_map(ClosedCopyBuffer::sequences).collect();
            claims.settle(session, keys, &copied, &refused).map_err(failed())?;
        }
        for (stream, duplicates) in claims.duplicates() {
            self.counts.add(stream, Tally { duplicates: *duplicates, ..Tally::default() });
        }
        Ok(())
    }

    /// Copies rows. Returns the records of the rows that the server refused, which are now rejects. Rows that
    /// lack their parents wait until all other rows are stored, and are then tried again.
    fn copy(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        buffers: &[ClosedCopyBuffer],
    ) -> Result<HashSet<Sequence>, SinkError> {
        let mut pass = self.pass(session, options, Bisection::of(buffers, Direction::Forward))?;
        let mut refused = pass.refused.clone();
        for direction in
            [Direction::Forward, Direction::Backward].into_iter().cycle().take(WAITING_PASSES_MAX)
        {
            if pass.waiting.is_empty() || pass.changed_nothing() {
                break;
            }
            let waiting: Vec<_> =
                buffers.iter().map(|buffer| buffer.select(&pass.waiting_of(buffer))).collect();
            pass = self.pass(session, options, Bisection::of(&waiting, direction))?;
            refused.extend(pass.refused.iter().copied());
        }
        for (sequence, reason) in pass.waiting {
            if let Some((buffer, row)) = place(buffers, sequence) {
                self.row_refused(session, options, (buffer, row), &reason)?;
                refused.insert(sequence);
            }
        }
        Ok(refused)
    }

    /// Tries rows once.
    fn pass(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        mut bisection: Bisection<'_>,
    ) -> Result<Pass, SinkError> {
        let mut pass = Pass::default();
        while let Some(step) = bisection.next(session).map_err(at("copy rows", options))? {
            match step {
                BisectionStep::Stored(parts) => {
                    for (buffer, rows) in parts {
                        self.count_rows(buffer, rows.len());
                        pass.stored += rows.len();
                    }
                }
                BisectionStep::Refused((buffer, row), Refusal { reason, lacks_parent: true }) => {
                    pass.waiting.insert(buffer.sequence(row), reason);
                }
                BisectionStep::Refused((buffer, row), Refusal { reason, .. }) => {
                    self.row_refused(session, options, (buffer, row), &reason)?;
                    pass.refused.insert(buffer.sequence(row));
                }
            }
        }
        Ok(pass)
    }

    fn count_rows(&mut self, buffer: &ClosedCopyBuffer, rows: usize) {
        self.counts.add(buffer.schema.stream(), Tally { rows: rows as u64, ..Tally::default() });
    }

    /// Makes a reject of a row.
    fn row_refused(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        (buffer, row): (&ClosedCopyBuffer, usize),
        reason: &str,
    ) -> Result<(), SinkError> {
        let sequence = buffer.sequence(row);
        self.refuse(session, options, sequence)?;
        let (reason, item, key) = (reason.into(), buffer.row_as_json(row).into(), buffer.key(row));
        let refused = Refused { by: RefusedBy::Database, reason, item, key };
        self.reject(sequence, buffer.schema.stream(), &refused);
        Ok(())
    }
}

/// Results of rows that were tried once.
#[derive(Default)]
struct Pass {
    stored: usize,
    refused: HashSet<Sequence>,
    /// Rows without their parents, with the server's error.
    waiting: BTreeMap<Sequence, String>,
}

impl Pass {
    /// Returns whether another pass would have the same result. The result is the same if no row was stored,
    /// and no row was refused that could have blocked other rows.
    fn changed_nothing(&self) -> bool {
        self.stored == 0 && self.refused.is_empty()
    }

    fn waiting_of(&self, buffer: &ClosedCopyBuffer) -> Vec<usize> {
        self.waiting.keys().filter_map(|sequence| buffer.row_of(*sequence)).collect()
    }
}

fn place(buffers: &[ClosedCopyBuffer], sequence: Sequence) -> Option<(&ClosedCopyBuffer, usize)> {
    buffers.iter().find_map(|buffer| Some((buffer, buffer.row_of(sequence)?)))
}

/// Length that marks a null in the data of a COPY.
const NULL: i32 = -1;

/// Rows of the reject table. The server cannot refuse these rows for their content, because raw bytes are
/// bytea, and texts have no U+0000.
struct Rejects {
    log: Uuid,
    data: BytesMut,
}

impl Rejects {
    const COLUMNS: &str = "sink, log, sequence, stream, reason, item, text, key, key_window_ms, refused_by";

    fn push(
        &mut self,
        sink: &str,
        sequence: Sequence,
        stream: &str,
        Refused { by, reason, item, key }: &Refused<'_>,
    ) {
        let window_ms = key.map(|key| storable(millis(key.window)).to_be_bytes());
        self.data.put_u16(10);
        for bytes in [
            Some(sink.as_bytes()),
            Some(self.log.as_bytes()),
            Some(&sequence.0.to_be_bytes()),
            Some(readable(stream.as_bytes()).as_bytes()),
            Some(readable(reason.as_bytes()).as_bytes()),
            Some(item),
            Some(readable(item).as_bytes()),
            key.map(|key| key.bytes),
            window_ms.as_ref().map(<[u8; 8]>::as_slice),
            Some(by.name().as_bytes()),
        ] {
            let Some(bytes) = bytes else {
                self.data.put_i32(NULL);
                continue;
            };
            // A record has at most a few megabytes, so its length fits into 32 bits.
            self.data.put_u32(bytes.len() as u32);
            self.data.put_slice(bytes);
        }
    }

    fn store(&mut self, session: &mut Session, options: &PostgresOptions) -> Result<(), SinkError> {
        if self.data.is_empty() {
            return Ok(());
        }
        let (table, columns) = (table(options, "rejects"), Self::COLUMNS);
        let statement = format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)");
        session.copy(&statement, copy_data(self.data.split().freeze())).map_err(at("store rejects", options))
    }
}
