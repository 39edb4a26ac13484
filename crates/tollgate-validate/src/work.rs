//! The bound on the work of a document.
//!
//! A document may always spend the [`base`] of its schema. Each byte adds [`PER_BYTE`] units, but never
//! beyond one base that is not spent. So the whole work is in proportion to the bytes, and one event of a
//! long document costs no more than one event of a short document.

use tollgate_relaxng::{CompiledSchema, ValidationLimits};

/// Units that each byte adds. A unit is an event, or a pattern that a derivative visits.
pub const PER_BYTE: u64 = 8;

/// The base of a small schema in units.
const BASE: u64 = 200_000;
/// Units that each pattern of a schema adds to its base, because the first documents of a large schema visit
/// many patterns: no transition is known yet.
const PER_PATTERN: u64 = 200;

/// Returns the units that a document may spend before its bytes add more.
#[must_use]
pub fn base(schema: &CompiledSchema) -> u64 {
    BASE + PER_PATTERN * schema.size() as u64
}

/// Returns the bounds of the documents of a thread. Emptying an automaton of this size takes few
/// milliseconds.
#[must_use]
pub fn limits() -> ValidationLimits {
    ValidationLimits { patterns_max: 20_000, transitions_max: 20_000, ..ValidationLimits::default() }
}

/// The bound on the work of one document, which grows with its bytes.
#[derive(Debug)]
pub(crate) struct Allowance {
    base: u64,
    pub(crate) max: u64,
}

impl Allowance {
    pub(crate) const fn new(base: u64) -> Self {
        Self { base, max: base }
    }

    /// Adds the units of more bytes, for a document that has spent `used` units.
    pub(crate) fn grow(&mut self, used: u64, bytes: usize) {
        let grown = self.max.saturating_add(PER_BYTE.saturating_mul(bytes as u64));
        self.max = grown.min(used.saturating_add(self.base));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_with_the_bytes_and_never_beyond_one_base_that_is_not_spent() {
        let check = |used: u64, bytes: usize, expected: u64| {
            let mut allowance = Allowance::new(1000);
            allowance.grow(used, bytes);
            assert_eq!(allowance.max, expected, "{used} {bytes}");
        };
        check(0, 100, 1000);
        check(100, 100, 1100);
        check(1000, 100, 1000 + 100 * PER_BYTE);
        check(1000, usize::MAX, 2000);
    }
}
