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

    const PATIENCE: Duration = Duration::from_secs(1);
    /// Refusing or accepting one takes less.
    const COST: Duration = Duration::from_micros(100);

    /// Pacing after some turns of others, and how many are refused after the last, of so many that wait.
    fn after(turns: &[Duration], waiting: u32) -> (AcceptPacing, u32) {
        let mut noted = AcceptPacing::among(4096);
        let queue = || AcceptQueue { len: waiting, len_max: 4096 };
        let refused = turns.iter().fold(0, |_, turn| noted.note(Duration::ZERO, *turn, PATIENCE, queue));
        (noted, refused)
    }

    fn refused(turns: &[Duration], waiting: u32) -> u32 {
        after(turns, waiting).1
    }

    #[test]
    fn only_connections_that_would_not_be_served_in_time_are_refused() {
        let turns = [10 * MS; TURNS];
        let in_time = count(PATIENCE, turns[0]) * after(&turns, 0).0.arrivals;
        assert!(in_time < 4096);
        let all: Vec<_> = (0..=4096).map(|waiting| refused(&turns, waiting)).collect();
        assert!(all.is_sorted(), "the more wait the more are refused");
        assert!(all[..=in_time as usize].iter().all(|refused| *refused == 0));
        assert_eq!(all[in_time as usize + 1], 1);
        let stay = (0..).zip(&all).map(|(waiting, refused)| waiting - refused);
        assert!(stay.skip(in_time as usize).all(|stay| stay >= in_time), "who is in time stays");
    }

    #[test]
    fn the_longer_turns_take_the_more_are_served_after_each() {
        let turns: Vec<_> = (0..1000).map(|ms| MS * ms).collect();
        let served: Vec<_> = turns.iter().map(|turn| after(&[*turn; TURNS], 0).0.arrivals).collect();
        assert!(served.is_sorted() && served[0] == 1 && served[999] > served[1]);
        for (turn, served) in turns.iter().zip(served) {
            assert!(served == 1 || COST * served < *turn, "{served} after {turn:?}");
        }
        // The last turn counts, whatever those before it took.
        let one_short = [900 * MS, 900 * MS, 900 * MS, 3 * MS];
        assert_eq!(after(&one_short, 0).0.arrivals, after(&[3 * MS; TURNS], 0).0.arrivals);
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
        assert!(turns.arrivals > 1 && turns.fate() == Fate::Served && turns.has_time());
        turns.begun = Instant::now().checked_sub(AT_ONCE);
        assert!(!turns.has_time() && !turns.is_others_turn(Poll::Ready(())));
        assert_eq!(turns.fate(), Fate::Served);
        assert!(!turns.has_time());
    }

    #[test]
    fn a_connection_served_at_once_lets_no_more_be_accepted_after_it() {
        let mut turns = AcceptPacing::among(4096);
        turns.note(900 * MS, MS, 1000 * MS, || AcceptQueue { len: 0, len_max: 4096 });
        assert_eq!(turns.arrivals, after(&[MS], 0).0.arrivals);
    }

    #[test]
    fn turns_that_served_many_let_as_many_more_wait() {
        let refused_after = |served: &[u32]| {
            let mut turns = AcceptPacing::among(4096);
            let mut refused = 0;
            for served in served {
                (0..*served).for_each(|_| assert_eq!(turns.fate(), Fate::Served));
                refused =
                    turns.note(MS, Duration::ZERO, PATIENCE, || AcceptQueue { len: 4096, len_max: 4096 });
                turns.forgive();
            }
            refused
        };
        let all: Vec<_> = (0..20).map(|served| refused_after(&[served; TURNS])).collect();
        assert!(all.is_sorted_by(|one, next| one >= next) && all[0] > 0 && all[19] == 0, "{all:?}");
        // The best of the last turns counts.
        assert_eq!(refused_after(&[19, 0, 0, 0]), 0);
        assert!(refused_after(&[19, 0, 0, 0, 0]) > 0);
    }

    #[test]
    fn a_turn_refuses_no_more_than_costs_next_to_nothing_beside_it() {
        let all: Vec<_> = (1..100).map(|ms| refused(&[MS * ms; TURNS], 4096)).collect();
        assert!(all.iter().any(|refused| *refused > 1));
        for (ms, refused) in (1..).zip(all) {
            assert!(COST * refused < MS * ms, "{refused} in {ms} ms");
        }
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
        let (long, none) = (900 * MS, Duration::ZERO);
        assert_eq!(refused(&[none, none, long, none], 4096), 0);
        assert_eq!(refused(&[none, none, none, long], 4096), 0);
        assert!(refused(&[long; TURNS], 4096) > 0);
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
