//! The open load: its files in writing, and the results of its records so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_lake::{
    Counts, GapEvent, GapText, LakeError, LoadName, MadeFiles, Plan, RecordDigest, RejectRow, Streams,
    Writers, unfit,
};
use tollgate_log::{Gap, LogId, Position, RecordBatch, RecordBody, Schema, Sequence};

use crate::error::SinkError;
use crate::sink::json::readable;
use crate::sink::key::{millis, storable};
use crate::sink::refusals::Refusals;
use crate::sink::reject::Refused;
use crate::sink::streams::STREAM_UNKNOWN;
use crate::sink::tally::{StreamTallies, Tally};

/// An open load.
pub(super) struct LakeChunk {
    pub(super) log: LogId,
    pub(super) load: LoadName,
    /// The plan that an earlier try made.
    pub(super) planned: Option<Plan>,
    /// Whether it replaces a load that an earlier try decided.
    pub(super) replaces: bool,
    /// The gap that it fills.
    pub(super) filled: Option<Gap>,
    pub(super) streams: Streams,
    pub(super) writers: Writers,
    refusals: Refusals,
    counts: BTreeMap<String, Counts>,
    /// Records of the next batch that the sink does not take, by stream.
    skipped: BTreeMap<String, u64>,
    gaps: Vec<GapText>,
    digest: RecordDigest,
    node: Option<String>,
    /// The last record before the first one.
    before: Option<Sequence>,
    /// The stamp of the first batch. Rows of gaps have this time.
    stamp_us: Option<i64>,
}

impl LakeChunk {
    pub(super) fn new(log: LogId, load: LoadName, writers: Writers, rejects_max: u64) -> Self {
        Self {
            log,
            load,
            planned: None,
            replaces: false,
            filled: None,
            streams: Streams::All,
            writers,
            refusals: Refusals::new(log, rejects_max),
            counts: BTreeMap::new(),
            skipped: BTreeMap::new(),
            gaps: Vec::new(),
            digest: RecordDigest::default(),
            node: None,
            before: None,
            stamp_us: None,
        }
    }

    /// Returns whether rows of a stream become rows of files.
    pub(super) fn takes(&self, stream: &str) -> bool {
        match &self.streams {
            Streams::All => true,
            Streams::Only(streams) => streams.contains(stream),
        }
    }

    /// Counts records of the next batch that the sink does not take.
    pub(super) fn skipped(&mut self, stream: &str, count: u64) {
        *self.skipped.entry(stream.to_owned()).or_default() += count;
    }

    /// Returns whether the plan has a batch as a gap. Its records fill this gap later, after the plan is
    /// finished. Until then, none of them has a result.
    pub(super) fn leaves_to_fill(&mut self, batch: &RecordBatch<'_>) -> bool {
        let is_gap = |plan: &Plan| plan.gaps.iter().any(|gap| gap.has(batch.first()));
        let is_left = self.planned.as_ref().is_some_and(is_gap);
        if is_left {
            self.skipped.clear();
        }
        is_left
    }

