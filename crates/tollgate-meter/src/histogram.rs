//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;

/// Upper bounds of the buckets in nanoseconds. One more bucket counts longer durations.
pub const BOUNDS_NS: [u64; 19] = [
    10 * US,
    25 * US,
    50 * US,
    100 * US,
    250 * US,
    500 * US,
    MS,
    2_500 * US,
    5 * MS,
    10 * MS,
    25 * MS,
    50 * MS,
    100 * MS,
    250 * MS,
    500 * MS,
    S,
    2_500 * MS,
    5 * S,
    10 * S,
];
const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// Counts durations by bucket. One thread writes, and any thread reads.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, took: Duration) {
        let nanoseconds = nanoseconds(took);
        self.observe_in(Self::bucket(nanoseconds), nanoseconds, 1);
    }

    /// Returns the bucket of a duration in nanoseconds, for [`Self::observe_in`].
    #[inline]
    pub fn bucket(nanoseconds: u64) -> usize {
        BOUNDS_NS.partition_point(|bound| *bound < nanoseconds)
    }

    /// Counts `count` equal durations, in the bucket that [`Self::bucket`] returned.
    #[inline]
    pub fn observe_in(&self, bucket: usize, nanoseconds: u64, count: u64) {
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
            let more = nanoseconds.wrapping_mul(count);
            let sum = self.sum_ns.load(Ordering::Relaxed).wrapping_add(more);
            self.sum_ns.store(sum, Ordering::Relaxed);
        }
    }

    /// Returns the current counts.
    pub fn read(&self) -> Observed {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        Observed { buckets, sum_ns: self.sum_ns.load(Ordering::Relaxed) }
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// The counts of a histogram at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Observed {
    /// Number of durations in each bucket, by [`BOUNDS_NS`]. The last bucket counts longer durations.
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations in nanoseconds.
    pub sum_ns: u64,
}

impl Observed {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// Returns the counts since an earlier reading. If a count is smaller than before, it is assumed to have
    /// begun again at zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut buckets = self.buckets;
        for (bucket, before) in buckets.iter_mut().zip(earlier.buckets) {
            *bucket = bucket.checked_sub(before).unwrap_or(*bucket);
        }
        Self { buckets, sum_ns: self.sum_ns.checked_sub(earlier.sum_ns).unwrap_or(self.sum_ns) }
    }

    /// Returns the duration that this share of all durations did not exceed. Returns `None` if there are no
    /// durations.
    ///
    /// Durations are assumed to be spread evenly within a bucket. For the last bucket, returns its lower
    /// bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (share * count as f64).clamp(1.0, count as f64);
        let mut below = 0.0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            let inside = *bucket as f64;
            if inside > 0.0 && below + inside >= rank {
                let low = index.checked_sub(1).map_or(0, |before| BOUNDS_NS[before]);
                let high = BOUNDS_NS.get(index).copied().unwrap_or(low);
                let within = (high - low) as f64 * (rank - below) / inside;
                return Some(Duration::from_nanos(low + within as u64));
            }
            below += inside;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_is_not_shorter() {
        let check = |nanoseconds, bucket| assert_eq!(Histogram::bucket(nanoseconds), bucket, "{nanoseconds}");
        check(0, 0);
        check(10 * US, 0);
        check(10 * US + 1, 1);
        check(S, 15);
        check(10 * S, 18);
        check(10 * S + 1, 19);
        check(u64::MAX, 19);
    }

    #[test]
    fn count_and_sum_are_those_of_what_was_observed_and_of_all_that_is_added() {
        let (one, other) = (Histogram::default(), Histogram::default());
        one.observe(Duration::from_micros(7));
        one.observe(Duration::from_secs(70));
        other.observe(Duration::from_micros(30));
        let before = one.read();
        let mut all = before;
        all.add(&other.read());
        assert_eq!((all.count(), all.sum_ns), (3, 70 * S + 37 * US));
        one.observe(Duration::from_millis(3));
        let since = one.read().since(&before);
        assert_eq!((since.count(), since.sum_ns), (1, 3 * MS));
        let anew = other.read().since(&before);
        assert_eq!((anew.count(), anew.sum_ns), (1, 30 * US), "what began anew counts whole");
    }

    #[test]
    fn a_quantile_lies_in_the_bucket_of_its_rank() {
        let histogram = Histogram::default();
        assert_eq!(histogram.read().quantile(0.5), None);
        for _ in 0..99 {
            histogram.observe(Duration::from_micros(20));
        }
        histogram.observe(Duration::from_millis(80));
        let read = histogram.read();
        let us = |share| read.quantile(share).unwrap().as_micros();
        assert!((10..=25).contains(&us(0.5)), "{}", us(0.5));
        assert_eq!(us(0.99), 25);
        assert!((50_000..=100_000).contains(&us(0.999)), "{}", us(0.999));
        histogram.observe(Duration::from_secs(100));
        assert_eq!(histogram.read().quantile(1.0), Some(Duration::from_secs(10)));
    }
}
