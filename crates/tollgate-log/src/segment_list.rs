//! The sealed segments that are kept, and which of them may go. Nothing here touches a disk or a clock.
//!
//! A segment is due only once every sink has it: whatever else is said, one that some sink lacks stays.
//! Segments of a log become loaded in the order of their records and go in that order, so what is kept of a
//! log has no hole but around damage.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::awaited::SinkPlace;
use crate::event::DeleteReason;
use crate::id::{LogId, Sequence};
use crate::segment::SegmentFooter;

/// How far each sink has each log, as the sinks say it; durable on their side.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    sinks: BTreeMap<SinkPlace, BTreeMap<LogId, Sequence>>,
}

impl Loaded {
    /// Waits for one more sink, which has nothing yet.
    pub(crate) fn add_sink(&mut self, sink: SinkPlace) {
        self.sinks.insert(sink, BTreeMap::new());
    }

    /// Waits for a sink no more.
    pub(crate) fn remove_sink(&mut self, sink: SinkPlace) {
        self.sinks.remove(&sink);
    }

    /// Notes how far a sink has a log; one that was removed has nothing to say.
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

    /// The last record of a log that every sink has. Without a sink nobody has anything.
    fn last(&self, log: LogId) -> Sequence {
        let lasts = self.sinks.values().map(|sink| sink.get(&log).copied().unwrap_or_default());
        lasts.min().unwrap_or_default()
    }
}

/// How long and how much is kept.
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

/// A sealed segment as the sealer hands it on.
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
    /// Every sink has these, since the moment that they are ordered by.
    loaded: BTreeMap<(Instant, SegmentKey), Kept>,
    /// How many there are of each log.
    counts: BTreeMap<LogId, u64>,
    bytes: u64,
}

impl SegmentList {
    /// Adds a segment; one that is known stays as it is.
    pub(crate) fn add(&mut self, key: SegmentKey, kept: Kept) {
        if self.waiting.contains_key(&key) || self.loaded.keys().any(|(_, known)| *known == key) {
            return;
        }
        self.bytes += kept.bytes;
        *self.counts.entry(key.0).or_default() += 1;
        self.waiting.insert(key, kept);
    }

    /// Notes which segments every sink has by now: `retain` counts from here. A sink whose database was put
    /// back has less than before, and waits for them again.
    pub(crate) fn note_loaded(&mut self, loaded: &Loaded, now: Instant) {
        let lost = self.loaded.extract_if(.., |(_, (log, _)), kept| kept.last > loaded.last(*log));
        self.waiting.extend(lost.map(|((_, key), kept)| (key, kept)));
        let gained = self.waiting.extract_if(.., |(log, _), kept| kept.last <= loaded.last(*log));
        self.loaded.extend(gained.map(|(key, kept)| ((now, key), kept)));
    }

    /// Whether a segment of that log is kept.
    pub(crate) fn holds(&self, log: LogId) -> bool {
        self.counts.contains_key(&log)
    }

    /// How many segments there are, and their bytes.
    pub(crate) fn size(&self) -> (u64, u64) {
        (self.counts.values().sum(), self.bytes)
    }

    /// The segment that goes next, and why; none if nothing has to.
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

    /// The last record of the segment that [`Self::due`] names.
    pub(crate) fn due_last(&self) -> Sequence {
        self.loaded.first_key_value().map_or(Sequence(0), |(_, kept)| kept.last)
    }

    /// Takes off the segment that [`Self::due`] named.
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
