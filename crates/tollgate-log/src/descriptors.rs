//! Descriptors that are kept for the log.
//!
//! The system counts them by process, so connections and what is open for them may have all there are. A log
//! that could not open its next segment for that would stop for good; so where none is left, it gives up one
//! of its own for what it opens.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// The next segment, its folder, and what the sealer and the retainer open meanwhile, twice.
const KEPT_MAX: usize = 8;
/// Whoever takes what was given up has to close it some day: so long that is waited for, with such pauses.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

static KEPT: Mutex<Kept> = Mutex::new(Kept { max: 0, files: Vec::new() });

struct Kept {
    /// How many are to be kept: none by a process that does not write a log.
    max: usize,
    files: Vec<File>,
}

/// Keeps descriptors from now on, as far as there are some.
pub(crate) fn keep() {
    kept().max = KEPT_MAX;
    refill();
}

/// Opens something, by a descriptor that was kept if no other is left.
///
/// # Errors
/// Those of `open`.
pub(crate) fn opened<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let mut result = open();
    let begun = Instant::now();
    while is_short(&result) && begun.elapsed() < PATIENCE {
        let given_up = kept().files.pop();
        if given_up.is_none() {
            thread::sleep(PAUSE);
        }
        drop(given_up);
        result = open();
    }
    result
}

/// Held behind a file of the log: when that is closed, its descriptor is kept before others take it.
pub(crate) struct Refill;

impl Drop for Refill {
    fn drop(&mut self) {
        refill();
    }
}

fn refill() {
    let mut kept = kept();
    while kept.files.len() < kept.max
        && let Ok(file) = File::open("/dev/null")
    {
        kept.files.push(file);
    }
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_short<T>(result: &io::Result<T>) -> bool {
    let errno = result.as_ref().err().and_then(Errno::from_io_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}
