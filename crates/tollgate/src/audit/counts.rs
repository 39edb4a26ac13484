//! RecordCounts of records, by the last place that the records have reached.

use std::ops::{Index, IndexMut};

/// A count of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// All records.
    Ingested,
    /// Only the machine that wrote the records has them.
    Unshipped,
    /// The store has the records.
    Shipped,
    /// The sink has answered a position after the records. The database machine knows their results.
    Answered,
    /// The loader can load the records next.
    Pending,
    Loaded,
    Rejected,
    Duplicate,
    /// An operator gave up the records by command.
    GivenUp,
    Missing,
}

impl Count {
    /// All counts, in the order of the way of a record.
    pub(super) const ALL: [Self; 10] = [
        Self::Ingested,
        Self::Unshipped,
        Self::Shipped,
        Self::Answered,
        Self::Pending,
        Self::Loaded,
        Self::Rejected,
        Self::Duplicate,
        Self::GivenUp,
        Self::Missing,
    ];

    /// Returns the name of the column.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ingested => "ingested",
            Self::Unshipped => "unshipped",
            Self::Shipped => "shipped",
            Self::Answered => "answered",
            Self::Pending => "pending",
            Self::Loaded => "loaded",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
            Self::GivenUp => "given_up",
            Self::Missing => "missing",
        }
    }
}

/// All counts of some records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RecordCounts([u64; Count::ALL.len()]);

impl RecordCounts {
    /// Adds other counts to these.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the sum of all counts except the ingested records.
    pub(super) fn accounted(&self) -> u64 {
        let parts = Count::ALL.into_iter().filter(|count| *count != Count::Ingested);
        parts.map(|count| self[count]).fold(0, u64::saturating_add)
    }

    /// Returns whether each ingested record has one place.
    pub(super) fn is_exact(&self) -> bool {
        self.accounted() == self[Count::Ingested]
    }
}

impl Index<Count> for RecordCounts {
    type Output = u64;

    fn index(&self, count: Count) -> &u64 {
        &self.0[count as usize]
    }
}

impl IndexMut<Count> for RecordCounts {
    fn index_mut(&mut self, count: Count) -> &mut u64 {
        &mut self.0[count as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_ingested_records_are_added_up() {
        let mut counts = RecordCounts::default();
        for (at, count) in Count::ALL.into_iter().enumerate().skip(1) {
            counts[count] = 1 << at;
        }
        assert_eq!((counts.accounted(), counts.is_exact()), (1022, false));
        counts[Count::Ingested] = 1022;
        assert!(counts.is_exact());
        let other = counts;
        counts.add(&other);
        assert_eq!((counts[Count::Missing], counts[Count::Ingested], counts.is_exact()), (1024, 2044, true));
    }
}
