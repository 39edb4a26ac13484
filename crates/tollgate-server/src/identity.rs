//! Request ids: UUID version 7 (RFC 9562 section 5.7), made without a system call.

use std::cell::Cell;

use uuid::{Builder, Uuid};

/// Makes the ids of one worker. Its random start makes them differ from those of any other.
pub(crate) struct IdMaker {
    state: Cell<u64>,
    tail: u16,
}

impl IdMaker {
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let seed = getrandom::u64()?;
        Ok(Self { state: Cell::new(seed), tail: getrandom::u32()? as u16 })
    }

    /// The next id, for a moment in microseconds since 1970.
    pub(crate) fn next(&self, wall_us: i64) -> Uuid {
        let state = self.state.get().wrapping_add(GOLDEN_GAMMA);
        self.state.set(state);
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&mix(state).to_le_bytes());
        bytes[8..].copy_from_slice(&self.tail.to_le_bytes());
        let millis = u64::try_from(wall_us / 1000).unwrap_or_default();
        Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }
}

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): a bijection of the
/// counter, so that no value comes twice.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_7_carry_their_time_and_never_repeat() {
        let ids = IdMaker::new().unwrap();
        let made: std::collections::HashSet<_> =
            (0..10_000).map(|_| ids.next(1_700_000_000_123_456)).collect();
        assert_eq!(made.len(), 10_000);
        for id in made {
            assert_eq!((id.get_version_num(), id.as_bytes()[8] >> 6), (7, 0b10));
            assert_eq!(u64::from_be_bytes(id.as_bytes()[..8].try_into().unwrap()) >> 16, 1_700_000_000_123);
        }
    }
}
