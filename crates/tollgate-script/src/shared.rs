//! Values that all workers share: texts, numbers and booleans by key. A value may have an end.
//!
//! - Whoever writes says how many bytes all values may take; what is beyond is refused, never pushed out: a
//!   counter that is lost in silence is worse than an error. What expired makes room first.
//! - The map is in shards, each behind a lock of its own that is held for one look or one change: no text is
//!   copied and no script runs meanwhile. Every operation is atomic by itself.
//! - An entry counts with its key, its value and `ENTRY_BYTES`, which is more than the maps take for it.
//! - Expiry is by the monotonic clock, which callers bring. What expired is never seen; its room is taken
//!   back by whoever writes to its shard, or needs room.

use std::collections::hash_map::{Entry as Slot, RandomState};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Values that the hosts of a process share, by key.
#[derive(Default)]
pub struct SharedStore {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// What all entries take.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Arc<[u8]>, SharedEntry>,
    /// Of the entries that have an end, the nearest first.
    ends: BTreeSet<(Instant, Arc<[u8]>)>,
}

struct SharedEntry {
    value: SharedValue,
    end: Option<Instant>,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SharedValue {
    Text(Arc<[u8]>),
    Number(f64),
    Boolean(bool),
}

/// What has to be there for a value to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When<'a> {
    Always,
    Absent,
    /// Exactly this; none is nothing.
    Is(Option<&'a SharedValue>),
}

/// Who writes: when, how long what is written lasts, and how many bytes all values may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    pub(crate) now: Instant,
    pub(crate) ttl: Option<Duration>,
    pub(crate) bytes_max: usize,
}

/// Why nothing was written.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SharedError {
    #[error("tollgate.shared is full: {needed} bytes more, {used} bytes used, limit {limit} bytes")]
    Full { needed: usize, used: usize, limit: usize },
    #[error("tollgate.shared.incr of a value that is no number")]
    NoNumber,
    #[error("tollgate.shared.incr leads to 2^53 or beyond, where numbers leave out integers")]
    TooLarge,
}

/// One try of a write: room that is missing may be made, with no lock held.
enum Failure {
    Room(usize),
    Final(SharedError),
}

impl SharedStore {
    /// What its entries take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn value(&self, key: &[u8], now: Instant) -> Option<SharedValue> {
        let mut shard = self.shard(key);
        self.live(&mut shard, key, now).cloned()
    }

    /// Writes a value if what is there is as asked; tells whether it was.
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

    /// Adds to a number, which keeps its end; one that is not there begins at `init`, with an end of its own.
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

    /// Tells whether there was something.
    pub(crate) fn delete(&self, key: &[u8], now: Instant) -> bool {
        let mut shard = self.shard(key);
        let is_there = self.live(&mut shard, key, now).is_some();
        self.remove(&mut shard, key);
        is_there
    }

    /// Tries a second time with the room of what expired in other shards.
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

    /// Puts an entry in place of what is there.
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
        // A time that no clock reaches is none.
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

    /// Takes bytes of the limit that all shards have together.
    fn take(&self, needed: usize, bytes_max: usize) -> Result<(), Failure> {
        let add = |used: usize| used.checked_add(needed).filter(|sum| needed == 0 || *sum <= bytes_max);
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map(drop).map_err(|_| Failure::Room(needed))
    }

    /// The value of a key that has not expired; one that has goes.
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

    /// Drops up to `count_max` entries that have expired; returns how many.
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
        // The low bits choose the place within a shard.
        let index = (self.hasher.hash_one(key) >> 32) as usize % SHARDS;
        locked(&self.shards[index])
    }
}

/// A thread that panics ends the process; no shard is left half changed.
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

/// More than cores that anybody has threads on, at the odds that two meet.
const SHARDS: usize = 32;
/// Two maps at their emptiest, and the heads of key and text.
const ENTRY_BYTES: usize = 256;
/// How many expired entries a write takes away: more than it adds.
const EXPIRED_EACH: usize = 2;
/// From here on doubles leave out integers.
const NUMBER_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests;
