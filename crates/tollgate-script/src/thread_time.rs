//! The processor time of a thread. Unlike the wall clock, it does not count the time of other threads.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of the calling thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
