//! The contract of a sink, for Parquet.

use std::collections::BTreeMap;

use tollgate_lake::LoadName;
use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};

use super::chunk::{LakeChunk, tallies_of};
use super::sink::{ParquetSink, streams_of, taken_of};
use crate::error::SinkError;
use crate::sink::contract::{Decided, LoadExtent, PlannedLoad, Sink};
use crate::sink::reject::{ReadItem, Retried};
use crate::sink::streams::Taken;
use crate::sink::tally::{LostTable, StreamTallies, Tally};

impl Sink for ParquetSink {
    fn extent(&self) -> LoadExtent {
        LoadExtent::Segments { bytes: self.options.file_bytes, age: self.options.file_age }
    }

    fn planned(
        &mut self,
        log: LogId,
        expected: Option<Position>,
        taken: &Taken,
    ) -> Result<Option<PlannedLoad>, SinkError> {
        self.streams = streams_of(taken);
        let load = Self::load_after(log, expected);
        let plan = self.ledger.plan(load).map_err(SinkError::lake("read a plan"))?;
        let LoadName::Next { first, .. } = load else { return Ok(None) };
        self.planned = plan.map(|plan| (log, first, plan));
        let planned = self.planned.as_ref();
        Ok(planned.map(|(_, _, plan)| PlannedLoad { last: plan.end().last, taken: taken_of(&plan.streams) }))
    }

    fn is_enrolled(&mut self) -> Result<bool, SinkError> {
        self.ledger.has_begun().map_err(SinkError::lake("read whether the sink is new"))
    }

    fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError> {
        self.ledger.begin_at(ends).map_err(SinkError::lake("enroll the sink"))
    }

    fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError> {
        self.ledger.position(log).map_err(SinkError::lake("read the position"))
    }

    fn look(&mut self, schema: &Schema) -> Result<(), SinkError> {
        self.check(schema).map(drop)
    }

    fn lost_tables(&mut self) -> Result<BTreeMap<String, LostTable>, SinkError> {
        // Files may be deleted by age, so a missing folder is no loss.
        Ok(BTreeMap::new())
    }

    fn tables_met(&self) -> usize {
        0
    }

    fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError> {
        if self.position(log)?.map(|found| found.last) != expected.map(|position| position.last) {
            return Err(SinkError::Lost { log });
        }
        let load = Self::load_after(log, expected);
        let mut chunk = self.chunk(log, load)?;
        let planned = self.planned.take();
        let planned = planned.filter(|(of, first, _)| load == LoadName::Next { log: *of, first: *first });
        if let Some((_, _, plan)) = planned {
            chunk.streams = plan.streams.clone();
            chunk.planned = Some(plan);
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        let Some(mut chunk) = self.chunk.take() else { return Ok(()) };
        if !chunk.leaves_to_fill(batch) {
            for (_, schema) in batch.schemas() {
                if chunk.takes(schema.stream()) {
                    self.prepare(schema, &mut chunk.writers)?;
                }
            }
            chunk.write(batch)?;
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        if let Some(chunk) = &mut self.chunk {
            chunk.skipped(stream, count);
        }
    }

    fn replace_decided(&mut self) -> Result<Decided, SinkError> {
        self.replace_load().map_err(SinkError::lake("give up a load"))
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        if let Some(chunk) = &mut self.chunk {
            chunk.gap(gap);
        }
        Ok(())
    }

    fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(StreamTallies::default()) };
        self.commit_chunk(chunk, end, &[])
    }

    fn rejects(
        &mut self,
        log: LogId,
        first: Sequence,
        last: Sequence,
    ) -> Result<Vec<(Sequence, String)>, SinkError> {
        let rejects = self.open_rejects()?.rejects.into_iter();
        let rejects = rejects.filter(|reject| reject.log == *log.as_bytes());
        let rejects = rejects.map(|reject| (Sequence(reject.sequence), reject.reason));
        Ok(rejects.filter(|(sequence, _)| (first..=last).contains(sequence)).collect())
    }

    fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError> {
        self.ledger.gaps(log).map_err(SinkError::lake("read the gaps"))
    }

    fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError> {
        let failed = || SinkError::lake("count the records of gaps");
        let mut records: BTreeMap<String, u64> = BTreeMap::new();
        for log in self.ledger.logs().map_err(failed())? {
            for gap in self.ledger.gaps(log).map_err(failed())? {
                let count = records.entry(gap.reason).or_default();
                *count = count.saturating_add(gap.first.count_to(gap.last));
            }
        }
        Ok(records)
    }

    fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError> {
        let renamed = self.ledger.rename_gap(log, gap, reason);
        renamed.map_err(SinkError::lake("change the reason of a gap"))
    }

    fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError> {
        self.streams = streams_of(taken);
        let load = LoadName::Fill { log, first: gap.first, last: gap.last };
        let mut chunk = self.chunk(log, load)?;
        chunk.planned = self.ledger.plan(load).map_err(SinkError::lake("read a plan"))?;
        if let Some(plan) = &chunk.planned {
            chunk.streams = plan.streams.clone();
        }
        chunk.filled = Some(gap.clone());
        let taken = taken_of(&chunk.streams);
        self.chunk = Some(chunk);
        Ok(taken)
    }

    fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError> {
        let Some(chunk) = self.chunk.take() else { return Ok(Tally::default()) };
        let Some(gap) = &chunk.filled else { return Ok(Tally::default()) };
        let (log, end) = (chunk.log, Position { last: gap.last, chain: None });
        if !self.gaps(log)?.iter().any(|found| (found.first, found.last) == (gap.first, gap.last)) {
            return Err(SinkError::Lost { log });
        }
        let tallies = self.commit_chunk(chunk, end, left)?;
        Ok(Tally { missing: 0, ..tallies.total() })
    }

    fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        self.retry(read)
    }

    fn rollback(&mut self) {
        (self.chunk, self.planned) = (None, None);
        if let Some(tables) = &mut self.tables {
            tables.forget();
        }
    }

    fn is_changed(&mut self) -> Result<bool, SinkError> {
        Ok(false)
    }

    fn tidy(&mut self, _: u64) -> Result<(), SinkError> {
        if let Some(tables) = &mut self.tables {
            tables.tidy(&mut self.ledger);
        }
        Ok(())
    }
}

impl ParquetSink {
    /// Decides a load, brings its files into the lake, and commits it.
    fn commit_chunk(
        &mut self,
        mut chunk: LakeChunk,
        end: Position,
        left: &[Gap],
    ) -> Result<StreamTallies, SinkError> {
        let (plan, made) = chunk.finish(end, left)?;
        let failed = || SinkError::lake("commit a load");
        if let Some(planned) = &chunk.planned {
            self.ledger.check_same(chunk.load, planned, &plan).map_err(failed())?;
        } else if !chunk.replaces && !self.ledger.decide(chunk.load, &plan).map_err(failed())? {
            return Err(SinkError::Lost { log: chunk.log });
        }
        self.publish(chunk.load, &plan, &made)?;
        self.ledger.commit(chunk.load, &plan, made.bytes()).map_err(failed())?;
        if chunk.replaces && self.position(chunk.log)? != Some(end) {
            return Err(SinkError::Lost { log: chunk.log });
        }
        let mut tallies = tallies_of(&plan);
        tallies.files = (plan.files.len() as u64, made.bytes());
        Ok(tallies)
    }
}
