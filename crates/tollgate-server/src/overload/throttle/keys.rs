//! The buckets of many keys in a table of fixed size.
//!
//! A key is a hash of 64 bits with a secret seed, so clients cannot compute it. A key belongs to one set of
//! eight slots. A new key replaces the key of its set whose bucket will be full first.
//!
//! If the bucket of the replaced key is full, nothing is lost. If no bucket is full, the table is too small
//! for its clients. The key with the fewest recent requests is then replaced, and starts later with a full
//! bucket. Keys with many requests stay.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::bucket::Bucket;
use crate::trust::client_key;

/// Number of slots in a set.
const WAYS: usize = 8;
/// Maximum number of shards. Each shard has its own lock, which is held for one lookup.
const SHARDS_MAX: usize = 64;

/// The hash of a key, and the time when its bucket is full, in nanoseconds since the rule began. Unused slots
/// are zero, so that the system allocates their memory only when they are used.
type Slot = [u64; 2];

#[derive(Debug)]
pub(super) struct Keys {
    hasher: RandomState,
    /// Number of sets in each shard.
    sets: usize,
    shards: Box<[Shard]>,
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Vec<Slot>>);

impl Keys {
    /// Creates a table for at least `keys_max` keys of 16 bytes each.
    pub(super) fn new(keys_max: usize) -> Self {
        let slots = keys_max.max(WAYS).next_power_of_two();
        let shards = (slots / WAYS).min(SHARDS_MAX);
        let shard = |_| Shard(Mutex::new(vec![[0; 2]; slots / shards]));
        let sets = slots / shards / WAYS;
        Self { hasher: RandomState::new(), sets, shards: (0..shards).map(shard).collect() }
    }

    /// Removes a token from the single bucket that all requests share.
    pub(super) fn take_of_all(&self, bucket: &Bucket, now_ns: u64) -> Result<(), Duration> {
        self.take(1, bucket, now_ns)
    }

    /// Removes a token from the bucket of a client, which is an IPv4 address or an IPv6 network of 64 bits.
    /// All clients without an address share one bucket.
    pub(super) fn take_of_client(
        &self,
        client: Option<IpAddr>,
        bucket: &Bucket,
        now_ns: u64,
    ) -> Result<(), Duration> {
        self.take(self.hasher.hash_one(client.map(client_key)), bucket, now_ns)
    }

    /// Returns the time until the bucket of a client has a token. Returns `None` if it has one now.
    pub(super) fn wait_of_client(&self, client: IpAddr, bucket: &Bucket, now_ns: u64) -> Option<Duration> {
        let hash = self.hasher.hash_one(Some(client_key(client))).max(1);
        let (shard, set) = self.place(hash);
        let slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = slots.get(set..set + WAYS)?.iter().find(|[known, _]| *known == hash);
        known.and_then(|[_, full_ns]| bucket.wait(*full_ns, now_ns))
    }

    /// Puts a token back into the bucket of a client, if the bucket is still known.
    pub(super) fn give_back_to_client(&self, client: IpAddr, bucket: &Bucket) {
        let hash = self.hasher.hash_one(Some(client_key(client))).max(1);
        let (shard, set) = self.place(hash);
        let mut slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = slots[set..set + WAYS].iter_mut();
        if let Some(slot) = known.find(|[known, _]| *known == hash) {
            slot[1] = bucket.give_back(slot[1]);
        }
    }

    /// Removes a token from the bucket of a key that the request names.
    pub(super) fn take_of_key(&self, key: &[u8], bucket: &Bucket, now_ns: u64) -> Result<(), Duration> {
        self.take(self.hasher.hash_one(key), bucket, now_ns)
    }

    fn take(&self, hash: u64, bucket: &Bucket, now_ns: u64) -> Result<(), Duration> {
        // The hash is not zero, because zero marks an empty slot.
        let hash = hash.max(1);
        let (shard, set) = self.place(hash);
        // A poisoned lock is used as well, because a table that a panic interrupted is still usable.
        let mut slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slot_of(&mut slots[set..set + WAYS], hash);
        slot[1] = bucket.take(slot[1], now_ns)?;
        Ok(())
    }

    /// Returns the shard of a key, and the first slot of its set.
    fn place(&self, hash: u64) -> (&Shard, usize) {
        let shard = &self.shards[hash as usize % self.shards.len()];
        (shard, (hash >> 32) as usize % self.sets * WAYS)
    }
}

/// Returns the slot of a key. A new key gets a slot here.
fn slot_of(set: &mut [Slot], hash: u64) -> &mut Slot {
    let place = set.iter().position(|[known, _]| *known == hash).unwrap_or_else(|| {
        let soonest = (0..set.len()).min_by_key(|place| set[*place][1]).unwrap_or_default();
        set[soonest] = [hash, 0];
        soonest
    });
    &mut set[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn ten_a_second() -> Bucket {
        Bucket::new(10, Duration::from_secs(1), 10)
    }

    fn taken(keys: &Keys, key: &[u8], times: usize, now_ns: u64) -> usize {
        (0..times).filter(|_| keys.take_of_key(key, &ten_a_second(), now_ns).is_ok()).count()
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        let keys = Keys::new(1000);
        for key in 0..100_u32 {
            assert_eq!(taken(&keys, &key.to_le_bytes(), 20, SECOND), 10, "{key}");
        }
        for key in 0..100_u32 {
            assert_eq!(taken(&keys, &key.to_le_bytes(), 20, SECOND), 0, "{key}");
        }
        assert_eq!(taken(&keys, &5_u32.to_le_bytes(), 20, SECOND * 3 / 2), 5);
    }

    #[test]
    fn a_million_keys_take_no_more_room_and_who_asks_most_is_still_bounded() {
        let keys = Keys::new(1024);
        let room = |keys: &Keys| -> usize {
            keys.shards.iter().map(|shard| shard.0.lock().unwrap().capacity()).sum()
        };
        let before = room(&keys);
        assert_eq!(taken(&keys, b"heavy", 20, SECOND), 10);
        for key in 0..1_000_000_u32 {
            assert!(taken(&keys, &key.to_le_bytes(), 1, SECOND) == 1);
        }
        assert_eq!((room(&keys), before), (1024, 1024));
        assert_eq!(taken(&keys, b"heavy", 20, SECOND), 0);
    }

    #[test]
    fn clients_are_addresses_or_networks_of_64_bits() {
        let keys = Keys::new(1000);
        let take = |address: &str| {
            let client = Some(address.parse().unwrap());
            (0..20).filter(|_| keys.take_of_client(client, &ten_a_second(), SECOND).is_ok()).count()
        };
        assert_eq!(["10.0.0.1", "10.0.0.2", "10.0.0.1"].map(take), [10, 10, 0]);
        assert_eq!(["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(take), [10, 0, 10]);
    }

    #[test]
    fn workers_share_one_count() {
        let keys = Keys::new(1000);
        let workers = |_| {
            std::thread::scope(|scope| {
                let ask = || taken(&keys, b"hot", 1000, SECOND);
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
            })
        };
        assert_eq!([0, 1].map(workers), [10, 0]);
    }
}
