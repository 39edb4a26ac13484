//! What a store costs in a month, by the number of calls and the bytes that it keeps.
//!
//! The prices are list prices of Amazon S3 Standard in us-east-1, from <https://aws.amazon.com/s3/pricing/>,
//! November 2026. Other stores and regions differ, so a caller can give its own.

use std::time::Duration;

/// Seconds of a month of 30 days.
const MONTH_SECONDS: f64 = 30.0 * 24.0 * 3600.0;

/// Prices in dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StorePrices {
    /// Price of 1,000 calls that write or list.
    pub thousand_writes: f64,
    /// Price of 1,000 calls that read.
    pub thousand_reads: f64,
    /// Price of 1 GB (10^9 bytes) for a month.
    pub gigabyte_month: f64,
}

impl Default for StorePrices {
    fn default() -> Self {
        Self { thousand_writes: 0.005, thousand_reads: 0.0004, gigabyte_month: 0.023 }
    }
}

/// How a machine uses the store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreUse {
    /// Bytes of sealed segments in a second.
    pub bytes_per_second: f64,
    /// Maximum bytes of a segment.
    pub segment_bytes_max: u64,
    /// Age at which a segment with records is sealed.
    pub segment_age_max: Duration,
    /// Interval between two reports of the machine.
    pub heartbeat: Duration,
    /// Interval between two reads of what loaders answered.
    pub poll: Duration,
    /// Number of sinks that answer.
    pub sinks: u64,
    /// Interval between two looks of a loader for the next segment.
    pub load_poll: Duration,
    /// Shortest interval between two answers of a sink.
    pub answer: Duration,
    /// Time that a segment stays in the store.
    pub retain: Duration,
}

/// Calls, bytes and price of a month.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreCost {
    /// Segments that are stored.
    pub segments: f64,
    /// All calls that write or list.
    pub writes: f64,
    /// All calls that read.
    pub reads: f64,
    /// Bytes in the store at any time.
    pub stored_bytes: f64,
    /// Price in dollars.
    pub dollars: f64,
}

/// Computes the cost of one machine and one loader.
pub fn month_cost(store: &StoreUse, prices: &StorePrices) -> StoreCost {
    let times = |every: Duration| MONTH_SECONDS / every.as_secs_f64().max(0.001);
    let by_size = MONTH_SECONDS * store.bytes_per_second / store.segment_bytes_max.max(1) as f64;
    // A quiet machine seals nothing, because a segment needs a record.
    let by_age = if store.bytes_per_second > 0.0 { times(store.segment_age_max) } else { 0.0 };
    let segments = by_size.max(by_age);
    let sinks = store.sinks as f64;
    let answers = sinks * times(store.answer).min(segments);
    // The machine lists requests for lost segments, and the loader lists machines and their logs.
    let lists = times(store.poll) + 2.0 * times(store.load_poll);
    let writes = segments + times(store.heartbeat) + answers + lists;
    // The loader looks for the next segment, and the machine reads the answer of each sink and its own
    // report.
    let reads = segments + times(store.load_poll) + sinks * times(store.poll) + times(store.heartbeat);
    let stored_bytes = store.bytes_per_second * store.retain.as_secs_f64();
    let dollars = writes / 1e3 * prices.thousand_writes
        + reads / 1e3 * prices.thousand_reads
        + stored_bytes / 1e9 * prices.gigabyte_month;
    StoreCost { segments, writes, reads, stored_bytes, dollars }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> StoreUse {
        StoreUse {
            bytes_per_second: 1_000.0,
            segment_bytes_max: 64 << 20,
            segment_age_max: Duration::from_mins(1),
            heartbeat: Duration::from_mins(1),
            poll: Duration::from_secs(30),
            sinks: 1,
            load_poll: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            retain: Duration::from_hours(7 * 24),
        }
    }

    fn cost(store: &StoreUse) -> StoreCost {
        month_cost(store, &StorePrices::default())
    }

    #[test]
    fn the_age_decides_the_segments_of_a_quiet_machine_and_the_size_those_of_a_busy_one() {
        assert_eq!(cost(&quiet()).segments, 43_200.0);
        let busy = StoreUse { bytes_per_second: 20e6, ..quiet() };
        let segments = cost(&busy).segments;
        assert!((772_000.0..773_000.0).contains(&segments), "{segments}");
        assert_eq!(cost(&StoreUse { bytes_per_second: 0.0, ..quiet() }).segments, 0.0);
    }

    #[test]
    fn seven_days_at_a_megabyte_a_second_cost_fourteen_dollars_to_keep() {
        let store = StoreUse { bytes_per_second: 1e6, ..quiet() };
        let without = StoreUse { retain: Duration::ZERO, ..store };
        let kept = cost(&store).dollars - cost(&without).dollars;
        assert!((13.8..14.0).contains(&kept), "{kept}");
    }

    #[test]
    fn a_longer_age_is_cheaper() {
        let slow = StoreUse { segment_age_max: Duration::from_mins(5), ..quiet() };
        assert!(cost(&slow).dollars < cost(&quiet()).dollars);
    }
}
