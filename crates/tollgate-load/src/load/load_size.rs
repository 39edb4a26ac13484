//! The size of the next load, which a slow delivery makes smaller.
//!
//! A broker may limit the rate of its clients (a quota of Kafka). A load of the usual size then needs more
//! time than `delivery_timeout`, and each further try of the same size fails too. So the next load has half
//! the bytes, and each load that succeeds lets them grow again.

/// Least number of bytes of a load. A load has at least one batch.
const BYTES_MIN: u64 = 32 << 10;
/// Part of the size by which it grows with each load.
const GROWTH: u64 = 16;

/// Size of the next load, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoadSize {
    /// `None`: the size of the configuration.
    reduced: Option<u64>,
}

impl LoadSize {
    /// Returns the bytes at which the next load ends, if the configuration says `max`.
    pub(super) fn bytes(self, max: u64) -> u64 {
        self.reduced.map_or(max, |reduced| reduced.min(max))
    }

    /// Halves the size, because the delivery of a load of `bytes` failed.
    pub(super) fn failed(&mut self, bytes: u64) {
        let tried = self.bytes(bytes);
        self.reduced = Some((tried / 2).max(BYTES_MIN));
    }

    /// Lets the size grow, because a load succeeded. The configuration says `max`.
    pub(super) fn succeeded(&mut self, max: u64) {
        let grown = self.reduced.map(|reduced| reduced + reduced / GROWTH);
        self.reduced = grown.filter(|grown| *grown < max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 8 << 20;

    #[test]
    fn each_failure_halves_the_size_down_to_the_least() {
        let mut size = LoadSize::default();
        assert_eq!(size.bytes(MAX), MAX);
        size.failed(MAX);
        assert_eq!(size.bytes(MAX), MAX / 2);
        // The last batch of a load may pass the size.
        size.failed(MAX / 2 + 1000);
        assert_eq!(size.bytes(MAX), MAX / 4);
        (0..100).for_each(|_| size.failed(MAX));
        assert_eq!(size.bytes(MAX), BYTES_MIN);
        assert_eq!(size.bytes(1), 1);
    }

    #[test]
    fn a_small_load_that_fails_makes_the_next_one_smaller_than_itself() {
        let mut size = LoadSize::default();
        size.failed(100 << 10);
        assert_eq!(size.bytes(MAX), 50 << 10);
    }

    #[test]
    fn loads_that_succeed_bring_the_size_back() {
        let mut size = LoadSize::default();
        (0..100).for_each(|_| size.failed(MAX));
        let grown = (0..).take_while(|_| {
            size.succeeded(MAX);
            size.bytes(MAX) < MAX
        });
        assert!(grown.count() < 100);
        assert_eq!(size.reduced, None);
    }
}
