//! File descriptors that are reserved for the log.
//!
//! The system limits the descriptors of a process, and connections and their files may use all of them. A log
//! that cannot open its next segment would stop permanently. So when no descriptor is free, the log closes a
//! reserved one, and then opens its file.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// Number of reserved descriptors: twice the number of files that the log opens at a time. The log may open
/// the next segment, its folder, and the files of sealer and retainer at the same time.
const KEPT_MAX: usize = 8;
/// Longest wait for a descriptor, and the pause between two tries. Another thread may use the descriptor that
/// the log just closed. The log then waits until a descriptor is closed.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

static KEPT: Mutex<Kept> = Mutex::new(Kept { max: 0, files: Vec::new() });

struct Kept {
    /// Number of descriptors to reserve. Zero in a process that writes no log.
    max: usize,
    files: Vec<File>,
}

/// Reserves descriptors from now on, or fewer if the system has no more.
pub(crate) fn keep() {
    kept().max = KEPT_MAX;
    refill();
}

/// Opens a file. If no descriptor is free, closes a reserved one first.
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

/// Guard that reserves descriptors again when it is dropped. A file of the log has the guard as its last
/// field, so that the guard is dropped after the file is closed.
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
