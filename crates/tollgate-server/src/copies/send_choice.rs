//! Which of two ways to send costs less time: some replies leave by each of them in turns, by the clock, and
//! then many by the cheaper one, or by the one that is better for the peer and costs little more.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// How many replies are timed of each way. The median counts, so that none which was interrupted decides.
const TIMED: usize = 33;
/// How many leave by the cheaper way until both are timed again.
const TERM: u32 = 1 << 13;
/// What a copy saves the peer, as a part of our time: that much more is paid for it (`docs/performance.md`).
const SAVED_PART: u32 = 16;

/// How bytes of a file get into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// As pages of the system, by sendfile.
    Pages,
    /// From a copy in memory, with the head by one write.
    Copy,
}

#[derive(Debug)]
enum Stage {
    Timing { pages: Vec<Duration>, copies: Vec<Duration> },
    Decided { way: Way, left: u32 },
}

pub(super) struct SendChoice(RefCell<Stage>);

/// A reply that is being sent, and since when, if its time is taken.
pub(crate) struct TimedSend {
    /// The copy in memory that it is sent from. None: it is sent from the file.
    pub(crate) copy: Option<Bytes>,
    begun: Option<Instant>,
}

impl Default for SendChoice {
    fn default() -> Self {
        Self(RefCell::new(Stage::timing()))
    }
}

impl Stage {
    fn timing() -> Self {
        Self::Timing { pages: Vec::with_capacity(TIMED), copies: Vec::with_capacity(TIMED) }
    }

    /// The next one, if this is over.
    fn next(&mut self) -> Option<Self> {
        match self {
            Self::Timing { pages, copies } if copies.len() == TIMED => {
                let (by_pages, by_copy) = (median(pages), median(copies));
                let way = if by_copy <= by_pages + by_pages / SAVED_PART { Way::Copy } else { Way::Pages };
                Some(Self::Decided { way, left: TERM })
            }
            Self::Decided { left: 0, .. } => Some(Self::timing()),
            _ => None,
        }
    }
}

impl SendChoice {
    /// By which way the next reply leaves.
    pub(super) fn way(&self) -> Way {
        match &*self.0.borrow() {
            Stage::Decided { way, .. } => *way,
            Stage::Timing { pages, copies } if pages.len() <= copies.len() => Way::Pages,
            Stage::Timing { .. } => Way::Copy,
        }
    }

    /// Whether all leave one way for a while.
    pub(super) fn is_decided(&self) -> bool {
        matches!(*self.0.borrow(), Stage::Decided { .. })
    }

    /// Begins to send a reply from `copy`, or from the file.
    pub(super) fn begin_send(&self, copy: Option<Bytes>) -> TimedSend {
        let is_timed = matches!(*self.0.borrow(), Stage::Timing { .. });
        TimedSend { copy, begun: is_timed.then(Instant::now) }
    }

    /// Notes that a reply left in one call. The time of any other reply depends on its peer.
    pub(super) fn end(&self, send: &TimedSend) {
        let way = if send.copy.is_some() { Way::Copy } else { Way::Pages };
        self.note(way, send.begun.map(|begun| begun.elapsed()));
    }

    fn note(&self, way: Way, time: Option<Duration>) {
        let mut stage = self.0.borrow_mut();
        match (&mut *stage, way) {
            (Stage::Decided { left, .. }, _) => *left = left.saturating_sub(1),
            (Stage::Timing { pages, .. }, Way::Pages) => pages.extend(time),
            (Stage::Timing { copies, .. }, Way::Copy) => copies.extend(time),
        }
        if let Some(next) = stage.next() {
            *stage = next;
        }
    }
}

fn median(times: &mut [Duration]) -> Duration {
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

#[cfg(test)]
impl SendChoice {
    pub(super) fn won_by(way: Way) -> Self {
        Self(RefCell::new(Stage::Decided { way, left: u32::MAX }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// By which ways so many replies leave, each of which takes what `time` says of its way and its place.
    fn ways(choice: &SendChoice, count: usize, time: impl Fn(Way, usize) -> Duration) -> Vec<Way> {
        (0..count)
            .map(|place| {
                let way = choice.way();
                choice.note(way, Some(time(way, place)));
                way
            })
            .collect()
    }

    fn timed() -> Vec<Way> {
        [Way::Pages, Way::Copy].repeat(TIMED)
    }

    #[test]
    fn the_cheaper_way_or_a_slightly_dearer_copy_is_used_until_both_are_timed_again() {
        for (pages, copy, cheaper) in [(16, 15, Way::Copy), (16, 17, Way::Copy), (16, 18, Way::Pages)] {
            let choice = SendChoice::default();
            let time = |way, _| if way == Way::Copy { copy * US } else { pages * US };
            for _ in 0..2 {
                assert!(ways(&choice, 2 * TIMED, time) == timed(), "{pages} {copy}");
                assert!(ways(&choice, TERM as usize, time) == vec![cheaper; TERM as usize], "{pages} {copy}");
            }
        }
    }

    #[test]
    fn a_send_that_is_slow_now_and_then_does_not_decide() {
        let choice = SendChoice::default();
        let time = |way, place| match way {
            Way::Copy if place % 3 == 0 => 1000 * US,
            Way::Copy => 8 * US,
            Way::Pages => 9 * US,
        };
        ways(&choice, 2 * TIMED, time);
        assert_eq!(choice.way(), Way::Copy);
    }
}
