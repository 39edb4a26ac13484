//! What one transaction brings, and how it gets into the tables.
//!
//! All rows go in by one COPY per stream. Where the server refuses one for its content, `halves` finds it. A row that
//! lacks its parent is tried again when all others are in: the parent may have come later, or have waited itself. Only
//! what is left then is a reject.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tollgate_log::{Gap, LogId, Position, Record, RecordBody, Schema, SchemaId, Sequence};
use uuid::Uuid;

use super::claims::Claims;
use super::error::at;
use super::halves::{Direction, Halves, Refusal, Settled};
use super::keys::Keys;
use super::lane::{ClosedLane, Lane, copy_data};
use super::names::{table, uuid_of};
use super::options::PostgresOptions;
use super::refusals;
use super::session::Session;
use super::table::plan;
use crate::error::SinkError;
use crate::sink::json::readable;
use crate::sink::key::{millis, storable};
use crate::sink::refusals::Refusals;
use crate::sink::reject::{Refused, RefusedBy};
use crate::sink::tally::{Counts, Tally};

/// How often rows that lack their parents are tried again at most, as long as that changes something: nobody may send rows
/// that take time with the square of their number. A pass brings in a whole line of parents that stand in its direction.
const WAITING_PASSES_MAX: usize = 16;

/// An open transaction.
pub(super) struct Chunk {
    sink: String,
    pub(super) log: LogId,
    pub(super) expected: Option<Position>,
    /// The gap that it fills; none if it moves the position.
    pub(super) filled: Option<Gap>,
    /// The first record; none yet.
    pub(super) first: Option<Sequence>,
    pub(super) missing: u64,
    pub(super) counts: Counts,
    lanes: Vec<Lane>,
    rejects: Rejects,
    refusals: Refusals,
}

impl Chunk {
    pub(super) fn new(
        sink: &str,
        log: LogId,
        (expected, filled): (Option<Position>, Option<Gap>),
        rejects_max: u64,
    ) -> Self {
        Self {
            sink: sink.to_owned(),
            log,
            expected,
            filled,
            first: None,
            missing: 0,
            counts: Counts::default(),
            lanes: Vec::new(),
            rejects: Rejects { log: uuid_of(log), data: BytesMut::new() },
            refusals: Refusals::new(log, rejects_max),
        }
    }

    /// Takes a record: encodes its row, or keeps what is none.
    pub(super) fn record(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        record: &Record<'_>,
    ) -> Result<(), SinkError> {
        let (sequence, stream) = (record.sequence, record.schema.stream());
        match &record.body {
            RecordBody::Reject { reason, item } => {
                // It is tried again one day, and becomes a row of this table.
                self.lane(session, options, record.schema_id, record.schema)?;
                self.reject(sequence, stream, &Refused::at_ingest(reason, item));
            }
            RecordBody::Row(values) => {
                let lane = self.lane(session, options, record.schema_id, record.schema)?;
                if let Err(reason) = lane.push(sequence, values) {
                    self.refuse(session, options, sequence)?;
                    self.reject(sequence, stream, &Refused::row(reason, record.schema, values));
                }
            }
        }
        Ok(())
    }

    /// How many tables it has looked at and locked.
    pub(super) fn tables_met(&self) -> usize {
        self.lanes.len()
    }

    /// Keeps what is no row.
    pub(super) fn reject(&mut self, sequence: Sequence, stream: &str, refused: &Refused<'_>) {
        self.rejects.push(&self.sink, sequence, stream, refused);
        self.counts.add(stream, Tally { rejects: 1, ..Tally::default() });
    }

    /// Notes the segment that the next records are of.
    pub(super) fn enter(&mut self, segment: Sequence) {
        self.refusals.enter(segment);
    }

    /// Counts a row that the database refused; those that were refused at ingest say nothing about the table.
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

    fn lane(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        id: SchemaId,
        schema: &Arc<Schema>,
    ) -> Result<&mut Lane, SinkError> {
        let at = match self.lanes.iter().position(|lane| lane.schema_id == id) {
            Some(at) => at,
            None => {
                let plan = plan(session, options, &self.sink, schema)?;
                self.lanes.push(Lane::new(id, schema.clone(), plan));
                self.lanes.len() - 1
            }
        };
        Ok(&mut self.lanes[at])
    }

    /// Brings everything into the tables.
    pub(super) fn store(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        keys: &mut Keys,
    ) -> Result<(), SinkError> {
        let lanes: Vec<_> = self.lanes.drain(..).map(Lane::close).filter(|lane| lane.rows() > 0).collect();
        match lanes.iter().all(|lane| lane.keyed().is_empty()) {
            true => drop(self.copy(session, options, &lanes)?),
            false => self.store_keyed(session, options, keys, &lanes)?,
        }
        refusals::add(session, options, &self.sink, self.log, &self.refusals)
            .map_err(at("count refused rows", options))?;
        self.rejects.store(session, options)
    }

