//! Request ids: the id of the client if it is valid, or a UUID version 7 (RFC 9562 section 5.7). The UUID is
//! created without a system call.

use std::cell::Cell;

use bytes::Bytes;
use tollgate_script::RequestId;
use uuid::{Builder, Uuid};

/// Creates the ids of one worker. Because the counter starts at a random number, ids of different workers
/// differ.
pub(crate) struct IdMaker {
    state: Cell<u64>,
    tail: u16,
}

impl IdMaker {
    /// # Errors
    /// The system returns no random bytes.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let seed = getrandom::u64()?;
        Ok(Self { state: Cell::new(seed), tail: getrandom::u32()? as u16 })
    }

    /// Returns the next id, for a wall time in microseconds since 1970.
    #[inline]
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

/// Returns the id of a client if it is valid. A valid id has up to 128 letters, digits, and signs that need
/// no quotes in a header field, a log line or a URL. An invalid id is ignored.
pub(crate) fn taken(text: Bytes, made: Uuid) -> Option<RequestId> {
    let is_sane = (1..=TAKEN_BYTES_MAX).contains(&text.len())
        && text.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-_.~:/+=@".contains(&byte));
    is_sane.then(|| RequestId::Taken { uuid: Uuid::try_parse_ascii(&text).unwrap_or(made), text })
}

const TAKEN_BYTES_MAX: usize = 128;

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). The
/// function is a bijection of the counter, so no value repeats.
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
    fn an_id_is_taken_if_it_needs_no_quotes() {
        let made = Uuid::from_u128(1);
        let uuid = "0190f3c5-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
        let check = |text: &str, expect: Option<Uuid>| {
            let found = taken(Bytes::copy_from_slice(text.as_bytes()), made);
            let expect = expect.map(|uuid| (text.to_owned(), uuid));
            assert_eq!(found.map(|id| (id.to_string(), id.uuid())), expect, "{text:?}");
        };
        check("a", Some(made));
        check("Root=1-67891233-abcdef012345678912345678", Some(made));
        check("YWJj+/==", Some(made));
        check(uuid, Some(uuid.parse().unwrap()));
        check(&"x".repeat(128), Some(made));
        check(&"x".repeat(129), None);
        for insane in
            ["", "a b", "a\tb", "a,b", "\"a\"", "{a}", "a;b", "a\\b", "<a>", "caf\u{e9}", "a\u{1b}[31m"]
        {
            check(insane, None);
        }
    }

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
