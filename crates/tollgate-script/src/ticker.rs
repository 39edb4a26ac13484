//! The clock of budgets: a thread of the process that increments a counter each millisecond while calls run.
//!
//! The thread rests after `IDLE_TICKS_MAX` ticks without a call. Without rests, a process with idle scripts
//! would wake a thousand times a second, which costs 1% of a core.
//!
//! Each `Host` has its own flag for a running call. Workers therefore share only one cache line, whose
//! content seldom changes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub(crate) const TICK: Duration = Duration::from_millis(1);
/// Number of ticks without a call before the thread rests.
const IDLE_TICKS_MAX: u32 = 100;
/// Maximum number of ticks that one wake-up adds.
const TICKS_MAX: u64 = 10;
/// Interval at which the resting thread checks for calls.
///
/// A call that begins at the moment when the thread begins to rest may not notice this. Such a call does not
/// wake the thread, so the thread must check.
const REST: Duration = Duration::from_millis(100);

/// Milliseconds that the ticker counted since the first `Host` was created.
static TICKS: AtomicU64 = AtomicU64::new(0);
static RESTS: AtomicBool = AtomicBool::new(false);
static TICKER: Mutex<Ticker> = Mutex::new(Ticker { thread: None, hosts: Vec::new() });

struct Ticker {
    thread: Option<Thread>,
    /// The flag of each `Host`.
    hosts: Vec<Weak<Running>>,
}

/// Whether a `Host` runs a call.
#[repr(align(64))]
pub(crate) struct Running(AtomicBool);

impl Running {
    pub(crate) fn enroll() -> Arc<Self> {
        let running = Arc::new(Self(AtomicBool::new(false)));
        lock().hosts.push(Arc::downgrade(&running));
        running
    }

    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
        if RESTS.load(Ordering::Relaxed) {
            wake();
        }
    }

    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Returns the current tick.
pub(crate) fn now() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

/// Starts the ticker thread unless it already runs.
pub(crate) fn start() -> io::Result<()> {
    let mut ticker = lock();
    if ticker.thread.is_none() {
        let started = thread::Builder::new().name("tollgate-tick".to_owned()).spawn(run)?;
        ticker.thread = Some(started.thread().clone());
    }
    Ok(())
}

fn run() {
    let mut idle_ticks = 0;
    let mut last = Instant::now();
    loop {
        thread::sleep(TICK);
        let now = Instant::now();
        TICKS.fetch_add(ticks_between(last, now), Ordering::Relaxed);
        last = now;
        idle_ticks = if is_any_running() { 0 } else { idle_ticks + 1 };
        if idle_ticks == IDLE_TICKS_MAX {
            rest();
            idle_ticks = 0;
            last = Instant::now();
        }
    }
}

/// Returns the number of ticks that passed between two times.
///
/// On a busy core the thread wakes late. All the time that passed counts, because each late tick would
/// lengthen a slice. `TICKS_MAX` bounds the result, because no call ran while the whole process was stopped.
fn ticks_between(last: Instant, now: Instant) -> u64 {
    let passed = now.saturating_duration_since(last).as_nanos() / TICK.as_nanos();
    u64::try_from(passed).unwrap_or(u64::MAX).clamp(1, TICKS_MAX)
}

/// Waits until a call begins.
fn rest() {
    RESTS.store(true, Ordering::SeqCst);
    while RESTS.load(Ordering::SeqCst) && !is_any_running() {
        thread::park_timeout(REST);
    }
    RESTS.store(false, Ordering::SeqCst);
}

#[cold]
fn wake() {
    RESTS.store(false, Ordering::SeqCst);
    if let Some(thread) = &lock().thread {
        thread.unpark();
    }
}

fn is_any_running() -> bool {
    let mut is_any = false;
    lock().hosts.retain(|call| {
        let call = call.upgrade();
        is_any |= call.as_ref().is_some_and(|call| call.0.load(Ordering::Relaxed));
        call.is_some()
    });
    is_any
}

fn lock() -> MutexGuard<'static, Ticker> {
    TICKER.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn a_late_wake_counts_for_what_passed_and_a_pause_for_a_few_ticks() {
        let begun = Instant::now();
        let check = |passed_us, ticks| {
            assert_eq!(ticks_between(begun, begun + Duration::from_micros(passed_us)), ticks, "{passed_us}");
        };
        check(1060, 1);
        check(400, 1);
        check(4700, 4);
        check(3_600_000_000, TICKS_MAX);
    }

    #[test]
    fn the_ticker_ticks_while_a_call_runs_and_rests_when_none_does() {
        start().unwrap();
        let running = Running::enroll();
        for _ in 0..3 {
            running.begin();
            let begun = now();
            wait_until("it ticks", || now() > begun + u64::from(IDLE_TICKS_MAX));
            assert!(!RESTS.load(Ordering::SeqCst), "a call runs");
            running.end();
            wait_until("it rests", || RESTS.load(Ordering::SeqCst));
        }
    }
}
