//! Whether the last attempt to connect to an address succeeded. All workers share this state without a lock.
//!
//! An unreachable address is picked last during a pause. After the pause, one request tries the address
//! again, and may have to wait until its attempt fails. Each failed attempt doubles the pause. A breaker
//! needs many requests to decide. The pause also works for an address that gets only few requests.
//!
//! The state is one word: the end of the pause, and the number of the pause, counted from 1. The word is 0
//! while the address is reachable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Half of the first pause, in milliseconds.
const PAUSE_MS: u64 = 500;
/// Number of the longest pause, which lasts 16 seconds.
const PAUSES_MAX: u64 = 5;
const NUMBER_BITS: u32 = 3;
/// Time after the end of a pause in which an address is still reported as unreachable, in milliseconds. Later
/// the condition of an address without requests is unknown.
pub(crate) const KNOWN_MS: u64 = 60_000;
/// Minimum time between two log lines about the loss of an address, in milliseconds. The state may change
/// often, because kept connections may reply although no new connection succeeds.
const LINE_PAUSE_MS: u64 = 10_000;

/// The reachability of one address.
#[derive(Debug, Default)]
pub(crate) struct Reachability {
    word: AtomicU64,
    /// Time of the last log line about the loss, in milliseconds, or 0.
    logged_ms: AtomicU64,
    /// Whether the loss was logged and the recovery was not.
    is_logged: AtomicBool,
}

impl Reachability {
    /// Returns whether the last connection attempt failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the last connection attempt failed recently.
    pub(crate) fn is_known_lost(&self, now_ms: u64) -> bool {
        let (until_ms, number) = parts(self.word.load(Ordering::Relaxed));
        number > 0 && now_ms < until_ms + KNOWN_MS
    }

    /// Returns whether other addresses should be tried first.
    pub(crate) fn is_pausing(&self, now_ms: u64) -> bool {
        let (until_ms, number) = parts(self.word.load(Ordering::Relaxed));
        number > 0 && now_ms < until_ms
    }

    /// Records that a request is about to try the address. If a pause is over, the next pause begins, so that
    /// only one request waits for the address.
    pub(crate) fn try_on(&self, now_ms: u64) {
        let next = |word: u64| {
            let (until_ms, number) = parts(word);
            (number > 0 && now_ms >= until_ms).then(|| paused(now_ms, (number + 1).min(PAUSES_MAX)))
        };
        // The update fails if another worker has already begun the next pause.
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Records a failed connection. Returns whether to log the loss.
    pub(crate) fn lose(&self, now_ms: u64) -> bool {
        let next = |word: u64| Some(paused(now_ms, parts(word).1.max(1)));
        self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) == Ok(0)
            && self.claim_log_line(now_ms)
    }

    fn claim_log_line(&self, now_ms: u64) -> bool {
        let logged_ms = self.logged_ms.load(Ordering::Relaxed);
        let is_due = logged_ms == 0 || now_ms >= logged_ms + LINE_PAUSE_MS;
        if is_due {
            self.logged_ms.store(now_ms.max(1), Ordering::Relaxed);
            self.is_logged.store(true, Ordering::Relaxed);
        }
        is_due
    }

    /// Records a successful connection. Returns whether to log the recovery.
    pub(crate) fn find(&self) -> bool {
        self.is_lost()
            && self.word.swap(0, Ordering::Relaxed) != 0
            && self.is_logged.swap(false, Ordering::Relaxed)
    }
}

fn parts(word: u64) -> (u64, u64) {
    (word >> NUMBER_BITS, word & ((1 << NUMBER_BITS) - 1))
}

fn paused(now_ms: u64, number: u64) -> u64 {
    (now_ms + (PAUSE_MS << number)) << NUMBER_BITS | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_address_is_tried_by_one_request_after_longer_and_longer_pauses() {
        let reach = Reachability::default();
        assert!(!reach.find() && !reach.is_lost() && !reach.is_pausing(0));
        let mut now_ms = 7;
        assert!(reach.lose(now_ms), "it is news");
        for pause_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 16_000] {
            assert!(reach.is_pausing(now_ms + pause_ms - 1) && !reach.is_pausing(now_ms + pause_ms));
            now_ms += pause_ms;
            reach.try_on(now_ms);
            assert!(reach.is_pausing(now_ms), "only one tries it");
            assert!(!reach.lose(now_ms));
        }
        assert!(reach.is_lost() && reach.find() && !reach.find() && !reach.is_lost());
        assert!(reach.lose(now_ms) && reach.is_pausing(now_ms + 999) && !reach.is_pausing(now_ms + 1_000));
    }

    #[test]
    fn an_address_that_comes_and_goes_is_logged_now_and_then() {
        let reach = Reachability::default();
        let lines = (0..1000).map(|turn| usize::from(reach.lose(turn * 25)) + usize::from(reach.find()));
        assert_eq!(lines.sum::<usize>(), 6, "lost and back, each ten seconds of 25");
    }

    #[test]
    fn an_address_without_a_request_for_a_minute_is_unknown() {
        let reach = Reachability::default();
        reach.lose(0);
        assert!(reach.is_known_lost(60_999) && !reach.is_known_lost(61_000) && reach.is_lost());
    }

    #[test]
    fn all_that_fail_at_once_make_one_pause() {
        let reach = Reachability::default();
        assert_eq!((0..100).filter(|_| reach.lose(3)).count(), 1);
        assert!(!reach.is_pausing(1_003));
    }
}
