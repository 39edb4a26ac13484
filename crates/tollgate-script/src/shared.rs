//! Values that all workers share: texts, numbers and booleans by key. A value may expire.
//!
//! - Each write has a parameter with the limit for the bytes of all values. A value beyond the limit is
//!   refused, and no other value is evicted. An error is better than the loss of a counter that nothing
//!   reports. Expired values are removed first.
//! - The map has shards, each with its own lock. A lock is held for one lookup or one change. While a lock is
//!   held, no text is copied and no script runs. Each operation is atomic.
//! - The size of an entry is the sum of its key, its value and `ENTRY_BYTES`. `ENTRY_BYTES` exceeds the
//!   memory that the maps need for an entry.
//! - Expiry uses the monotonic clock of the caller. An expired value is never returned. The memory of the
//!   value is freed by the next writer to its shard, or by a writer that needs space.

use std::collections::hash_map::{Entry as Slot, RandomState};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Values that the `Host`s of a process share, by key.
#[derive(Default)]
pub struct SharedStore {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Size of all entries in bytes.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Arc<[u8]>, SharedEntry>,
    /// Entries that expire, the earliest first.
    ends: BTreeSet<(Instant, Arc<[u8]>)>,
}

struct SharedEntry {
    value: SharedValue,
    end: Option<Instant>,
}

/// A value in the store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SharedValue {
    Text(Arc<[u8]>),
    Number(f64),
    Boolean(bool),
}

/// Condition for writing a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When<'a> {
    Always,
    Absent,
    /// The present value must equal this value. `None` requires that there is no value.
    Is(Option<&'a SharedValue>),
}

/// Settings of a write: the current time, the time until the value expires, and the limit for the bytes of
/// all values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    pub(crate) now: Instant,
    pub(crate) ttl: Option<Duration>,
    pub(crate) bytes_max: usize,
}

/// Reason why no value was written.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SharedError {
    #[error("tollgate.shared is full: {needed} bytes needed, {used} bytes used, limit {limit} bytes")]
    Full { needed: usize, used: usize, limit: usize },
    #[error("tollgate.shared.incr: the value is not a number")]
    NoNumber,
    #[error("tollgate.shared.incr: the result is 2^53 or more, where floats skip integers")]
    TooLarge,
}

/// Reason for a failed attempt to write. `Room` has the number of bytes that did not fit. In that case, the
/// store drops expired entries and tries again.
enum Failure {
    Room(usize),
    Final(SharedError),
}

