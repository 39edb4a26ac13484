//! Whether connections that come with their request are served as they are accepted: as long as that is the
//! end of most. Of one that has to wait, for the log or for a script, a task looks at all again that it waits
//! for.

use std::cell::Cell;
use std::task::Poll;

/// So many more are tried that have to wait than are over, until the clock ticks.
const TRIES: u32 = 16;

/// Who begins to serve a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Whoever accepted it.
    AtOnce,
    /// Its task.
    InTask,
}

/// Of one listening socket.
#[derive(Default)]
pub(super) struct Eagerness {
    tries_left: Cell<u32>,
    tick: Cell<Option<u32>>,
}

impl Eagerness {
    /// How the next one starts, in this tick of the clock.
    pub(super) fn start(&self, tick: u32) -> Start {
        if self.tick.replace(Some(tick)) != Some(tick) {
            self.tries_left.set(TRIES);
        }
        if self.tries_left.get() > 0 { Start::AtOnce } else { Start::InTask }
    }

    /// Learns what became of one that started at once.
    pub(super) fn learn(&self, served: Poll<()>) {
        let left = self.tries_left.get();
        self.tries_left.set(match served {
            Poll::Ready(()) => TRIES.min(left + 1),
            Poll::Pending => left.saturating_sub(1),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_start_at_once_until_too_many_wait_and_again_with_the_next_tick() {
        let eagerness = Eagerness::default();
        for tick in 0..3 {
            for _ in 0..TRIES {
                assert_eq!(eagerness.start(tick), Start::AtOnce);
                eagerness.learn(Poll::Pending);
            }
            assert_eq!(eagerness.start(tick), Start::InTask);
        }
    }

    #[test]
    fn connections_that_are_over_at_once_outweigh_as_many_that_have_to_wait() {
        let eagerness = Eagerness::default();
        for number in 0..10 * TRIES {
            assert_eq!(eagerness.start(0), Start::AtOnce);
            eagerness.learn(if number % 2 == 0 { Poll::Pending } else { Poll::Ready(()) });
        }
        // However many were over, they make up for no more.
        (0..10 * TRIES).for_each(|_| eagerness.learn(Poll::Ready(())));
        (0..TRIES).for_each(|_| eagerness.learn(Poll::Pending));
        assert_eq!(eagerness.start(0), Start::InTask);
    }
}
