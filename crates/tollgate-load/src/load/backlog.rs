//! The backlog of a loader: the segments with records to load, counted at intervals, and the age of the
//! oldest of these records.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{
    Cursor, CursorStep, LogError, LogId, Position, SegmentState, Sequence, Storage, segments,
};

use super::follow::ReadableEnd;
use crate::clock::now_us;
use crate::footer::read_footer;

/// Segments with records that may be loaded and are not loaded yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadBacklog {
    /// Number of segments.
    pub segments: u64,
    /// Bytes of these segments, including records that are loaded already.
    pub bytes: u64,
    /// Number of records in these segments that are not loaded, except in segments with an unknown end.
    pub records: u64,
    /// Whether `records` is an upper bound, because the sink has not told its positions since the start.
    pub is_bound: bool,
    /// Wall clock at the write of the oldest batch that is not loaded, in microseconds since 1970. `None` if
    /// there is no such batch, or if it cannot be read.
    pub(super) oldest_us: Option<i64>,
}

impl LoadBacklog {
    /// Returns the age of the oldest record. Use the age only for people, because the wall clock may jump.
    pub(super) fn age(&self) -> Duration {
        let age_us = self.oldest_us.map_or(0, |oldest_us| now_us().saturating_sub(oldest_us).max(0));
        Duration::from_micros(age_us.cast_unsigned())
    }

    /// Notes that new records were synced just now.
    pub(super) fn saw_more(&mut self) {
        self.oldest_us.get_or_insert_with(now_us);
    }

    /// Adds the part of a log after `position`. Returns the records of the log that are on disk and may be
    /// loaded, and whether some of them are after `position`.
    pub(super) fn add(
        &mut self,
        storage: &dyn Storage,
        dir: &Path,
        log: LogId,
        position: Sequence,
        reach: ReadableEnd,
    ) -> Result<OnDisk, LogError> {
        let (names, before) = (segments(storage, dir, log)?, self.segments);
        let mut on_disk = OnDisk::default();
        let limit = reach.limit().unwrap_or(Sequence(u64::MAX));
        for (index, (name, path)) in names.iter().enumerate() {
            let last = match names.get(index + 1) {
                Some((next, _)) => next.first.before(),
                None if name.state == SegmentState::Open => limit,
                None => read_footer(storage, path)?.map_or(limit, |footer| footer.last),
            };
            let last = last.min(limit);
            on_disk.add(name.first, last);
            if name.first <= limit && last > position {
                let file = storage.open_read(path).and_then(|file| file.size());
                self.segments += 1;
                if last < Sequence(u64::MAX) {
                    let next = position.after(1).max(name.first);
                    self.records = self.records.saturating_add(next.count_to(last));
                }
                // If the segment was sealed or deleted during this count, its path no longer exists. It then
                // adds 0 bytes, and the next count corrects this.
                self.bytes = self.bytes.saturating_add(file.unwrap_or_default());
            }
        }
        on_disk.is_pending = self.segments > before;
        Ok(on_disk)
    }
}

/// The records of a log that are on disk and may be loaded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OnDisk {
    /// First and last record. `None` if there is no record, or if the last one is unknown.
    range: Option<(Sequence, Sequence)>,
    /// Whether some of them are not loaded.
    is_pending: bool,
}

impl OnDisk {
    /// Adds the next segment.
    fn add(&mut self, first: Sequence, last: Sequence) {
        let first = self.range.map_or(first, |(first, _)| first);
        if last < Sequence(u64::MAX) {
            self.range = Some((first, last));
        }
    }
}

/// State that the loader keeps between two counts of the backlog. With it, the backlog can be counted even
/// while the sink does not answer.
#[derive(Default)]
pub(super) struct Pending {
    /// Last loaded record of each log, as the sink last reported.
    positions: BTreeMap<LogId, Sequence>,
    /// For each log, the position before the oldest record that is not loaded, and the stamp of that record.
    /// The stamp is read once, not at each count.
    oldest: BTreeMap<LogId, (Sequence, i64)>,
    /// The log that is being loaded, and the stamp of its last loaded batch. This stamp approximates the
    /// stamp of the oldest record, and needs no read.
    loading: Option<(LogId, i64)>,
    seen_at: Option<Instant>,
}

impl Pending {
    /// Notes the last record of a log that the sink has.
    pub(super) fn passed(&mut self, log: LogId, last: Sequence) {
        self.positions.insert(log, last);
    }

    /// Returns the position in each log of which the sink has records.
    pub(super) fn ends(&self) -> BTreeMap<LogId, Position> {
        let end = |last: Sequence| Position { last, chain: None };
        let begun = self.positions.iter().filter(|(_, last)| **last > Sequence(0));
        begun.map(|(log, last)| (*log, end(*last))).collect()
    }

    /// Notes the time at which the last loaded batch was written.
    pub(super) fn loaded(&mut self, log: LogId, stamp_us: Option<i64>) {
        self.loading = stamp_us.map(|stamp_us| (log, stamp_us));
    }

    /// Notes that no log is being loaded.
    pub(super) fn paused(&mut self) {
        self.loading = None;
    }

    /// Returns whether a count is due. If so, notes that the count begins.
    pub(super) fn is_due(&mut self, period: Duration) -> bool {
        let is_due = self.seen_at.is_none_or(|at| at.elapsed() >= period);
        if is_due {
            self.seen_at = Some(Instant::now());
        }
        is_due
    }

    /// Adds a log to a backlog. If its position is not known, all its records count. Returns the first and
    /// the last record that are on disk and may be loaded.
    pub(super) fn add(
        &mut self,
        backlog: &mut LoadBacklog,
        storage: &Arc<dyn Storage>,
        dir: &Path,
        log: LogId,
        reach: ReadableEnd,
    ) -> Result<Option<(Sequence, Sequence)>, LogError> {
        let position = self.positions.get(&log).copied().unwrap_or_default();
        let on_disk = backlog.add(&**storage, dir, log, position, reach)?;
        if on_disk.is_pending {
            let found = self.oldest_us(storage, dir, log, position, reach)?;
            backlog.oldest_us = backlog.oldest_us.into_iter().chain(found).min();
        }
        Ok(on_disk.range)
    }

    fn oldest_us(
        &mut self,
        storage: &Arc<dyn Storage>,
        dir: &Path,
        log: LogId,
        position: Sequence,
        reach: ReadableEnd,
    ) -> Result<Option<i64>, LogError> {
        if let Some((_, stamp_us)) = self.loading.filter(|(loading, _)| *loading == log) {
            return Ok(Some(stamp_us));
        }
        if let Some((_, stamp_us)) = self.oldest.get(&log).filter(|(behind, _)| *behind == position) {
            return Ok(Some(*stamp_us));
        }
        let before = Position { last: position, chain: None };
        let mut cursor = Cursor::over_kept(storage.clone(), dir, log, Some(before));
        let CursorStep::Batch(batch) = cursor.step(reach.limit())? else { return Ok(None) };
        let stamp_us = batch.stamp_us();
        self.oldest.insert(log, (position, stamp_us));
        Ok(Some(stamp_us))
    }
}
