//! A cache of a worker within a limit of bytes.
//!
//! The cache has two generations. When the younger generation is full, the older one is dropped. An entry
//! that is used moves to the younger generation, so only unused entries are dropped.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// Assumed size of an entry in addition to its value, in bytes.
const ENTRY_BYTES: usize = 256;

pub(crate) struct TwoGenerationCache<K, V> {
    young: HashMap<K, (V, usize), RandomState>,
    old: HashMap<K, (V, usize), RandomState>,
    young_bytes: usize,
    /// Limit of one generation in bytes.
    bytes_max: usize,
}

impl<K: Eq + Hash, V: Clone> TwoGenerationCache<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { young: HashMap::default(), old: HashMap::default(), young_bytes: 0, bytes_max: bytes_max / 2 }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, bytes)) = self.old.remove_entry(key)?;
        self.put(key, value.clone(), bytes);
        Some(value)
    }

    /// Caches a value that holds `bytes`. A value larger than a generation is not cached.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        self.put(key, value, bytes + ENTRY_BYTES);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.old.remove(key);
        if let Some((_, bytes)) = self.young.remove(key) {
            self.young_bytes -= bytes;
        }
    }

    fn put(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.bytes_max {
            return;
        }
        if self.young_bytes + bytes > self.bytes_max {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, (value, bytes));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_more_than_the_bound_is_held_and_what_is_asked_for_stays(
            values in prop::collection::vec((0_u8..40, 0_usize..6000), 1..300),
        ) {
            let mut bounded = TwoGenerationCache::new(16_000);
            for (key, bytes) in values {
                bounded.insert(key, bytes, bytes);
                prop_assert_eq!(bounded.get(&key), Some(bytes));
                let all = bounded.young.values().chain(bounded.old.values());
                let held: usize = all.map(|(_, bytes)| bytes).sum();
                prop_assert!(held <= 16_000, "{}", held);
                let young: usize = bounded.young.values().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(young, bounded.young_bytes);
            }
        }
    }

    #[test]
    fn a_value_larger_than_a_generation_is_not_held() {
        let mut bounded = TwoGenerationCache::new(16_000);
        bounded.insert(1, (), 8_000);
        assert_eq!(bounded.get(&1), None);
        bounded.insert(1, (), 7_000);
        assert_eq!(bounded.get(&1), Some(()));
    }
}
