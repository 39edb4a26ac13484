//! What is accepted before others have their turn.
//!
//! One connection is, then all that is ready comes first: who comes in a crowd waits in the kernel, in
//! nobody's way. Of those that are served as they are accepted it is as many as take no longer than others
//! may wait: they are over by then. After a long turn it is some, as many as cost next to nothing beside it,
//! for in the kernel nobody tells them anything, and where its queue is full they are reset in the end. Where
//! turns take so long that those who wait will not be served in time all the same, some of them are accepted
//! to be refused: as many as are too many, and again at most as many as cost next to nothing.

use std::os::fd::OwnedFd;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::sys::{self, AcceptQueue};

/// In a turn of so long one connection is refused, which takes a tenth of that.
const REFUSAL_PAUSE: Duration = Duration::from_micros(250);
/// For so long a turn one connection is accepted after it, which takes a tenth of that; after a shorter one
/// as well.
const ARRIVAL_PAUSE: Duration = Duration::from_micros(250);
/// For so long connections are served as they are accepted while others wait: further ones have tasks.
const AT_ONCE: Duration = Duration::from_micros(100);
/// How many turns are looked at: a single long one tells nothing of the next.
const TURNS: usize = 4;

pub(crate) struct AcceptPacing {
    /// How many can wait to be accepted.
    queue_len_max: u32,
    /// When the first connection of this turn was accepted, and how many are served that were.
    begun: Option<Instant>,
    served: u32,
    /// The last ones, the best of which the next are believed to be like.
    last: [Turn; TURNS],
    next: usize,
    /// What is left of those that are refused before the next turn, and then of those that are served.
    refusals: u32,
    arrivals: u32,
}

#[derive(Clone, Copy)]
struct Turn {
    took: Duration,
    /// How many connections can be served that are accepted in it.
    serves: u32,
}

/// What becomes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Served,
    Refused,
}

impl AcceptPacing {
    pub(crate) fn new(listener: &OwnedFd) -> Self {
        Self::among(sys::accept_queue(listener).len_max)
    }

    fn among(queue_len_max: u32) -> Self {
        let last = [Turn { took: Duration::ZERO, serves: 1 }; TURNS];
        Self { queue_len_max, begun: None, served: 0, last, next: 0, refusals: 0, arrivals: 0 }
    }

    /// Decides about the connection that was accepted.
    pub(crate) fn fate(&mut self) -> Fate {
        self.begun.get_or_insert_with(Instant::now);
        if self.refusals == 0 {
            self.served = self.served.saturating_add(1);
            self.arrivals = self.arrivals.saturating_sub(1);
            return Fate::Served;
        }
        self.refusals -= 1;
        Fate::Refused
    }

    /// Nobody waits any more.
    pub(crate) fn forgive(&mut self) {
        (self.refusals, self.arrivals, self.begun, self.served) = (0, 0, None, 0);
    }

    /// Whether others can wait until a connection is served at once.
    pub(crate) fn has_time(&self) -> bool {
        self.begun.is_none_or(|begun| begun.elapsed() < AT_ONCE)
    }

    /// Gives others their turn, if one is due after a connection that was `served` or not. Who waits on
    /// `listener` may do so for `patience`.
    pub(crate) async fn pass(&mut self, served: Poll<()>, listener: &OwnedFd, patience: Duration) {
        if !self.is_others_turn(served) {
            return;
        }
        let others_begun = Instant::now();
        tokio::task::yield_now().await;
        let others_took = others_begun.elapsed();
        let at_once =
            self.begun.map_or(Duration::ZERO, |begun| others_begun.saturating_duration_since(begun));
        self.refusals = self.note(at_once, others_took, patience, || sys::accept_queue(listener));
    }

    fn is_others_turn(&self, served: Poll<()>) -> bool {
        self.refusals == 0 && self.arrivals == 0 && (served.is_pending() || !self.has_time())
    }

    /// How many are refused, after a turn that took so long with what was served at once and with others.
    fn note(
        &mut self,
        at_once: Duration,
        others: Duration,
        patience: Duration,
        queue: impl FnOnce() -> AcceptQueue,
    ) -> u32 {
        self.arrivals = arrivals(others);
        let took = at_once + others;
        self.last[self.next] = Turn { took, serves: self.arrivals.max(self.served) };
        self.next = (self.next + 1) % TURNS;
        (self.begun, self.served) = (None, 0);
        let in_time = self.last.iter().map(|turn| turn.serves_within(patience)).max().unwrap_or(0);
        let refusals_max = count(took, REFUSAL_PAUSE);
        if refusals_max == 0 || in_time >= self.queue_len_max {
            return 0;
        }
        queue().len.saturating_sub(in_time).min(refusals_max)
    }
}

impl Turn {
    fn serves_within(self, patience: Duration) -> u32 {
        count(patience, self.took).saturating_mul(self.serves)
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
        let mut noted = AcceptPacing::among(4096);
        let queue = || AcceptQueue { len: waiting, len_max: 4096 };
        turns.iter().fold(0, |_, &ms| noted.note(Duration::ZERO, MS * ms, 1000 * MS, queue))
    }