    pub(super) fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError> {
        for (stream, count) in std::mem::take(&mut self.skipped) {
            self.count(&stream, |counts| counts.skipped += count);
        }
        self.saw(batch.first());
        self.refusals.enter(batch.segment());
        self.digest.batch(batch.end());
        if self.node.is_none() && !batch.node().is_empty() {
            self.node = Some(batch.node().to_owned());
        }
        let stamp_us = batch.stamp_us();
        self.stamp_us.get_or_insert(stamp_us);
        let failed = || SinkError::lake("write a row");
        let mut run: Option<(&Arc<Schema>, u64)> = None;
        for (sequence, record) in batch.numbered() {
            let of = (self.log, sequence);
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let reason = error.to_string();
                    self.reject(STREAM_UNKNOWN, &Refused::at_ingest(&reason, &[]), stamp_us, sequence)?;
                    continue;
                }
            };
            let stream = record.schema.stream();
            match &record.body {
                RecordBody::Reject { reason, item } => {
                    self.reject(stream, &Refused::at_ingest(reason, item), stamp_us, sequence)?;
                }
                RecordBody::Row(values) => match unfit(record.schema, values) {
                    Some(reason) => {
                        self.refusals.count(sequence, |_| Ok(0))?;
                        let refused = Refused::row(reason, record.schema, values);
                        self.reject(stream, &refused, stamp_us, sequence)?;
                    }
                    None => {
                        self.writers.row(record.schema, stamp_us, values, of).map_err(failed())?;
                        match &mut run {
                            Some((schema, rows)) if Arc::ptr_eq(schema, record.schema) => *rows += 1,
                            _ => self.loaded(run.replace((record.schema, 1))),
                        }
                    }
                },
            }
        }
        self.loaded(run);
        Ok(())
    }

    /// Counts rows of the same schema that followed each other.
    fn loaded(&mut self, run: Option<(&Arc<Schema>, u64)>) {
        if let Some((schema, rows)) = run {
            self.count(schema.stream(), |counts| counts.loaded += rows);
        }
    }

    fn reject(
        &mut self,
        stream: &str,
        refused: &Refused<'_>,
        stamp_us: i64,
        sequence: Sequence,
    ) -> Result<(), SinkError> {
        let text = readable(&refused.item);
        let reject = RejectRow {
            stream,
            reason: &refused.reason,
            refused_by: refused.by.name(),
            item: &refused.item,
            text: &text,
            key: refused.key.map(|key| key.bytes),
            key_window_ms: refused.key.map(|key| storable(millis(key.window))),
        };
        let written = self.writers.reject(stamp_us, &reject, (self.log, sequence));
        written.map_err(SinkError::lake("write a reject"))?;
        self.count(stream, |counts| counts.rejected += 1);
        Ok(())
    }

    fn count(&mut self, stream: &str, add: impl FnOnce(&mut Counts)) {
        match self.counts.get_mut(stream) {
            Some(counts) => add(counts),
            None => add(self.counts.entry(stream.to_owned()).or_default()),
        }
    }

    pub(super) fn gap(&mut self, gap: &Gap) {
        self.saw(gap.first);
        self.gaps.push(gap.into());
    }

    fn saw(&mut self, first: Sequence) {
        self.before.get_or_insert(first.before());
    }

    /// Ends the files. Returns the plan of the load, with the files of this machine.
    pub(super) fn finish(&mut self, end: Position, left: &[Gap]) -> Result<(Plan, MadeFiles), SinkError> {
        let mut plan = Plan::new(end, self.streams.clone());
        plan.before = self.before.unwrap_or_default().0;
        plan.gaps = std::mem::take(&mut self.gaps);
        plan.gaps.extend(left.iter().map(GapText::from));
        if let Some(planned) = &self.planned
            && plan.gaps.iter().all(|gap| planned.gaps.iter().any(|of| of.covers(gap)))
        {
            // A part of a planned gap can be read by now. It stays a gap until the plan is finished.
            (plan.gaps, plan.before) = (planned.gaps.clone(), planned.before);
            if plan.last == planned.last && planned.gaps.iter().any(|gap| gap.last == plan.last) {
                // The batch with the last record can be read by now. The position has no chain after a gap.
                plan.chain = planned.chain;
            }
        }
        self.write_gaps(&plan.gaps).map_err(SinkError::lake("write a gap"))?;
        plan.digest = std::mem::take(&mut self.digest).finish();
        let made = self.writers.finish(self.load, end.last, &plan.digest);
        let made = made.map_err(SinkError::lake("finish a file"))?;
        plan.node = self.node.take();
        plan.files = made.planned();
        plan.counts = std::mem::take(&mut self.counts);
        Ok((plan, made))
    }

    /// Writes the rows of the table of gaps.
    fn write_gaps(&mut self, gaps: &[GapText]) -> Result<(), LakeError> {
        // A load without a batch has no time.
        let stamp_us = self.stamp_us.unwrap_or_default();
        if let Some(filled) = &self.filled {
            self.writers.gap(stamp_us, GapEvent::Filled, &filled.into(), self.log)?;
        }
        gaps.iter().try_for_each(|gap| self.writers.gap(stamp_us, GapEvent::Missing, gap, self.log))
    }
}

/// Returns the results of a load.
pub(super) fn tallies_of(plan: &Plan) -> StreamTallies {
    let mut tallies = StreamTallies::default();
    tallies.missing = plan.missing();
    for (stream, counts) in &plan.counts {
        let tally = Tally {
            rows: counts.loaded,
            rejects: counts.rejected,
            skipped: counts.skipped,
            ..Tally::default()
        };
        tallies.add(stream, tally);
    }
    tallies
}
