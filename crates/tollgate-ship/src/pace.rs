//! The limit on bytes per second.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Length of the longest burst: the number of bytes that the limit allows in this time.
const BURST: Duration = Duration::from_millis(100);

/// Limits copies to a number of bytes per second. All copies of a ship target share one pacer.
#[derive(Debug)]
pub struct Pacer {
    /// Limit in bytes per second. `None`: no limit.
    bytes_per_second: Option<u64>,
    /// Time from which the next bytes may be sent. `None`: no bytes were sent yet.
    free_at: Mutex<Option<Instant>>,
}

impl Pacer {
    /// Makes a pacer with a limit in bytes per second. `None`: no limit.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), free_at: Mutex::new(None) }
    }

    /// Returns the limit in bytes per second. `None`: there is none.
    pub const fn rate(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// Counts bytes that are about to be sent. Returns how long the caller must wait before it sends them.
    pub fn delay(&self, bytes: u64, now: Instant) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut free_at = self.free_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begins = free_at.unwrap_or(earliest).max(earliest);
        *free_at = begins.checked_add(takes);
        begins.saturating_duration_since(now)
    }

    /// Waits until these bytes may be sent.
    pub fn wait(&self, bytes: u64) {
        thread::sleep(self.delay(bytes, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_at_the_configured_rate() {
        let (pacer, start) = (Pacer::new(Some(1_000)), Instant::now());
        let mut now = start;
        for _ in 0..100 {
            now += pacer.delay(100, now);
        }
        let took = now - start;
        // The first bytes are a burst of a tenth of a second. No wait follows the last bytes.
        assert!(took >= Duration::from_millis(9_700) && took <= Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn a_pause_earns_no_long_burst() {
        let (pacer, start) = (Pacer::new(Some(1_000)), Instant::now());
        assert_eq!(pacer.delay(100, start), Duration::ZERO);
        let later = start + Duration::from_mins(10);
        assert_eq!(pacer.delay(1_000, later), Duration::ZERO);
        assert_eq!(pacer.delay(1, later), Duration::from_millis(900));
    }

    #[test]
    fn no_limit_means_no_wait() {
        assert_eq!(Pacer::new(None).delay(u64::MAX, Instant::now()), Duration::ZERO);
    }
}
