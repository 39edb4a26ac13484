//! The one wall clock of the loader: times for people, and the lag. Nothing is decided by it.

/// Microseconds since 1970.
pub(crate) fn now_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
