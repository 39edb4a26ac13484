//! File descriptors that are reserved for the log.
//!
//! The system limits descriptors per process, so connections and their files may use all of them. A log that
//! cannot open its next segment would stop permanently. So when none is left, the log closes one of its
//! reserved descriptors and opens its file with it.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Number of reserved descriptors. It is twice what the log opens at a time: the next segment, its folder,
/// and the files of sealer and retainer.
const KEPT_MAX: usize = 8;
/// Longest wait for a descriptor, and the pause between two tries. Another thread may take the descriptor
/// that was given up, and has to close it some day.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

static KEPT: Mutex<Kept> = Mutex::new(Kept { max: 0, files: Vec::new() });

struct Kept {
    /// Number of descriptors to reserve. It is zero in a process that writes no log.
    max: usize,
    files: Vec<File>,
}

/// Reserves descriptors from now on, as far as the system has some.
pub(crate) fn keep() {
    kept().max = KEPT_MAX;
    refill();
}

/// Opens a file, with a reserved descriptor if no other is left.
///
/// # Errors
/// An error of `open`.
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

/// Dropped after a file of the log is closed. It then reserves a descriptor again, before other threads take
/// it.
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
