//! A name class over the names that a schema can tell apart.

use super::Symbol;

/// The symbols of a name class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameSet {
    One(Symbol),
    /// One bit for each symbol.
    Many(Box<[u64]>),
}

impl NameSet {
    /// Makes an empty set that can hold `count` symbols.
    pub(super) fn none(count: usize) -> Self {
        Self::Many(vec![0; count.div_ceil(64)].into())
    }

    pub(super) fn insert(&mut self, symbol: Symbol) {
        if let Self::Many(words) = self {
            words[symbol.index() / 64] |= 1 << (symbol.index() % 64);
        }
    }

    pub(super) fn unite(&mut self, other: &Self) {
        match (self, other) {
            (Self::Many(words), Self::Many(others)) => {
                words.iter_mut().zip(others).for_each(|(word, other)| *word |= other);
            }
            (own, Self::One(symbol)) => own.insert(*symbol),
            (Self::One(_), Self::Many(_)) => {}
        }
    }

    pub(super) fn remove_all(&mut self, other: &Self) {
        match (self, other) {
            (Self::Many(words), Self::Many(others)) => {
                words.iter_mut().zip(others).for_each(|(word, other)| *word &= !other);
            }
            (Self::Many(words), Self::One(symbol)) => {
                words[symbol.index() / 64] &= !(1 << (symbol.index() % 64));
            }
            (Self::One(_), _) => {}
        }
    }

    pub(crate) fn contains(&self, symbol: Symbol) -> bool {
        match self {
            Self::One(own) => *own == symbol,
            Self::Many(words) => words[symbol.index() / 64] >> (symbol.index() % 64) & 1 == 1,
        }
    }

    /// Whether a name is in both sets.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(symbol), set) | (set, Self::One(symbol)) => set.contains(*symbol),
            (Self::Many(words), Self::Many(others)) => words.iter().zip(others).any(|(a, b)| a & b != 0),
        }
    }
}