    fn store_keyed(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        keys: &mut Keys,
        lanes: &[ClosedLane],
    ) -> Result<(), SinkError> {
        let failed = || at("claim keys", options);
        let mut claims = Claims::of(lanes);
        let mut rows: Vec<_> = lanes.iter().map(ClosedLane::without_key).collect();
        while !claims.is_empty() {
            claims.claim(session, keys, self.log, &mut rows).map_err(failed())?;
            let chosen = lanes.iter().zip(&mut rows).map(|(lane, rows)| lane.select(&std::mem::take(rows)));
            let chosen: Vec<_> = chosen.filter(|lane| lane.rows() > 0).collect();
            let refused = self.copy(session, options, &chosen)?;
            let copied = chosen.iter().flat_map(ClosedLane::sequences).collect();
            claims.settle(session, keys, &copied, &refused).map_err(failed())?;
        }
        for (stream, duplicates) in claims.duplicates() {
            self.counts.add(stream, Tally { duplicates: *duplicates, ..Tally::default() });
        }
        Ok(())
    }

    /// Copies rows and returns those that the server refused, which are rejects now. Those that lack their parents wait
    /// until all others are in, and go in as their parents do.
    fn copy(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        lanes: &[ClosedLane],
    ) -> Result<HashSet<Sequence>, SinkError> {
        let mut pass = self.pass(session, options, Halves::of(lanes, Direction::Forward))?;
        let mut refused = pass.refused.clone();
        for direction in
            [Direction::Forward, Direction::Backward].into_iter().cycle().take(WAITING_PASSES_MAX)
        {
            if pass.waiting.is_empty() || pass.changed_nothing() {
                break;
            }
            let waiting: Vec<_> = lanes.iter().map(|lane| lane.select(&pass.waiting_of(lane))).collect();
            pass = self.pass(session, options, Halves::of(&waiting, direction))?;
            refused.extend(pass.refused.iter().copied());
        }
        for (sequence, reason) in pass.waiting {
            if let Some((lane, row)) = place(lanes, sequence) {
                self.row_refused(session, options, (lane, row), &reason)?;
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
        mut halves: Halves<'_>,
    ) -> Result<Pass, SinkError> {
        let mut pass = Pass::default();
        while let Some(settled) = halves.next(session).map_err(at("copy rows", options))? {
            match settled {
                Settled::Stored(parts) => {
                    for (lane, rows) in parts {
                        self.count_rows(lane, rows.len());
                        pass.stored += rows.len();
                    }
                }
                Settled::Refused((lane, row), Refusal { reason, lacks_parent: true }) => {
                    pass.waiting.insert(lane.sequence(row), reason);
                }
                Settled::Refused((lane, row), Refusal { reason, .. }) => {
                    self.row_refused(session, options, (lane, row), &reason)?;
                    pass.refused.insert(lane.sequence(row));
                }
            }
        }
        Ok(pass)
    }

    fn count_rows(&mut self, lane: &ClosedLane, rows: usize) {
        self.counts.add(lane.schema.stream(), Tally { rows: rows as u64, ..Tally::default() });
    }

    /// Makes a reject of a row.
    fn row_refused(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        (lane, row): (&ClosedLane, usize),
        reason: &str,
    ) -> Result<(), SinkError> {
        let sequence = lane.sequence(row);
        self.refuse(session, options, sequence)?;
        let (reason, item, key) = (reason.into(), lane.row_as_json(row).into(), lane.key(row));
        let refused = Refused { by: RefusedBy::Database, reason, item, key };
        self.reject(sequence, lane.schema.stream(), &refused);
        Ok(())
    }
}

/// What became of rows that were tried once.
#[derive(Default)]
struct Pass {
    stored: usize,
    refused: HashSet<Sequence>,
    /// Rows without their parents, and what the server said.
    waiting: BTreeMap<Sequence, String>,
}

impl Pass {
    /// Those that wait would wait in vain: nothing came in, and nothing that is away now stood in the way of others.
    fn changed_nothing(&self) -> bool {
        self.stored == 0 && self.refused.is_empty()
    }

    fn waiting_of(&self, lane: &ClosedLane) -> Vec<usize> {
        self.waiting.keys().filter_map(|sequence| lane.row_of(*sequence)).collect()
    }
}

fn place(lanes: &[ClosedLane], sequence: Sequence) -> Option<(&ClosedLane, usize)> {
    lanes.iter().find_map(|lane| Some((lane, lane.row_of(sequence)?)))
}

/// The length of a null in the data of a COPY.
const NULL: i32 = -1;

/// Rows of the reject table. They cannot be refused for their content: raw bytes are bytea, texts hold no U+0000.
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
            // A record has at most some megabytes, so its length fits.
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
        session.copy(&statement, copy_data(self.data.split().freeze())).map_err(at("keep rejects", options))
    }
}
