//! The list of sealed segments, and which of them may be deleted. This code uses no disk and no clock.
//!
//! A segment is due only once every sink has it. No rule deletes a segment that a sink lacks. Segments of a
//! log are loaded in the order of their records, and deleted in that order. So the kept part of a log has no
//! gap, except where segments are damaged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::awaited::SinkPlace;
use crate::event::DeleteReason;
use crate::id::{LogId, Sequence};
use crate::segment::SegmentFooter;

/// Position of each sink in each log. A sink reports a position only after its copy of the records is
/// durable.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    sinks: BTreeMap<SinkPlace, BTreeMap<LogId, Sequence>>,
}

impl Loaded {
    /// Adds a sink that has no records yet.
    pub(crate) fn add_sink(&mut self, sink: SinkPlace) {
        self.sinks.insert(sink, BTreeMap::new());
    }

    /// Removes a sink, so that no segment waits for this sink.
    pub(crate) fn remove_sink(&mut self, sink: SinkPlace) {
        self.sinks.remove(&sink);
    }

    /// Notes the last record of a log that a sink has. A report of a removed sink is ignored.
    pub(crate) fn confirm(&mut self, sink: SinkPlace, log: LogId, last: Sequence) {
        if let Some(lasts) = self.sinks.get_mut(&sink) {
            lasts.insert(log, last);
        }
    }

    pub(crate) fn forget(&mut self, log: LogId) {
        for lasts in self.sinks.values_mut() {
            lasts.remove(&log);
        }
    }

    /// Returns the last record of a log that every sink has. Returns zero without sinks, because no record is
    /// then loaded.
    fn last(&self, log: LogId) -> Sequence {
        let lasts = self.sinks.values().map(|sink| sink.get(&log).copied().unwrap_or_default());
        lasts.min().unwrap_or_default()
    }
}

/// Limits on the age and the size of loaded segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetainRules {
    pub(crate) retain: Duration,
    pub(crate) bytes_max: u64,
}

/// A sealed segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Number of the last record of the segment.
    pub(crate) last: Sequence,
    pub(crate) bytes: u64,
}

/// Key of a segment: its log, and the number of its first record.
pub(crate) type SegmentKey = (LogId, Sequence);

/// Message of the sealer to the retainer about a new sealed segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SealedSegment {
    pub(crate) key: SegmentKey,
    pub(crate) kept: Kept,
}

impl SealedSegment {
    pub(crate) fn new(log: LogId, first: Sequence, footer: &SegmentFooter) -> Self {
        Self { key: (log, first), kept: Kept { last: footer.last, bytes: footer.file_bytes() } }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SegmentList {
    waiting: BTreeMap<SegmentKey, Kept>,
    /// Segments that every sink has, ordered by the time at which the last sink had them.
    loaded: BTreeMap<(Instant, SegmentKey), Kept>,
    /// Number of segments of each log.
    counts: BTreeMap<LogId, u64>,
    bytes: u64,
}

impl SegmentList {
    /// Adds a segment. Does not change a segment that is already in the list.
    pub(crate) fn add(&mut self, key: SegmentKey, kept: Kept) {
        if self.waiting.contains_key(&key) || self.loaded.keys().any(|(_, known)| *known == key) {
            return;
        }
        self.bytes += kept.bytes;
        *self.counts.entry(key.0).or_default() += 1;
        self.waiting.insert(key, kept);
    }

    /// Notes which segments every sink has now. The time `retain` of these segments begins here.
    ///
    /// A sink whose database was restored has fewer records than before. The segments that the sink now lacks
    /// wait for it again.
    pub(crate) fn note_loaded(&mut self, loaded: &Loaded, now: Instant) {
        let lost = self.loaded.extract_if(.., |(_, (log, _)), kept| kept.last > loaded.last(*log));
        self.waiting.extend(lost.map(|((_, key), kept)| (key, kept)));
        let gained = self.waiting.extract_if(.., |(log, _), kept| kept.last <= loaded.last(*log));
        self.loaded.extend(gained.map(|(key, kept)| ((now, key), kept)));
    }

    /// Returns whether the list has a segment of that log.
    pub(crate) fn holds(&self, log: LogId) -> bool {
        self.counts.contains_key(&log)
    }

    /// Returns the number of segments, and their bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.counts.values().sum(), self.bytes)
    }

    /// Returns the segment to delete next, and the reason. Returns `None` if no segment has to be deleted.
    pub(crate) fn due(
        &self,
        rules: RetainRules,
        is_room_short: bool,
        now: Instant,
    ) -> Option<(SegmentKey, DeleteReason)> {
        let ((since, key), _) = self.loaded.first_key_value()?;
        let reason = if is_room_short {
            DeleteReason::Room
        } else if self.bytes > rules.bytes_max {
            DeleteReason::Size
        } else if now.saturating_duration_since(*since) >= rules.retain {
            DeleteReason::Age
        } else {
            return None;
        };
        Some((*key, reason))
    }

    /// Returns the last record of the segment that [`Self::due`] names.
    pub(crate) fn due_last(&self) -> Sequence {
        self.loaded.first_key_value().map_or(Sequence(0), |(_, kept)| kept.last)
    }

    /// Removes the segment that [`Self::due`] named from the list.
    pub(crate) fn take_due(&mut self) -> Option<Kept> {
        let ((_, (log, _)), kept) = self.loaded.pop_first()?;
        self.bytes -= kept.bytes;
        if let Some(count) = self.counts.get_mut(&log) {
            *count -= 1;
            self.counts.retain(|_, count| *count > 0);
        }
        Some(kept)
    }
}

#[cfg(test)]
mod tests;
