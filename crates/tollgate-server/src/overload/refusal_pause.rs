//! How soon a client that was refused while others wait is looked at again. Most wait by themselves, as
//! `Retry-After` asks; a crowd that comes again at once would have the worker refuse and do little else.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A refusal takes the worker and its system about 8 us: with as many as that a second they have a tenth of
/// its time.
const SPACING: Duration = Duration::from_micros(80);
/// As many at once cost nobody anything: they take a tenth of a slice.
const BURST: u32 = 25;
/// What `Retry-After` asks for anyhow.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Places in time for those who come again: a virtual queue (the generic cell rate algorithm, ITU-T I.371).
#[derive(Default)]
pub(crate) struct RefusalPauses {
    /// When all who were refused so far may have come again.
    booked_until: Cell<Option<Instant>>,
    /// Of the connection that is answered now.
    due: Cell<Option<Instant>>,
}

impl RefusalPauses {
    /// One more is refused.
    pub(crate) fn book(&self, now: Instant) {
        let until = self.booked_until.get().map_or(now, |until| until.max(now)) + SPACING;
        let until = until.min(now + PAUSE_MAX);
        self.booked_until.set(Some(until));
        self.due.set(until.checked_sub(SPACING * BURST).filter(|due| *due > now));
    }

    /// Until when whoever was refused last is left alone.
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
