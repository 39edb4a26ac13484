//! Keys of records and the time that they are kept by, as every sink has them.
//!
//! Ticks are milliseconds that a loader ran with its database: wall time has no part in it, and no clock that
//! is set moves a window. The count goes on from the stored one by the monotonic clock; of two loaders each
//! goes on from what it found and the larger count is stored, so it never runs faster than time does.

use std::time::{Duration, Instant};

use tollgate_log::{Schema, Value};

/// Expired keys that are deleted with a load: beside as many as it brought, so that the table shrinks while
/// it loads.
pub(super) const PURGE_MIN: u64 = 1_000;

/// The key of one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) window: Duration,
}

impl<'a> Key<'a> {
    /// The key of a row, if it has one.
    pub(super) fn of(schema: &Schema, values: &[Value<'a>]) -> Option<Self> {
        let (place, window) = schema.key()?;
        match values.get(place) {
            Some(Value::Bytes(bytes)) => Some(Self { bytes, window }),
            _ => None,
        }
    }
}

/// The key that a reject would have as a row.
pub(super) struct KeptKey {
    pub(super) bytes: Box<[u8]>,
    pub(super) window_ms: u64,
}

impl KeptKey {
    /// As a database keeps it: both or none.
    pub(super) fn read(bytes: Option<Vec<u8>>, window_ms: Option<i64>) -> Option<Self> {
        Some(Self { bytes: bytes?.into(), window_ms: window_ms?.cast_unsigned() })
    }

    pub(super) fn key(&self) -> Key<'_> {
        Key { bytes: &self.bytes, window: Duration::from_millis(self.window_ms) }
    }
}

/// Time since some moment, by a clock that nobody sets.
pub(crate) type Monotonic = Box<dyn Fn() -> Duration + Send>;

/// The clock of the system (`CLOCK_MONOTONIC`).
pub(super) fn system_clock() -> Monotonic {
    let begun = Instant::now();
    Box::new(move || begun.elapsed())
}

/// Milliseconds that loaders ran with a database.
pub(super) struct Ticks {
    clock: Monotonic,
    /// The count at the clock's zero.
    base_ms: u64,
}

impl Ticks {
    /// Goes on from the count of the database.
    pub(super) fn new(stored_ms: i64, clock: Monotonic) -> Self {
        let base_ms = stored_ms.cast_unsigned().saturating_sub(millis(clock()));
        Self { clock, base_ms }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.base_ms.saturating_add(millis((self.clock)()))
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// As databases hold it; what is beyond never comes.
pub(super) fn storable(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The most expired keys that go with a load that brought so many.
pub(super) fn purged_max(claimed: u64) -> i64 {
    storable(PURGE_MIN.saturating_add(claimed.saturating_mul(2)))
}
