//! Keys of records and the count of ticks that bounds their windows, the same in every sink.
//!
//! Ticks are milliseconds that a loader ran with its database. They do not depend on wall time, so setting a
//! clock moves no window. A loader continues the stored count by its monotonic clock. If two loaders run,
//! each continues the count that it found, and the larger count is stored. So the count never runs faster
//! than time.

use std::time::{Duration, Instant};

use tollgate_log::{Schema, Value};

/// Expired keys that each load deletes, in addition to twice the keys that it claimed. So the table shrinks
/// during loads.
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

/// The key that a reject would have as a row.
pub(super) struct KeptKey {
    pub(super) bytes: Box<[u8]>,
    pub(super) window_ms: u64,
}

impl KeptKey {
    /// Makes a key from the columns of a database. Both are null or none is.
    pub(super) fn read(bytes: Option<Vec<u8>>, window_ms: Option<i64>) -> Option<Self> {
        Some(Self { bytes: bytes?.into(), window_ms: window_ms?.cast_unsigned() })
    }

    pub(super) fn key(&self) -> Key<'_> {
        Key { bytes: &self.bytes, window: Duration::from_millis(self.window_ms) }
    }
}

/// Time since some moment, by a clock that cannot be set.
pub(crate) type Monotonic = Box<dyn Fn() -> Duration + Send>;

/// Returns the clock of the system (`CLOCK_MONOTONIC`).
pub(super) fn system_clock() -> Monotonic {
    let begun = Instant::now();
    Box::new(move || begun.elapsed())
}

/// Milliseconds that loaders ran with a database.
pub(super) struct Ticks {
    clock: Monotonic,
    /// The count when the clock was at zero.
    base_ms: u64,
}

impl Ticks {
    /// Continues the count of the database.
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

/// Converts a count for the database. A larger count than an `i64` holds is never reached.
pub(super) fn storable(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns how many expired keys a load deletes at most. `claimed` is the number of keys that it claimed.
pub(super) fn purged_max(claimed: u64) -> i64 {
    storable(PURGE_MIN.saturating_add(claimed.saturating_mul(2)))
}
