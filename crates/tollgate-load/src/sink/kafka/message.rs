//! The record of a topic for a row: JSON, with the log and the number of the row in headers.

use tollgate_log::{LogId, Schema, Sequence, Value};
use tollgate_queue::{QueueRecord, ReadRecord};

use super::entry::fnv;
use crate::sink::json::row_as_json;
use crate::sink::key::Key;

/// Header with the id of the log.
pub(super) const LOG: &str = "tollgate-log";
/// Header with the number of the row in its log. Log and number are the identity of a row.
pub(super) const SEQUENCE: &str = "tollgate-seq";
/// Header with the name of the stream.
pub(super) const STREAM: &str = "tollgate-stream";
/// Header with the hash of the schema, 16 hexadecimal digits. [`super::schemas`] has its entry.
pub(super) const SCHEMA: &str = "tollgate-schema";

/// Header of a row that follows later rows of its log: a row of a gap that was filled, or of a reject that
/// was retried.
pub(super) const LATE: &str = "tollgate-late";

/// Number of neighbouring rows that share a partition, if they have no key.
const ROWS_TOGETHER: u64 = 1024;

/// The topic of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowTopic {
    pub(super) name: String,
    pub(super) partitions: i32,
}

impl RowTopic {
    /// Returns the partition of a row without a key. The same row always gets the same partition, so that a
    /// reader finds a row that was written twice.
    fn partition(&self, log: LogId, sequence: Sequence) -> i32 {
        let place = fnv(*log.as_bytes()).wrapping_add(sequence.0 / ROWS_TOGETHER);
        let partitions = u64::from(self.partitions.unsigned_abs()).max(1);
        i32::try_from(place % partitions).unwrap_or_default()
    }

    /// Returns the record of a row. Kafka's hash of the key decides the partition, if there is a key.
    pub(super) fn record(&self, key: Option<Vec<u8>>, value: Vec<u8>, row: &RowHeaders<'_>) -> QueueRecord {
        QueueRecord {
            topic: self.name.clone(),
            partition: key.is_none().then(|| self.partition(row.log, row.sequence)),
            key,
            value: Some(value),
            headers: row.headers(),
        }
    }
}

/// What the headers of a row say.
pub(super) struct RowHeaders<'a> {
    pub(super) log: LogId,
    pub(super) sequence: Sequence,
    pub(super) stream: &'a str,
    /// Hash of the schema. Empty if it is unknown.
    pub(super) schema: &'a str,
    pub(super) is_late: bool,
}

impl RowHeaders<'_> {
    fn headers(&self) -> Vec<(&'static str, Vec<u8>)> {
        let (log, sequence) = (self.log.to_string(), self.sequence.0.to_string());
        let values = [&*log, &*sequence, self.stream, self.schema];
        let named =
            [LOG, SEQUENCE, STREAM, SCHEMA].into_iter().zip(values.map(|value| value.as_bytes().to_vec()));
        named.chain(self.is_late.then(|| (LATE, b"1".to_vec()))).collect()
    }
}

/// What the headers of a record of a topic say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowHead {
    pub(crate) log: LogId,
    pub(crate) sequence: Sequence,
    pub(crate) stream: String,
    /// Hash of the schema.
    pub(crate) schema: String,
    /// Whether the row follows later rows of its log.
    pub(crate) is_late: bool,
}

impl RowHead {
    /// Reads the headers. `None`: the record is no row of this program.
    pub(crate) fn read(record: &ReadRecord) -> Option<Self> {
        let text = |name| std::str::from_utf8(record.header(name)?).ok();
        Some(Self {
            log: text(LOG)?.parse().ok()?,
            sequence: Sequence(text(SEQUENCE)?.parse().ok()?),
            stream: text(STREAM)?.to_owned(),
            schema: text(SCHEMA)?.to_owned(),
            is_late: record.header(LATE).is_some(),
        })
    }
}

/// Returns key and value of a row.
pub(super) fn content(schema: &Schema, values: &[Value<'_>]) -> (Option<Vec<u8>>, Vec<u8>) {
    (Key::of(schema, values).map(|key| key.bytes.to_vec()), row_as_json(schema, values))
}
