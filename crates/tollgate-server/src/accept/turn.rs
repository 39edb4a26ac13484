//! What is accepted before others have their turn.
//!
//! One connection is, then all that is ready comes first: who comes in a crowd waits in the kernel, in nobody's way. After a long
//! turn it is some, as many as cost next to nothing beside it, for in the kernel nobody tells them anything, and where its queue is
//! full they are reset in the end. Where turns take so long that those who wait will not be served in time all the same, some of
//! them are accepted to be refused: as many as are too many, and again at most as many as cost next to nothing.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::sys::{self, AcceptQueue};

/// In a turn of so long one connection is refused, which takes a tenth of that.
const REFUSAL_PAUSE: Duration = Duration::from_micros(250);
/// For so long a turn one connection is accepted after it, which takes a tenth of that; after a shorter one as well.
const ARRIVAL_PAUSE: Duration = Duration::from_micros(250);
/// How many turns are looked at: a single long one tells nothing of the next.
const TURNS: usize = 4;

pub(super) struct Turns {
    /// How many can wait to be accepted.
    queue_len_max: u32,
    /// What the last ones took, the shortest of which the next are believed to take.
    last: [Duration; TURNS],
    next: usize,
    /// What is left of those that are refused before the next turn, and then of those that are served.
    refusals: u32,
    arrivals: u32,
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
        Self { queue_len_max, last: [Duration::ZERO; TURNS], next: 0, refusals: 0, arrivals: 0 }
    }

    /// Decides about the connection that was accepted.
    pub(super) fn fate(&mut self) -> Fate {
        if self.refusals == 0 {
            self.arrivals = self.arrivals.saturating_sub(1);
            return Fate::Served;
        }
        self.refusals -= 1;
        Fate::Refused
    }

    /// Nobody waits any more.
    pub(super) fn forgive(&mut self) {
        (self.refusals, self.arrivals) = (0, 0);
    }

    /// Gives others their turn, if one is due. Who waits on `listener` may do so for `patience`.
    pub(super) async fn pass(&mut self, listener: &OwnedFd, patience: Duration) {
        if !self.is_others_turn() {
            return;
        }
        let begun = Instant::now();
        tokio::task::yield_now().await;
        self.refusals = self.note(begun.elapsed(), patience, || sys::accept_queue(listener));
    }

    fn is_others_turn(&self) -> bool {
        self.refusals == 0 && self.arrivals == 0
    }

    /// How many are refused, after a turn that took so long.
    fn note(&mut self, took: Duration, patience: Duration, queue: impl FnOnce() -> AcceptQueue) -> u32 {
        self.last[self.next] = took;
        self.next = (self.next + 1) % TURNS;
        let shortest = self.last.into_iter().min().unwrap_or_default();
        self.arrivals = arrivals(took);
        let in_time = count(patience, shortest).saturating_mul(arrivals(shortest));
        let refusals_max = count(took, REFUSAL_PAUSE);
        if refusals_max == 0 || in_time >= self.queue_len_max {
            return 0;
        }
        queue().len.saturating_sub(in_time).min(refusals_max)
    }
}

/// How many are accepted after a turn.
fn arrivals(took: Duration) -> u32 {
    count(took, ARRIVAL_PAUSE).max(1)
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
        assert_eq!(refused(&[10; 4], 4000), 0);
        assert_eq!(refused(&[10; 4], 4001), 1);
        assert_eq!(refused(&[10; 4], 4020), 20);
    }

    #[test]
    fn the_longer_turns_take_the_more_are_served_after_each() {
        for (turns, served) in [([0; 4], 1), ([1; 4], 4), ([5; 4], 20), ([900, 900, 900, 3], 12)] {
            let mut noted = Turns::among(4096);
            for ms in turns {
                noted.note(MS * ms, 1000 * MS, || AcceptQueue { len: 0, len_max: 4096 });
            }
            assert_eq!(noted.arrivals, served, "{turns:?}");
        }
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
        assert_eq!(refused(&[0, 0, 900, 0], 4096), 0);
        assert_eq!(refused(&[0, 0, 0, 900], 4096), 0);
        assert_eq!(refused(&[900, 900, 900, 900], 4096), 496);
    }

    #[test]
    fn who_is_refused_after_a_turn_is_so_before_others_are_served() {
        let mut turns = Turns { refusals: 2, arrivals: 2, ..Turns::among(4096) };
        let mut fates = || {
            let fate = turns.fate();
            (fate, turns.is_others_turn())
        };
        assert_eq!(fates(), (Fate::Refused, false));
        assert_eq!(fates(), (Fate::Refused, false));
        assert_eq!(fates(), (Fate::Served, false));
        assert_eq!(fates(), (Fate::Served, true));
    }

    #[test]
    fn when_nobody_waits_it_is_the_turn_of_others() {
        let mut turns = Turns { refusals: 2, arrivals: 2, ..Turns::among(4096) };
        turns.forgive();
        assert!(turns.is_others_turn());
    }
}
