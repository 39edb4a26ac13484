//! The pace at which a `Host` replaces its VMs.

use std::cell::{Cell, RefCell};
use std::rc::Weak;
use std::time::{Duration, Instant};

use crate::vm::Vm;

/// State that decides when a `Host` may replace its VM again.
#[derive(Default)]
pub(crate) struct Pace {
    not_before: Cell<Option<Instant>>,
    /// The VM that was replaced last, while calls still use it.
    pub(crate) predecessor: RefCell<Weak<Vm>>,
}

impl Pace {
    /// Returns the time until the VM may be replaced, or `None` if it may be replaced now.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let left = self.not_before.get().map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.filter(|left| !left.is_zero());
        left.or_else(|| self.predecessor.borrow().upgrade().map(|_| PREDECESSOR_PAUSE))
    }

    /// Records the time that the thread spent on a replacement.
    pub(crate) fn note(&self, took: Duration) {
        let pause = (took * PAUSE_FACTOR).max(PAUSE_MIN);
        self.not_before.set(Some(Instant::now() + pause));
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Length of the pause after a replacement, as a multiple of the replacement's time.
const PAUSE_FACTOR: u32 = 20;
/// Interval between checks whether the calls of the previous VM have ended.
const PREDECESSOR_PAUSE: Duration = Duration::from_millis(100);
