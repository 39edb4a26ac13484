//! The topics of the bookkeeping, and the form of an entry.

use serde_json::Value as Json;
use tollgate_log::LogId;
use tollgate_queue::QueueRecord;

/// Topic of the positions.
pub(crate) const POSITIONS: &str = "__tollgate_positions";
/// Topic of the rejects.
pub(super) const REJECTS: &str = "__tollgate_rejects";
/// Number of partitions of both topics. A transaction that stays open delays only readers of its partition.
pub(super) const PARTITIONS: i32 = 8;

/// Returns an entry. `None` deletes the key.
pub(super) fn entry(sink: &str, log: Option<LogId>, key: &str, value: Option<&Json>) -> QueueRecord {
    QueueRecord {
        topic: POSITIONS.into(),
        partition: Some(partition_of(sink, log)),
        key: Some(key.to_owned().into()),
        value: value.map(|value| value.to_string().into()),
        headers: Vec::new(),
    }
}

/// Returns the partition of the entries of a log.
pub(super) fn partition_of(sink: &str, log: Option<LogId>) -> i32 {
    let log = log.map(|log| *log.as_bytes()).unwrap_or_default();
    let hash = fnv(sink.bytes().chain(log)) % u64::from(PARTITIONS.unsigned_abs());
    i32::try_from(hash).unwrap_or_default()
}

/// FNV-1a with 64 bits.
pub(super) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325;
    bytes.into_iter().fold(begin, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
