//! Gaps. Deleted records that a restored database lacks become a gap, and records that are found again fill a
//! gap.

use std::time::{Duration, Instant};

use tollgate_log::{Gap, LogId, Position, Sequence, segments};

use super::super::chunk::ChunkError;
use super::super::control::Order;
use super::super::deleted::{DELETED, deleted_ends};
use super::super::fill::{Fill, FillLimits, fill};
use super::super::follow::{Following, Gaps};
use super::super::skip::{is_given_up, note};
use super::super::status::LoadState;
use super::LoaderThread;
use crate::error::SinkError;
use crate::sink::{LoadExtent, Tally};

/// Time after which a sink of whole segments counts the records of its gaps again, if this loader has changed
/// no gap.
const GAPS_OF_LAKE_RECOUNTED: Duration = Duration::from_mins(1);

impl LoaderThread {
    /// Makes a gap of deleted records that the database lacks. Only a restored database lacks such records,
    /// so this runs once after the database is opened.
    pub(super) fn name_deleted(&mut self) -> Result<(), ChunkError> {
        if self.is_deleted_named {
            return Ok(());
        }
        for (log, end) in deleted_ends(&*self.storage, &self.options.dir)? {
            let position = self.sink()?.position(log)?;
            let first = position.map_or(Sequence::FIRST, |position| position.last.after(1));
            if first <= end.last {
                self.give_up(log, position, Gap { first, last: end.last, reason: DELETED.to_owned() })?;
            }
        }
        self.is_deleted_named = true;
        Ok(())
    }

    pub(super) fn give_up(
        &mut self,
        log: LogId,
        position: Option<Position>,
        gap: Gap,
    ) -> Result<(), SinkError> {
        if let Err(error) = note(self.sink()?, log, position, &gap) {
            self.sink()?.rollback();
            // Another loader was faster and has made the gap already.
            return if let SinkError::Lost { .. } = error { Ok(()) } else { Err(error) };
        }
        let Gap { first, last, reason } = gap;
        let sink = &self.options.sink.name;
        tracing::error!(sink, %log, %first, %last, reason, "records are missing");
        let records = first.count_to(last);
        self.control.update(|status| {
            status.missing = status.missing.saturating_add(records);
            status.in_gaps = status.in_gaps.saturating_add(records);
        });
        self.gap_records = None;
        Ok(())
    }

    /// Counts the records of gaps that no operator has given up. The count is repeated while there are such
    /// records, because another loader may fill gaps and an operator may give them up.
    pub(super) fn count_gaps(&mut self) -> Result<(), SinkError> {
        if self.gap_records == Some(0) {
            return Ok(());
        }
        // A lake has no sum over its logs, so a count asks it about each log.
        let is_recent = self.gaps_counted_at.is_some_and(|at| at.elapsed() < GAPS_OF_LAKE_RECOUNTED);
        if self.gap_records.is_some() && is_recent && self.sink()?.extent() != LoadExtent::Records {
            return Ok(());
        }
        let gaps = self.sink()?.gap_records()?;
        let open = gaps.iter().filter(|(reason, _)| !is_given_up(reason)).map(|(_, records)| *records);
        let records = open.fold(0, u64::saturating_add);
        (self.gap_records, self.gaps_counted_at) = (Some(records), Some(Instant::now()));
        self.control.update(|status| status.in_gaps = records);
        Ok(())
    }

    /// Tries to fill the gaps of a log if its segments changed since the last check. Records that cannot be
    /// read stay a gap.
    pub(super) fn fill_gaps(&mut self, log: LogId, following: &mut Following) -> Result<(), ChunkError> {
        if matches!(following.gaps, Gaps::Unknown) && self.sink()?.gaps(log)?.is_empty() {
            following.gaps = Gaps::None;
        }
        if matches!(following.gaps, Gaps::None) {
            return Ok(());
        }
        let names = segments(&*self.storage, &self.options.dir, log)?;
        let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
        if matches!(&following.gaps, Gaps::Unfilled(seen) if *seen == names) {
            return Ok(());
        }
        while self.fill_gap(log)? {
            self.control.note_progress();
            if self.control.order() == Order::Abort {
                return Ok(());
            }
        }
        following.gaps = if self.sink()?.gaps(log)?.is_empty() { Gaps::None } else { Gaps::Unfilled(names) };
        Ok(())
    }

    /// Loads records of the first gap that has readable records. Returns false if there is no such gap.
    pub(super) fn fill_gap(&mut self, log: LogId) -> Result<bool, ChunkError> {
        let (storage, dir, taken) =
            (self.storage.clone(), self.options.dir.clone(), self.options.sink.taken.clone());
        let limits = match self.sink()?.extent() {
            LoadExtent::Records => FillLimits {
                rows: self.options.tuning.chunk_rows_max,
                bytes: self.load_size.bytes(self.options.tuning.chunk_bytes_max),
            },
            // A gap is filled by one load, because its name has the range of the gap.
            LoadExtent::Segments { .. } => FillLimits { rows: u64::MAX, bytes: u64::MAX },
        };
        for gap in self.sink()?.gaps(log)? {
            let filled = fill(&storage, &dir, log, &gap, (self.sink()?, &taken), limits);
            match filled.and_then(|fill| Ok(fill.map(|fill| self.commit_fill(&fill)).transpose()?)) {
                Ok(None) => {}
                Ok(Some(tally)) => {
                    self.filled(log, &gap, tally);
                    return Ok(true);
                }
                Err(ChunkError::Sink(SinkError::Orphans { .. })) => {
                    self.sink()?.rollback();
                    return Ok(true);
                }
                Err(ChunkError::Log(_) | ChunkError::Sink(SinkError::Lost { .. })) => self.sink()?.rollback(),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Commits a fill, or a part of one.
    fn commit_fill(&mut self, fill: &Fill) -> Result<Tally, SinkError> {
        let committed = self.sink()?.commit_fill(&fill.left);
        self.resize_loads(&committed, fill.bytes);
        committed
    }

    pub(super) fn filled(&mut self, log: LogId, gap: &Gap, tally: Tally) {
        let (sink, records) = (&self.options.sink.name, tally.records());
        tracing::info!(sink, %log, first = %gap.first, last = %gap.last, records, "records of a gap are loaded");
        self.control.calls.answered();
        self.control.update(|status| {
            (status.state, status.failing_since) = (LoadState::Loading, None);
            status.rows += tally.rows;
            status.rejects += tally.rejects;
            status.duplicates += tally.duplicates;
            status.filled += records;
            status.commits += 1;
        });
        self.gap_records = None;
    }
}