impl SharedStore {
    /// Returns the size of all entries in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn value(&self, key: &[u8], now: Instant) -> Option<SharedValue> {
        let mut shard = self.shard(key);
        self.live(&mut shard, key, now).cloned()
    }

    /// Writes a value if the condition is met, and returns whether it was met.
    pub(crate) fn put(
        &self,
        key: &[u8],
        value: &SharedValue,
        when: When<'_>,
        writing: Writing,
    ) -> Result<bool, SharedError> {
        self.write(writing, || {
            let mut shard = self.shard(key);
            self.drop_expired(&mut shard, writing.now, EXPIRED_EACH);
            let present = self.live(&mut shard, key, writing.now);
            let is_as_asked = match when {
                When::Always => true,
                When::Absent => present.is_none(),
                When::Is(expected) => present == expected,
            };
            if is_as_asked {
                self.insert(&mut shard, key, value.clone(), writing)?;
            }
            Ok(is_as_asked)
        })
    }

    /// Adds `by` to the number of `key`, and returns the sum. A present number keeps its expiry. A missing
    /// number begins at `init`, with a new expiry.
    pub(crate) fn increase(
        &self,
        key: &[u8],
        by: f64,
        init: f64,
        writing: Writing,
    ) -> Result<f64, SharedError> {
        self.write(writing, || {
            let mut shard = self.shard(key);
            self.drop_expired(&mut shard, writing.now, EXPIRED_EACH);
            let sum = match self.live(&mut shard, key, writing.now) {
                None => init + by,
                Some(SharedValue::Number(number)) => *number + by,
                Some(_) => return Err(Failure::Final(SharedError::NoNumber)),
            };
            if sum.abs().partial_cmp(&NUMBER_MAX).is_none_or(std::cmp::Ordering::is_ge) {
                return Err(Failure::Final(SharedError::TooLarge));
            }
            match shard.entries.get_mut(key) {
                Some(entry) => entry.value = SharedValue::Number(sum),
                None => self.insert(&mut shard, key, SharedValue::Number(sum), writing)?,
            }
            Ok(sum)
        })
    }

    /// Deletes a value, and returns whether there was one.
    pub(crate) fn delete(&self, key: &[u8], now: Instant) -> bool {
        let mut shard = self.shard(key);
        let is_there = self.live(&mut shard, key, now).is_some();
        self.remove(&mut shard, key);
        is_there
    }

    /// Tries to write. If the value does not fit, removes expired entries of all shards and tries again.
    fn write<R>(&self, writing: Writing, attempt: impl Fn() -> Result<R, Failure>) -> Result<R, SharedError> {
        let mut result = attempt();
        if let Err(Failure::Room(needed)) = result {
            self.make_room(needed, writing);
            result = attempt();
        }
        result.map_err(|failure| match failure {
            Failure::Final(error) => error,
            Failure::Room(needed) => {
                SharedError::Full { needed, used: self.bytes(), limit: writing.bytes_max }
            }
        })
    }

    fn make_room(&self, needed: usize, writing: Writing) {
        for shard in &self.shards {
            let mut shard = locked(shard);
            while self.bytes().saturating_add(needed) > writing.bytes_max
                && self.drop_expired(&mut shard, writing.now, 1) > 0
            {}
        }
    }

    /// Writes an entry, which replaces the present entry of the key.
    fn insert(
        &self,
        shard: &mut Shard,
        key: &[u8],
        value: SharedValue,
        writing: Writing,
    ) -> Result<(), Failure> {
        let before = shard.entries.get(key).map_or(0, |entry| entry_bytes(key, &entry.value));
        let needed = entry_bytes(key, &value).saturating_sub(before);
        self.take(needed, writing.bytes_max)?;
        self.bytes.fetch_sub(before.saturating_sub(entry_bytes(key, &value)), Ordering::Relaxed);
        // A time beyond the range of the clock means that the value never expires.
        let end = writing.ttl.and_then(|ttl| writing.now.checked_add(ttl));
        let Shard { entries, ends } = shard;
        let key = match entries.entry(Arc::from(key)) {
            Slot::Occupied(mut slot) => {
                let before = slot.insert(SharedEntry { value, end });
                if let Some(end) = before.end {
                    ends.remove(&(end, Arc::clone(slot.key())));
                }
                Arc::clone(slot.key())
            }
            Slot::Vacant(slot) => {
                let key = Arc::clone(slot.key());
                slot.insert(SharedEntry { value, end });
                key
            }
        };
        if let Some(end) = end {
            ends.insert((end, key));
        }
        Ok(())
    }

    /// Reserves bytes of the limit that all shards share.
    fn take(&self, needed: usize, bytes_max: usize) -> Result<(), Failure> {
        let add = |used: usize| used.checked_add(needed).filter(|sum| needed == 0 || *sum <= bytes_max);
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map(drop).map_err(|_| Failure::Room(needed))
    }

    /// Returns the value of a key. An expired value is removed, and not returned.
    fn live<'a>(&self, shard: &'a mut Shard, key: &[u8], now: Instant) -> Option<&'a SharedValue> {
        let has_expired = shard.entries.get(key)?.end.is_some_and(|end| end <= now);
        if has_expired {
            self.remove(shard, key);
        }
        shard.entries.get(key).map(|entry| &entry.value)
    }

    fn remove(&self, shard: &mut Shard, key: &[u8]) {
        if let Some((key, entry)) = shard.entries.remove_entry(key) {
            self.bytes.fetch_sub(entry_bytes(&key, &entry.value), Ordering::Relaxed);
            if let Some(end) = entry.end {
                shard.ends.remove(&(end, key));
            }
        }
    }

    /// Removes up to `count_max` expired entries, and returns their number.
    fn drop_expired(&self, shard: &mut Shard, now: Instant, count_max: usize) -> usize {
        for dropped in 0..count_max {
            match shard.ends.first() {
                Some((end, key)) if *end <= now => {
                    let key = Arc::clone(key);
                    self.remove(shard, &key);
                }
                _ => return dropped,
            }
        }
        count_max
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        // The low bits select the position within a shard, so the high bits select the shard.
        let index = (self.hasher.hash_one(key) >> 32) as usize % SHARDS;
        locked(&self.shards[index])
    }
}

/// Locks a shard. A poisoned lock is used as well, because a thread that panics ends the process.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entry_bytes(key: &[u8], value: &SharedValue) -> usize {
    let text = if let SharedValue::Text(text) = value { text.len() } else { 0 };
    ENTRY_BYTES + key.len() + text
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Number of shards. The number exceeds usual core counts, so two threads seldom need the same shard.
const SHARDS: usize = 32;
/// Maximum overhead of an entry in bytes: its share of two sparsely filled maps, and the headers of key and
/// text.
const ENTRY_BYTES: usize = 256;
/// Number of expired entries that a write removes. The number is larger than the one entry that the write
/// adds.
const EXPIRED_EACH: usize = 2;
/// First number from which on doubles cannot represent all integers.
const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests;
