//! Cells for single numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only rises. One thread adds, and any thread reads. If two threads add at the same time, one
/// addition may be lost.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more` to the count.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Returns the sum of all additions.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that rises and falls. One thread writes, and any thread reads.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Replaces a part of the value: subtracts `before` and adds `after`.
    #[inline]
    pub fn shift(&self, before: u64, after: u64) {
        let all = self.0.load(Ordering::Relaxed);
        self.0.store(all.wrapping_sub(before).wrapping_add(after), Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_the_sum_of_its_parts() {
        let gauge = Gauge::default();
        gauge.shift(0, 5);
        gauge.shift(0, 2);
        gauge.shift(5, 1);
        assert_eq!(gauge.get(), 3);
        gauge.shift(1, 0);
        gauge.shift(2, 0);
        assert_eq!(gauge.get(), 0);
    }
}
