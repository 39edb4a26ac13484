//! A token bucket whose state is one number: the time when the bucket will be full again.
//!
//! Source: the generic cell rate algorithm, ITU-T I.371. A full bucket needs no stored state.

use std::time::Duration;

/// The fill rate and the size of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Time from one token to the next, in nanoseconds.
    interval_ns: u64,
    /// Time in which an empty bucket becomes full, in nanoseconds.
    room_ns: u64,
}

impl Bucket {
    /// Creates a bucket that gets `count` tokens in each `period`, and holds at most `burst` tokens.
    pub(super) fn new(count: u32, period: Duration, burst: u32) -> Self {
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = (period_ns / u64::from(count.max(1))).max(1);
        Self { interval_ns, room_ns: interval_ns.saturating_mul(burst.max(1).into()) }
    }

    /// Removes a token from a bucket that would be full at `full_ns`. Returns the new time when it will be
    /// full.
    ///
    /// # Errors
    /// The bucket is empty. The error is the time until the next token.
    pub(super) fn take(self, full_ns: u64, now_ns: u64) -> Result<u64, Duration> {
        let next_ns = full_ns.max(now_ns).saturating_add(self.interval_ns);
        let over_ns = (next_ns - now_ns).saturating_sub(self.room_ns);
        if over_ns == 0 { Ok(next_ns) } else { Err(Duration::from_nanos(over_ns)) }
    }

    /// Puts a token back into a bucket that would be full at `full_ns`. A full bucket stays full.
    pub(super) fn give_back(self, full_ns: u64) -> u64 {
        full_ns.saturating_sub(self.interval_ns)
    }

    /// Returns the time until the next token of a bucket that would be full at `full_ns`. Returns `None` if a
    /// token is available.
    pub(super) fn wait(self, full_ns: u64, now_ns: u64) -> Option<Duration> {
        self.take(full_ns, now_ns).err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Asks for a token at each of these times. Returns whether a token was removed, or the milliseconds
    /// until the next token.
    fn ask(bucket: Bucket, times_ms: &[u64]) -> Vec<Result<(), u128>> {
        let mut full = 0;
        let mut take = |at: &u64| match bucket.take(full, at * MS) {
            Ok(next) => {
                full = next;
                Ok(())
            }
            Err(wait) => Err(wait.as_millis()),
        };
        times_ms.iter().map(&mut take).collect()
    }

    #[test]
    fn a_burst_goes_at_once_and_then_one_by_one() {
        let bucket = Bucket::new(10, Duration::from_secs(1), 3);
        let expected = [Ok(()), Ok(()), Ok(()), Err(100), Err(50), Ok(()), Err(100), Ok(())];
        assert_eq!(ask(bucket, &[1000, 1000, 1000, 1000, 1050, 1100, 1100, 1200]), expected);
    }

    #[test]
    fn a_bucket_holds_no_more_than_its_burst_however_long_nobody_asks() {
        let bucket = Bucket::new(1, Duration::from_secs(60), 2);
        assert_eq!(ask(bucket, &[0, 0, 0]), [Ok(()), Ok(()), Err(60_000)]);
        assert_eq!(ask(bucket, &[9_000_000; 3]), [Ok(()), Ok(()), Err(60_000)]);
    }

    #[test]
    fn a_bucket_gives_its_rate_over_a_long_time() {
        let bucket = Bucket::new(100, Duration::from_secs(1), 5);
        let times: Vec<_> = (0..10_000).collect();
        let taken = ask(bucket, &times).into_iter().filter(Result::is_ok).count();
        assert!((1000..=1005).contains(&taken), "{taken}");
    }

    #[test]
    fn the_largest_that_may_be_does_not_overflow() {
        let bucket = Bucket::new(1, Duration::from_secs(3600), 1_000_000);
        assert!(bucket.take(0, u64::MAX / 2).is_ok());
        assert!(bucket.take(u64::MAX, 1).is_err());
    }
}
