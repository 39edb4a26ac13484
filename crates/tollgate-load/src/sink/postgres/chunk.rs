//! What one transaction brings, and how it gets into the tables.
//!
//! All rows go in by one COPY per stream. Where the server refuses one for its content, everything is undone to the
//! savepoint before, and each stream's rows are halved until the bad ones stand alone: with `b` bad among `n` rows that
//! takes about `2 b log2 n` more COPYs. Constraints that wait for the commit are asked for before, for then it is too
//! late to tell whose fault it is.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tollgate_log::{Gap, LogId, Position, Record, RecordBody, Schema, SchemaId, Sequence};
use uuid::Uuid;

use super::super::key::{millis, storable};
use super::super::refusals::Refusals;
use super::super::reject::{Refused, RefusedBy};
use super::super::sqlite::readable;
use super::super::{Counts, Tally};
use super::bookkeeping::{table, uuid_of};
use super::claims::Claims;
use super::error::{Failure, at};
use super::keys::Keys;
use super::lane::{ClosedLane, Lane, copy_data};
use super::options::PostgresOptions;
use super::refusals;
use super::session::Session;
use super::table::plan;
use crate::error::SinkError;

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

    /// Copies rows and returns those that the server refused, which are rejects now.
    fn copy(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        lanes: &[ClosedLane],
    ) -> Result<HashSet<Sequence>, SinkError> {
        let all: Vec<_> = lanes.iter().map(|lane| (lane, 0..lane.rows())).collect();
        let mut refused = HashSet::new();
        match attempt(session, &all).map_err(at("copy rows", options))? {
            Stored::All => lanes.iter().for_each(|lane| self.count_rows(lane, lane.rows())),
            Stored::Refused(_) => {
                for lane in lanes {
                    refused.extend(self.bisect(session, options, lane)?);
                }
            }
        }
        Ok(refused)
    }

    fn count_rows(&mut self, lane: &ClosedLane, rows: usize) {
        self.counts.add(lane.schema.stream(), Tally { rows: rows as u64, ..Tally::default() });
    }

    /// The rows of a lane in order, by halves: what comes first is there first, as if each were inserted alone.
    fn bisect(
        &mut self,
        session: &mut Session,
        options: &PostgresOptions,
        lane: &ClosedLane,
    ) -> Result<Vec<Sequence>, SinkError> {
        let whole = 0..lane.rows();
        let (mut open, mut refused) = (vec![whole], Vec::new());
        while let Some(rows) = open.pop() {
            let stored = attempt(session, &[(lane, rows.clone())]).map_err(at("copy rows", options))?;
            match stored {
                Stored::All => self.count_rows(lane, rows.len()),
                Stored::Refused(reason) if rows.len() == 1 => {
                    let sequence = lane.sequence(rows.start);
                    self.refuse(session, options, sequence)?;
                    refused.push(sequence);
                    let (reason, item) = (reason.into(), lane.row_as_json(rows.start).into());
                    let refused =
                        Refused { by: RefusedBy::Database, reason, item, key: lane.key(rows.start) };
                    self.reject(sequence, lane.schema.stream(), &refused);
                }
                Stored::Refused(_) => {
                    let middle = rows.start + rows.len() / 2;
                    open.extend([middle..rows.end, rows.start..middle]);
                }
            }
        }
        Ok(refused)
    }
}

enum Stored {
    All,
    /// Nothing; a row is to blame.
    Refused(String),
}

/// Copies rows, all or none.
fn attempt(session: &mut Session, parts: &[(&ClosedLane, Range<usize>)]) -> Result<Stored, Failure> {
    session.run("SAVEPOINT tollgate_rows")?;
    let result = parts
        .iter()
        .try_for_each(|(lane, rows)| session.copy(lane.statement(), lane.copy_data(rows.clone())))
        .and_then(|()| session.run("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT tollgate_rows"));
    let Err(failure) = result else { return Ok(Stored::All) };
    let Some(reason) = failure.row_reason() else { return Err(failure) };
    session.run("ROLLBACK TO SAVEPOINT tollgate_rows; RELEASE SAVEPOINT tollgate_rows")?;
    Ok(Stored::Refused(reason))
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
