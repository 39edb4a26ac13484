//! Log lines that could be many: after one there is a pause, and the next tells how many it stands for.

use std::cell::Cell;
use std::time::{Duration, Instant};

pub(crate) struct Seldom {
    pause: Duration,
    told: Cell<Option<Instant>>,
    untold: Cell<u64>,
}

impl Seldom {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, told: Cell::default(), untold: Cell::default() }
    }

    /// Something came that the log should hear of.
    pub(crate) fn note(&self) {
        self.untold.set(self.untold.get() + 1);
    }

    /// How many came since the last line, if it is time for one: it counts as told.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let is_pause = self.told.get().is_some_and(|told| now.saturating_duration_since(told) < self.pause);
        if is_pause || self.untold.get() == 0 {
            return None;
        }
        self.told.set(Some(now));
        Some(self.untold.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_what_follows_after_a_pause_together() {
        let lines = Seldom::new(Duration::from_secs(10));
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
