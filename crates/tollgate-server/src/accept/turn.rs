//! What is accepted before others have their turn.
//!
//! One connection is, then all that is ready comes first: who comes in a crowd waits in the kernel, in nobody's way. But there
//! nobody tells them anything. So where turns take so long that those who wait will not be served in time, some of them
//! are accepted to be refused: as many as are too many, at most as many as cost next to nothing beside the turn.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::sys::{self, AcceptQueue};

/// In a turn of so long one connection is refused, which takes a tenth of that.
const REFUSAL_PAUSE: Duration = Duration::from_micros(250);
/// How many turns are looked at: a single long one tells nothing of the next.
const TURNS: usize = 4;

pub(super) struct Turns {
    /// How many can wait to be accepted.
    queue_len_max: u32,
    /// What the last ones took, the shortest of which the next are believed to take.
    last: [Duration; TURNS],
    next: usize,
    /// What is left of those that this turn refuses.
    refusals: u32,
}

/// What becomes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Served,
    Refused,
}

impl Turns {
    pub(super) fn new(listener: &OwnedFd) -> Self {
        Self::among(sys::accept_queue(listener).len_max)
    }

    fn among(queue_len_max: u32) -> Self {
        Self { queue_len_max, last: [Duration::ZERO; TURNS], next: 0, refusals: 0 }
    }

    /// Decides about the connection that was accepted.
    pub(super) fn fate(&mut self) -> Fate {
        if self.refusals == 0 {
            return Fate::Served;
        }
        self.refusals -= 1;
        Fate::Refused
    }

    /// Nobody waits any more.
    pub(super) fn forgive(&mut self) {
        self.refusals = 0;
    }

    /// Gives others their turn, if one is due. Who waits on `listener` may do so for `patience`.
    pub(super) async fn pass(&mut self, listener: &OwnedFd, patience: Duration) {
        if self.refusals > 0 {
            return;
        }
        let begun = Instant::now();
        tokio::task::yield_now().await;
        self.refusals = self.note(begun.elapsed(), patience, || sys::accept_queue(listener));
    }

    /// How many are refused, after a turn that took so long.
    fn note(&mut self, took: Duration, patience: Duration, queue: impl FnOnce() -> AcceptQueue) -> u32 {
        self.last[self.next] = took;
        self.next = (self.next + 1) % TURNS;
        let in_time = count(patience, self.last.into_iter().min().unwrap_or_default());
        let refusals_max = count(took, REFUSAL_PAUSE);
        if refusals_max == 0 || in_time >= self.queue_len_max {
            return 0;
        }
        queue().len.saturating_sub(in_time).min(refusals_max)
    }
}

fn count(whole: Duration, part: Duration) -> u32 {
    u32::try_from(whole.as_nanos() / part.as_nanos().max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// How many are refused after the last of some turns.
    fn refused(turns: &[u32], waiting: u32) -> u32 {
        let mut noted = Turns::among(4096);
        let queue = || AcceptQueue { len: waiting, len_max: 4096 };
        turns.iter().fold(0, |_, &ms| noted.note(MS * ms, 1000 * MS, queue))
    }

    #[test]
    fn those_are_refused_who_would_not_be_served_in_time() {
        assert_eq!(refused(&[10; 4], 100), 0);
        assert_eq!(refused(&[10; 4], 101), 1);
        assert_eq!(refused(&[10; 4], 120), 20);
    }

    #[test]
    fn a_turn_refuses_no_more_than_costs_a_tenth_of_it() {
        assert_eq!(refused(&[4; 4], 4096), 16);
    }

    #[test]
    fn nobody_asks_who_waits_after_a_turn_that_is_too_short_to_refuse_one() {
        let mut turns = Turns::among(4096);
        let took = REFUSAL_PAUSE - Duration::from_nanos(1);
        for _ in 0..TURNS {
            assert_eq!(turns.note(took, MS, || panic!("the queue is looked at")), 0);
        }
    }

    #[test]
    fn a_single_long_turn_refuses_nobody() {
        assert_eq!(refused(&[1, 1, 900, 1], 500), 0);
        assert_eq!(refused(&[1, 1, 1, 900], 500), 0);
        assert_eq!(refused(&[900, 900, 900, 900], 500), 499);
    }

    #[test]
    fn what_a_turn_may_refuse_is_refused_before_the_next_is_served() {
        let mut turns = Turns { refusals: 2, ..Turns::among(4096) };
        let fates: Vec<_> = (0..3).map(|_| turns.fate()).collect();
        assert_eq!(fates, [Fate::Refused, Fate::Refused, Fate::Served]);
    }
}
