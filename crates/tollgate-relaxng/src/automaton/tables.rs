//! The transitions of the automaton that are known so far.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use foldhash::fast::FixedState;

use crate::pattern::{Id, Symbol};

/// The number of a list of patterns: what remains of the parent after each content of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rests(pub(super) u32);

/// The transition of a start tag: the state inside of the element, and the rests of its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) state: Id,
    pub(crate) rests: Rests,
}

/// The transition of an attribute: the patterns of its value, and the state after each.
pub(crate) type Valued = Rc<[(Id, Id)]>;

/// The datatypes, values and lists that a text in one state may match.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    /// Leaves that are tried one by one.
    pub(super) tests: Vec<Id>,
    /// Values that equal a text with the same words.
    pub(super) by_words: HashMap<Box<str>, Vec<Id>, FixedState>,
}

/// Hashes two numbers by multiplication. The numbers are ids, which a document cannot choose.
#[derive(Default)]
pub(super) struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high;
    }
}

type Table<V> = HashMap<u64, V, BuildHasherDefault<PairHasher>>;

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) open: Table<Opened>,
    pub(super) attribute: Table<Valued>,
    pub(super) end: Table<Id>,
    /// By the state, and the set of matching leaves as a pattern.
    pub(super) data: Table<Id>,
    /// By the index of the state.
    pub(super) close: Vec<Option<Id>>,
    pub(super) text: Vec<Option<Id>>,
    pub(super) leaves: Vec<Option<Rc<Leaves>>>,
    /// The number of entries in all tables, with their parts.
    pub(super) count: usize,
}

impl Tables {
    /// Stores an entry of a table by state.
    pub(super) fn set<T: Clone>(table: &mut Vec<Option<T>>, state: Id, value: T) {
        let index = state.0 as usize;
        if table.len() <= index {
            table.resize(index + 1, None);
        }
        table[index] = Some(value);
    }
}

/// Returns the key of a state and a symbol.
pub(super) const fn by_symbol(state: Id, symbol: Symbol) -> u64 {
    (state.0 as u64) << 32 | symbol.0 as u64
}

/// Returns the key of a state and a list of rests.
pub(super) const fn by_rests(state: Id, rests: Rests) -> u64 {
    (state.0 as u64) << 32 | rests.0 as u64
}

/// Returns the key of two patterns.
pub(super) const fn by_pattern(state: Id, other: Id) -> u64 {
    (state.0 as u64) << 32 | other.0 as u64
}
