//! Whether the system gives connections out as they come, or when bytes have come on them.
//!
//! A client that comes with a connection for each request costs less where its request comes with it: the
//! worker is not woken for each of them, and a socket that is asked once is never waited for
//! (`docs/performance.md`). But connections that are opened ahead count nowhere while they are held back. So
//! that is done as long as many come and are soon over: where they last less than a tick on average, fewer
//! are open than come in one (Little's law).

use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::task::Context;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::clock::TICK;
use crate::deadline::Deadlines;
use crate::listen::Acceptance;
use crate::options::Deferral;

/// From so many in a tick on it pays: each of them saves a few microseconds.
const ARRIVALS_MIN: usize = 25;

/// What decides when the connections of a listening socket can be accepted.
pub(super) enum Policy {
    Fixed(Acceptance),
    /// Those that came since the last tick.
    ByArrivals {
        ticks: Interval,
        arrivals: usize,
        now: Acceptance,
    },
}

impl From<Deferral> for Policy {
    fn from(deferral: Deferral) -> Self {
        match deferral {
            Deferral::Always => Self::Fixed(Acceptance::WithBytes),
            Deferral::Never => Self::Fixed(Acceptance::Empty),
            Deferral::WhereItPays => {
                let mut ticks = interval(TICK);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                Self::ByArrivals { ticks, arrivals: 0, now: Acceptance::Empty }
            }
        }
    }
}

impl Policy {
    pub(super) fn now(&self) -> Acceptance {
        match self {
            Self::Fixed(now) | Self::ByArrivals { now, .. } => *now,
        }
    }

    /// Notes a connection that came.
    pub(super) fn note(&mut self) {
        if let Self::ByArrivals { arrivals, .. } = self {
            *arrivals += 1;
        }
    }

    /// Decides for the next tick, once in each.
    pub(super) fn decide_if_due(
        &mut self,
        context: &mut Context<'_>,
        listener: &OwnedFd,
        connections: &Deadlines,
    ) {
        let Self::ByArrivals { ticks, arrivals, now } = self else { return };
        while ticks.poll_tick(context).is_ready() {
            let next = best(mem::take(arrivals), connections.count());
            // A socket that refuses stays as it is.
            if next != *now && next.set(listener.as_fd()).is_ok() {
                *now = next;
            }
        }
    }
}

/// What is best where so many came in the last tick, and so many are open.
fn best(arrivals: usize, open: usize) -> Acceptance {
    if arrivals >= ARRIVALS_MIN && open < arrivals { Acceptance::WithBytes } else { Acceptance::Empty }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_held_back_where_many_come_and_are_soon_over() {
        for (arrivals, open, expect) in [
            (25, 24, Acceptance::WithBytes),
            (25, 25, Acceptance::Empty),
            (24, 0, Acceptance::Empty),
            (3000, 50, Acceptance::WithBytes),
            (3000, 10_000, Acceptance::Empty),
            (0, 0, Acceptance::Empty),
        ] {
            assert_eq!(best(arrivals, open), expect, "{arrivals} came, {open} are open");
        }
    }
}
