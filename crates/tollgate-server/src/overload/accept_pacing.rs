//! Decides how many connections a worker accepts before other tasks have their turn.
//!
//! The worker usually accepts one connection, and then runs all ready tasks. Further new connections wait in
//! the kernel and do not delay those tasks. A connection that is served completely when it is accepted needs
//! no task. The worker accepts and serves such connections one after another, for up to [`AT_ONCE`].
//!
//! After a long turn the worker accepts more connections, up to a number that costs little compared with the
//! turn. The reason is that clients in the kernel queue get no answer, and that the system resets connections
//! when this queue is full.
//!
//! If turns are very long, waiting connections would be served too late. The worker then accepts and refuses
//! the connections that exceed the number it can serve in time. The cost of these refusals is bounded by a
//! share of the turn.

use std::os::fd::OwnedFd;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::sys::{self, AcceptQueue};

/// Part of a turn for which one connection may be refused. A refusal costs a tenth of this time.
const REFUSAL_PAUSE: Duration = Duration::from_micros(250);
/// Part of a turn for which one connection is accepted after the turn. At least one connection is accepted.
/// An acceptance costs a tenth of this time.
const ARRIVAL_PAUSE: Duration = Duration::from_micros(250);
/// Maximum time of a turn in which connections are served when they are accepted. Later connections get
/// tasks.
const AT_ONCE: Duration = Duration::from_micros(100);
/// Number of turns that are remembered. Several turns are needed, because a single long turn does not predict
/// the next turn.
const TURNS: usize = 4;

pub(crate) struct AcceptPacing {
    /// Capacity of the kernel's accept queue.
    queue_len_max: u32,
    /// Time when the first connection of this turn was accepted. `served` is the number of connections that
    /// were accepted and served since then.
    begun: Option<Instant>,
    served: u32,
    /// The last [`TURNS`] turns. The next turns are expected to be like the best of the last turns.
    last: [Turn; TURNS],
    next: usize,
    /// Number of connections to refuse before the next turn. `arrivals` is the number of connections to serve
    /// after these.
    refusals: u32,
    arrivals: u32,
}

#[derive(Clone, Copy)]
struct Turn {
    took: Duration,
    /// Number of connections that can be accepted and served in such a turn.
    serves: u32,
}

/// The decision about an accepted connection.
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

    /// Decides about the connection that was just accepted.
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

    /// Resets the state, because no connection waits any more.
    pub(crate) fn forgive(&mut self) {
        (self.refusals, self.arrivals, self.begun, self.served) = (0, 0, None, 0);
    }

    /// Returns whether other tasks can wait while a connection is served at once.
    pub(crate) fn has_time(&self) -> bool {
        self.begun.is_none_or(|begun| begun.elapsed() < AT_ONCE)
    }

    /// Lets other tasks run if their turn is due. `served` is ready if the last connection was served at
    /// once. Connections that wait on `listener` may wait for `patience`.
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

    /// Records the time of a turn, in two parts: connections served at once, and other tasks. Returns the
    /// number of connections to refuse.
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

/// Returns the number of connections that are accepted after a turn.
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
    /// Upper bound for the cost of one refusal or acceptance.
    const COST: Duration = Duration::from_micros(100);

    /// Returns the pacing after these turns, and the number of refusals after the last turn if `waiting`
    /// connections wait.
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
        // The last turn decides, however long the earlier turns were.
        let one_short = [900 * MS, 900 * MS, 900 * MS, 3 * MS];
        assert_eq!(after(&one_short, 0).0.arrivals, after(&[3 * MS; TURNS], 0).0.arrivals);
    }

    #[test]
    fn connections_served_at_once_follow_each_other_for_as_long_as_others_may_wait() {
        assert!(AcceptPacing::among(4096).has_time());
        // The time is one hour, because no test is delayed that long.
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
        // The best of the last turns decides.
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
