//! Decides when the allocator gives free memory back to the system: after much was freed, and not often.

use std::time::{Duration, Instant};

use super::memory::Sum;
use crate::sys::allocator;

/// Estimated free bytes that make a trim worth while.
const FREED_BYTES_MIN: u64 = 8 << 20;
/// Time between two trims, at least, because a trim holds the locks of the allocator.
const PAUSE: Duration = Duration::from_secs(5);

/// The maximum of counted memory and the minimum of resident memory since the last trim.
#[derive(Default)]
pub(super) struct Trimmer {
    counted_bytes_max: u64,
    /// `None` directly after a trim.
    resident_bytes_min: Option<u64>,
    trimmed_at: Option<Instant>,
}

impl Trimmer {
    /// Trims if enough memory is free.
    pub(super) fn look(&mut self, now: Instant, memory: Sum) {
        if self.is_due(now, memory) {
            allocator::trim();
        }
    }

    /// Returns whether the counted memory shrank by `FREED_BYTES_MIN`, or the resident memory grew by as
    /// much. In the second case, counted memory may have been allocated and freed between two samples.
    fn is_due(&mut self, now: Instant, memory: Sum) -> bool {
        let Sum { resident_bytes, counted_bytes } = memory;
        self.counted_bytes_max = self.counted_bytes_max.max(counted_bytes);
        let resident_bytes_min =
            self.resident_bytes_min.map_or(resident_bytes, |min| min.min(resident_bytes));
        self.resident_bytes_min = Some(resident_bytes_min);
        let freed_bytes = self.counted_bytes_max - counted_bytes;
        let grown_bytes = resident_bytes - resident_bytes_min;
        let has_paused = self.trimmed_at.is_none_or(|at| now.saturating_duration_since(at) >= PAUSE);
        if freed_bytes.max(grown_bytes) < FREED_BYTES_MIN || !has_paused {
            return false;
        }
        *self = Self { counted_bytes_max: counted_bytes, resident_bytes_min: None, trimmed_at: Some(now) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Passes one sample a second, as resident and counted MiB, to a trimmer. Returns the seconds at which a
    /// trim was due.
    fn trims(looks: &[(u64, u64)]) -> Vec<usize> {
        let (mut trimmer, begun) = (Trimmer::default(), Instant::now());
        let due = |(second, (resident, counted)): (usize, &(u64, u64))| {
            let now = begun + Duration::from_secs(second as u64);
            let memory = Sum { resident_bytes: resident * MIB, counted_bytes: counted * MIB };
            trimmer.is_due(now, memory).then_some(second)
        };
        looks.iter().enumerate().filter_map(due).collect()
    }

    #[test]
    fn memory_is_trimmed_after_much_was_freed_and_not_while_nothing_happens() {
        assert_eq!(trims(&[(15, 0); 30]), Vec::<usize>::new());
        // The resident memory grows by the counted memory, so one trim is tried. Then the counted memory is
        // freed.
        assert_eq!(
            trims(&[(15, 0), (60, 40), (60, 40), (60, 40), (60, 40), (60, 40), (60, 0), (15, 0), (15, 0)]),
            [1, 6]
        );
        // The memory was allocated and freed between two samples.
        assert_eq!(trims(&[(15, 0), (15, 0), (90, 0), (15, 0), (15, 0)]), [2]);
    }

    #[test]
    fn trims_have_a_pause_between_them() {
        let waves = [(15, 0), (90, 70)].repeat(10);
        assert_eq!(trims(&waves), [1, 6, 11, 16]);
    }
}