    #[test]
    fn connections_that_would_not_be_served_in_time_are_refused() {
        assert_eq!(refused(&[10; 4], 4000), 0);
        assert_eq!(refused(&[10; 4], 4001), 1);
        assert_eq!(refused(&[10; 4], 4020), 20);
    }

    #[test]
    fn the_longer_turns_take_the_more_are_served_after_each() {
        for (turns, served) in [([0; 4], 1), ([1; 4], 4), ([5; 4], 20), ([900, 900, 900, 3], 12)] {
            let mut noted = AcceptPacing::among(4096);
            for ms in turns {
                noted.note(Duration::ZERO, MS * ms, 1000 * MS, || AcceptQueue { len: 0, len_max: 4096 });
            }
            assert_eq!(noted.arrivals, served, "{turns:?}");
        }
    }

    #[test]
    fn connections_served_at_once_follow_each_other_for_as_long_as_others_may_wait() {
        assert!(AcceptPacing::among(4096).has_time());
        // An hour: no test is held up for so long.
        let hour = Duration::from_secs(3600);
        let early = AcceptPacing { begun: Some(Instant::now() + hour), ..AcceptPacing::among(4096) };
        assert!(early.has_time() && !early.is_others_turn(Poll::Ready(())));
        assert!(early.is_others_turn(Poll::Pending));
        let late = AcceptPacing { begun: Instant::now().checked_sub(AT_ONCE), ..AcceptPacing::among(4096) };
        assert!(!late.has_time() && late.is_others_turn(Poll::Ready(())));
    }

    #[test]
    fn no_more_accepted_connections_are_served_after_a_long_turn_than_after_a_short_one() {
        let mut turns = AcceptPacing::among(4096);
        turns.note(Duration::ZERO, 10 * MS, 1000 * MS, || AcceptQueue { len: 0, len_max: 4096 });
        assert_eq!((turns.arrivals, turns.fate(), turns.has_time()), (40, Fate::Served, true));
        turns.begun = Instant::now().checked_sub(AT_ONCE);
        assert!(!turns.has_time() && !turns.is_others_turn(Poll::Ready(())));
        assert_eq!(turns.fate(), Fate::Served);
        assert!(!turns.has_time());
    }

    #[test]
    fn a_connection_served_at_once_lets_no_more_be_accepted_after_it() {
        let mut turns = AcceptPacing::among(4096);
        turns.note(900 * MS, MS, 1000 * MS, || AcceptQueue { len: 0, len_max: 4096 });
        assert_eq!(turns.arrivals, 4);
    }

    #[test]
    fn as_many_connections_are_expected_to_be_served_in_a_turn_as_in_those_before() {
        let mut turns = AcceptPacing::among(4096);
        for (served, refused) in [(10, 0), (10, 0), (10, 0), (10, 4), (11, 0), (0, 0)] {
            (0..served).for_each(|_| assert_eq!(turns.fate(), Fate::Served));
            let queue = || AcceptQueue { len: 4096, len_max: 4096 };
            assert_eq!(turns.note(MS, Duration::ZERO, 400 * MS, queue), refused, "after {served}");
            turns.forgive();
        }
    }

    #[test]
    fn a_turn_refuses_no_more_than_costs_a_tenth_of_it() {
        assert_eq!(refused(&[4; 4], 4096), 16);
    }

    #[test]
    fn the_accept_queue_is_not_read_after_a_turn_that_is_too_short_to_refuse_one() {
        let mut turns = AcceptPacing::among(4096);
        let took = REFUSAL_PAUSE - Duration::from_nanos(1);
        for _ in 0..TURNS {
            assert_eq!(turns.note(Duration::ZERO, took, MS, || panic!("the queue is looked at")), 0);
        }
    }

    #[test]
    fn a_single_long_turn_refuses_nobody() {
        assert_eq!(refused(&[0, 0, 900, 0], 4096), 0);
        assert_eq!(refused(&[0, 0, 0, 900], 4096), 0);
        assert_eq!(refused(&[900, 900, 900, 900], 4096), 496);
    }

    #[test]
    fn connections_to_be_refused_after_a_turn_are_refused_before_others_are_served() {
        let mut turns = AcceptPacing { refusals: 2, arrivals: 2, ..AcceptPacing::among(4096) };
        let mut fates = || {
            let fate = turns.fate();
            (fate, turns.is_others_turn(Poll::Pending))
        };
        assert_eq!(fates(), (Fate::Refused, false));
        assert_eq!(fates(), (Fate::Refused, false));
        assert_eq!(fates(), (Fate::Served, false));
        assert_eq!(fates(), (Fate::Served, true));
        assert_eq!(turns.served, 2);
    }

    #[test]
    fn others_have_their_turn_when_no_connection_waits() {
        let mut turns = AcceptPacing { refusals: 2, arrivals: 2, ..AcceptPacing::among(4096) };
        turns.forgive();
        assert!(turns.is_others_turn(Poll::Pending));
    }
}
