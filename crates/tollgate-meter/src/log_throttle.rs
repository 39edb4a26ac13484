//! Limits on repeated log lines. After one or more lines, there is a pause. The next line states the number
//! of events since the last line.
//!
//! The types here write no lines. They count events, and return whether a line is due. The caller passes the
//! time and writes the line.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Limit of one line in each pause, for all events of the pause together.
pub struct OncePerPause {
    pause: Duration,
    told: Cell<Option<Instant>>,
    untold: Cell<u64>,
}

impl OncePerPause {
    /// Creates a limit with this pause between two lines.
    pub fn new(pause: Duration) -> Self {
        Self { pause, told: Cell::default(), untold: Cell::default() }
    }

    /// Counts one event.
    #[inline]
    pub fn note(&self) {
        self.untold.set(self.untold.get() + 1);
    }

    /// Returns the number of events since the last line, if a line is due. The caller has to write that line.
    pub fn due(&self, now: Instant) -> Option<u64> {
        if !self.is_time(now) || self.untold.get() == 0 {
            return None;
        }
        self.told.set(Some(now));
        Some(self.untold.take())
    }

    fn is_time(&self, now: Instant) -> bool {
        self.told.get().is_none_or(|told| now.saturating_duration_since(told) >= self.pause)
    }
}

/// Limit for events with a line each: a maximum number of lines in each period.
pub struct FewPerPeriod {
    max: u32,
    period: Duration,
    begun: Cell<Option<Instant>>,
    told: Cell<u32>,
    left_out: Cell<u64>,
}

impl FewPerPeriod {
    /// Creates the limit for failures of one route. Ten lines a second are enough to show whether the
    /// failures differ.
    pub fn failures() -> Self {
        Self::new(10, Duration::from_secs(1))
    }

    fn new(max: u32, period: Duration) -> Self {
        Self { max, period, begun: Cell::default(), told: Cell::default(), left_out: Cell::default() }
    }

    /// Counts one event. If the event may have a line, returns the number of events without a line since the
    /// last line.
    pub fn note(&self, now: Instant) -> Option<u64> {
        if self.begun.get().is_none_or(|begun| now.saturating_duration_since(begun) >= self.period) {
            self.begun.set(Some(now));
            self.told.set(0);
        }
        if self.told.get() >= self.max {
            self.left_out.set(self.left_out.get() + 1);
            return None;
        }
        self.told.set(self.told.get() + 1);
        Some(self.left_out.take())
    }
}

/// Limit for events that occur in episodes.
///
/// A line is due when an episode begins, and after each pause while the episode lasts. The last line is due
/// when a pause has passed without an event.
pub struct Episode {
    happened: OncePerPause,
    is_on: Cell<bool>,
}

/// Content of the next line about an episode.
#[derive(Debug, PartialEq, Eq)]
pub enum EpisodeNews {
    /// The episode lasts. Has the number of events since the last line.
    Happened(u64),
    /// The episode is over, because no event occurred for a pause.
    Over,
}

impl Episode {
    /// Creates a limit with this pause between two lines.
    pub fn new(pause: Duration) -> Self {
        Self { happened: OncePerPause::new(pause), is_on: Cell::new(false) }
    }

    /// Counts one event.
    #[inline]
    pub fn note(&self) {
        self.happened.note();
    }

    /// Returns the content of a line if one is due. The caller has to write that line.
    pub fn news(&self, now: Instant) -> Option<EpisodeNews> {
        if let Some(count) = self.happened.due(now) {
            self.is_on.set(true);
            return Some(EpisodeNews::Happened(count));
        }
        let is_over = self.happened.is_time(now) && self.is_on.take();
        is_over.then_some(EpisodeNews::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_is_told_when_it_begins_while_it_lasts_and_when_it_is_over() {
        let episode = Episode::new(Duration::from_secs(10));
        let begun = Instant::now();
        let mut told = Vec::new();
        for ms in (0..60_000).step_by(250) {
            if ms < 25_000 {
                episode.note();
            }
            told.extend(episode.news(begun + Duration::from_millis(ms)).map(|news| (ms, news)));
        }
        let happened = |ms, count| (ms, EpisodeNews::Happened(count));
        assert_eq!(
            told,
            [
                happened(0, 1),
                happened(10_000, 40),
                happened(20_000, 40),
                happened(30_000, 19),
                (40_000, EpisodeNews::Over)
            ]
        );
    }

    #[test]
    fn a_few_are_told_whole_and_the_next_tells_how_many_were_left_out() {
        let few = FewPerPeriod::new(3, Duration::from_secs(1));
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let told: Vec<_> = [0, 10, 20, 30, 999, 1000, 1001, 5000].map(|ms| few.note(at(ms))).into();
        assert_eq!(told, [Some(0), Some(0), Some(0), None, None, Some(2), Some(0), Some(0)]);
    }

    #[test]
    fn the_first_is_told_at_once_and_what_follows_after_a_pause_together() {
        let lines = OncePerPause::new(Duration::from_secs(10));
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!(lines.due(at(0)), None);
        lines.note();
        assert_eq!(lines.due(at(1)), Some(1));
        (0..5).for_each(|_| lines.note());
        assert_eq!(lines.due(at(10_000)), None);
        assert_eq!(lines.due(at(10_001)), Some(5));
        assert_eq!(lines.due(at(30_000)), None, "there is nothing to tell");
        lines.note();
        assert_eq!(lines.due(at(30_001)), Some(1));
    }
}
