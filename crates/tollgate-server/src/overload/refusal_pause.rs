//! Delays the next request of a refused client while other requests wait.
//!
//! Most clients wait for the time in `Retry-After`. If many clients retried at once, the worker would be busy
//! with refusals.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two refused clients. A refusal costs the worker and the system about 8 us. At this rate,
/// refusals use a tenth of the worker's time.
const SPACING: Duration = Duration::from_micros(80);
/// Number of clients that may retry at once. The refusals of these clients cost a tenth of a slice.
const BURST: u32 = 25;
/// Maximum pause. `Retry-After` names the same time.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Assigns times to refused clients with a virtual queue (the generic cell rate algorithm, ITU-T I.371).
#[derive(Default)]
pub(crate) struct RefusalPauses {
    /// The time at which the last refused client may retry.
    booked_until: Cell<Option<Instant>>,
    /// Pause of the connection that is answered now.
    due: Cell<Option<Instant>>,
}

impl RefusalPauses {
    /// Books a time for one more refused client.
    pub(crate) fn book(&self, now: Instant) {
        let until = self.booked_until.get().map_or(now, |until| until.max(now)) + SPACING;
        let until = until.min(now + PAUSE_MAX);
        self.booked_until.set(Some(until));
        self.due.set(until.checked_sub(SPACING * BURST).filter(|due| *due > now));
    }

    /// Returns the end of the pause that was booked last.
    pub(crate) fn take(&self) -> Option<Instant> {
        self.due.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_who_are_refused_may_come_again_at_once() {
        let (refusal_pauses, now) = (RefusalPauses::default(), Instant::now());
        for _ in 0..BURST {
            refusal_pauses.book(now);
            assert_eq!(refusal_pauses.take(), None);
        }
        refusal_pauses.book(now);
        assert_eq!(refusal_pauses.take(), Some(now + SPACING));
        assert_eq!(refusal_pauses.take(), None, "it is that of one connection");
    }

    #[test]
    fn each_of_many_clients_rests_until_its_place_but_no_longer_than_a_second() {
        let (refusal_pauses, now) = (RefusalPauses::default(), Instant::now());
        (0..1000 + BURST).for_each(|_| refusal_pauses.book(now));
        assert_eq!(refusal_pauses.take(), Some(now + 1000 * SPACING));
        (0..100_000).for_each(|_| refusal_pauses.book(now));
        assert_eq!(refusal_pauses.take(), Some(now + PAUSE_MAX - BURST * SPACING));
    }

    #[test]
    fn a_booked_pause_is_over_by_itself() {
        let (refusal_pauses, now) = (RefusalPauses::default(), Instant::now());
        (0..1000).for_each(|_| refusal_pauses.book(now));
        refusal_pauses.book(now + PAUSE_MAX);
        assert_eq!(refusal_pauses.take(), None);
    }
}
