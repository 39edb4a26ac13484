//! Options of a loader of topics, and how a partition is a log.

use tollgate_log::{LogId, Sequence};
use tollgate_queue::{BrokerOptions, QueueError, ReadRecord};

use crate::error::SinkError;
use crate::sink::SinkOptions;

/// Options of a loader of topics.
#[derive(Debug, Clone)]
pub struct TopicLoadOptions {
    /// The brokers of the topics.
    pub broker: BrokerOptions,
    /// The database.
    pub sink: SinkOptions,
    /// Whether the load ends with the records that were written before its start.
    pub is_once: bool,
}

/// Returns the number of a record in the log of its partition.
pub(super) fn number_of(record: &ReadRecord) -> Sequence {
    Sequence(record.offset + 1)
}

pub(super) fn read_failed(source: QueueError) -> SinkError {
    SinkError::Queue { action: "read topics", source: Box::new(source) }
}

/// Returns the log of a partition.
pub(super) fn log_of(topic: [u8; 16], partition: i32) -> LogId {
    LogId::of_partition(topic, partition)
}
