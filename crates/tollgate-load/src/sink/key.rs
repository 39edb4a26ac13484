//! Keys of records, and the count of ticks that bounds their windows. This code is the same for every sink.
//!
//! A tick is a millisecond in which a loader ran with its database. Ticks do not depend on wall time, so a
//! clock that is set moves no window. A loader continues the stored count with its monotonic clock. If two
//! loaders run, each continues the count that it found, and the larger count is stored. So the count never
//! grows faster than time passes.

use std::time::{Duration, Instant};

use tollgate_log::{Schema, Value};

/// Number of expired keys that each load may delete, in addition to twice the number of keys that it claimed.
/// A load deletes more keys than it adds, so the table shrinks during loads.
pub(super) const PURGE_MIN: u64 = 1_000;

/// The key of one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) window: Duration,
}

impl<'a> Key<'a> {
    /// Returns the key of a row, if it has one.
    pub(super) fn of(schema: &Schema, values: &[Value<'a>]) -> Option<Self> {
        let (place, window) = schema.key()?;
        match values.get(place) {
            Some(Value::Bytes(bytes)) => Some(Self { bytes, window }),
            _ => None,
        }
    }
}

/// The key that a reject has when it becomes a row.
pub(super) struct KeptKey {
    pub(super) bytes: Box<[u8]>,
    pub(super) window_ms: u64,
}

impl KeptKey {
    /// Makes a key from two columns of a database. Either both are null, or neither is.
    pub(super) fn read(bytes: Option<Vec<u8>>, window_ms: Option<i64>) -> Option<Self> {
        Some(Self { bytes: bytes?.into(), window_ms: window_ms?.cast_unsigned() })
    }

    pub(super) fn key(&self) -> Key<'_> {
        Key { bytes: &self.bytes, window: Duration::from_millis(self.window_ms) }
    }
}

/// Clock that returns the time since a fixed moment, and that cannot be set.
pub(crate) type Monotonic = Box<dyn Fn() -> Duration + Send>;

/// Returns the clock of the system (`CLOCK_MONOTONIC`).
pub(super) fn system_clock() -> Monotonic {
    let begun = Instant::now();
    Box::new(move || begun.elapsed())
}

/// Count of the milliseconds in which loaders ran with a database.
pub(super) struct Ticks {
    clock: Monotonic,
    /// Count of ticks, in milliseconds, at the time when the clock was zero.
    base_ms: u64,
}

impl Ticks {
    /// Continues the count that the database stores.
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

/// Converts a count of milliseconds to the signed integer that a database stores. No count reaches the
/// maximum of an `i64`.
pub(super) fn storable(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the maximum number of expired keys that a load deletes. `claimed` is the number of keys that the
/// load claimed.
pub(super) fn purged_max(claimed: u64) -> i64 {
    storable(PURGE_MIN.saturating_add(claimed.saturating_mul(2)))
}
