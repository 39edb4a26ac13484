//! The list of sealed segments, and which of them may be deleted. It uses no disk and no clock.
//!
//! A segment is due only once every sink has it. No rule deletes a segment that a sink lacks. Segments of a
//! log are loaded in the order of their records, and deleted in that order. So the kept part of a log has no
//! hole, except around damage.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::awaited::SinkPlace;
use crate::event::DeleteReason;
use crate::id::{LogId, Sequence};
use crate::segment::SegmentFooter;

/// How far each sink has each log, as the sinks report it. Their copy is durable.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    sinks: BTreeMap<SinkPlace, BTreeMap<LogId, Sequence>>,
}

impl Loaded {
    /// Adds a sink, which has nothing yet.
    pub(crate) fn add_sink(&mut self, sink: SinkPlace) {
        self.sinks.insert(sink, BTreeMap::new());
    }

    /// Removes a sink, so that no segment waits for it.
    pub(crate) fn remove_sink(&mut self, sink: SinkPlace) {
        self.sinks.remove(&sink);
    }

    /// Notes how far a sink has a log. A removed sink is ignored.
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

    /// Returns the last record of a log that every sink has. Without sinks, no record is loaded.
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
    /// Number of its last record.
    pub(crate) last: Sequence,
    pub(crate) bytes: u64,
}

/// Names a segment: its log, and the number of its first record.
pub(crate) type SegmentKey = (LogId, Sequence);

/// A sealed segment, as the sealer reports it to the retainer.
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
    /// Segments that every sink has, ordered by the time when the last sink got them.
    loaded: BTreeMap<(Instant, SegmentKey), Kept>,
    /// Number of segments of each log.
    counts: BTreeMap<LogId, u64>,
    bytes: u64,
}

impl SegmentList {
    /// Adds a segment. A known segment stays as it is.
    pub(crate) fn add(&mut self, key: SegmentKey, kept: Kept) {
        if self.waiting.contains_key(&key) || self.loaded.keys().any(|(_, known)| *known == key) {
            return;
        }
        self.bytes += kept.bytes;
        *self.counts.entry(key.0).or_default() += 1;
        self.waiting.insert(key, kept);
    }

    /// Notes which segments every sink has now. Their time `retain` begins here.
    ///
    /// A sink whose database was restored has less than before. Its segments wait again.
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

    /// Returns the segment that is deleted next and the reason, or `None` if no segment has to be.
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
