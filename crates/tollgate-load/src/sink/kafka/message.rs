//! The record of a topic for a row: its value, with the log and the number of the row in headers.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_log::{LogId, Schema, Sequence, Value};
use tollgate_queue::{QueueRecord, ReadRecord};

use super::entry::fnv;
use super::format::RowFormat;
use crate::sink::key::Key;

/// Header with the id of the log.
pub(super) const LOG: &str = "tollgate-log";
/// Header with the number of the row in its log. Log and number are the identity of a row.
pub(super) const SEQUENCE: &str = "tollgate-seq";
/// Header with the name of the stream.
pub(super) const STREAM: &str = "tollgate-stream";
/// Header with the hash of the schema, 16 hexadecimal digits. [`super::schemas`] has its entry.
pub(super) const SCHEMA: &str = "tollgate-schema";
/// Header with the format of the value, if it is not JSON.
pub(super) const FORMAT: &str = "tollgate-format";

/// Header of a row that may follow later rows of its log: a row of a gap that was filled, of a reject that
/// was retried, or of a sink without transactions. There, a broker may refuse a batch and take the next one.
/// The load is then repeated, so the rows of the first batch come last.
pub(super) const LATE: &str = "tollgate-late";

/// Number of neighbouring rows that share a partition, if they have no key.
const ROWS_TOGETHER: u64 = 1024;

/// The topic of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowTopic {
    pub(super) name: Arc<str>,
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
    pub(super) fn record(
        &self,
        (key, value): (Option<Vec<u8>>, Vec<u8>),
        sequence: Sequence,
        rows: &RowHeaders,
    ) -> QueueRecord {
        QueueRecord {
            topic: self.name.clone(),
            partition: key.is_none().then(|| self.partition(rows.log, sequence)),
            key: key.map(Bytes::from),
            value: Some(value.into()),
            headers: rows.of(sequence),
        }
    }
}

/// What the headers of the rows of a schema have in common.
#[derive(Debug)]
pub(super) struct RowHeaders {
    log: LogId,
    log_text: Bytes,
    stream: Bytes,
    schema: Bytes,
    format: RowFormat,
    is_late: bool,
}

impl RowHeaders {
    /// `schema` is the hash of the schema. It is empty if the schema is unknown.
    pub(super) fn new(log: LogId, stream: &str, schema: &str, format: RowFormat, is_late: bool) -> Self {
        let [log_text, stream, schema] =
            [&*log.to_string(), stream, schema].map(|text| Bytes::copy_from_slice(text.as_bytes()));
        Self { log, log_text, stream, schema, format, is_late }
    }

    /// Returns the headers of a row.
    fn of(&self, sequence: Sequence) -> Vec<(&'static str, Bytes)> {
        let mut headers = Vec::with_capacity(6);
        headers.push((LOG, self.log_text.clone()));
        headers.push((SEQUENCE, sequence.0.to_string().into()));
        headers.push((STREAM, self.stream.clone()));
        headers.push((SCHEMA, self.schema.clone()));
        let format = (self.format != RowFormat::Json).then_some(self.format.name());
        headers.extend(format.map(|name| (FORMAT, Bytes::from_static(name.as_bytes()))));
        headers.extend(self.is_late.then_some((LATE, Bytes::from_static(b"1"))));
        headers
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
    /// Format of the value. An error has the name of a format that this program does not know.
    pub(crate) format: Result<RowFormat, String>,
    /// Whether the row follows later rows of its log.
    pub(crate) is_late: bool,
}

impl RowHead {
    /// Returns the log of a record, without its other headers.
    pub(crate) fn log_of(record: &ReadRecord) -> Option<LogId> {
        std::str::from_utf8(record.header(LOG)?).ok()?.parse().ok()
    }

    /// Returns the hash of the schema of a record, without its other headers.
    pub(crate) fn schema_of(record: &ReadRecord) -> Option<&str> {
        std::str::from_utf8(record.header(SCHEMA)?).ok()
    }

    /// Reads the headers. `None`: the record is no row of this program.
    pub(crate) fn read(record: &ReadRecord) -> Option<Self> {
        let text = |name| std::str::from_utf8(record.header(name)?).ok();
        Some(Self {
            log: Self::log_of(record)?,
            sequence: Sequence(text(SEQUENCE)?.parse().ok()?),
            stream: text(STREAM)?.to_owned(),
            schema: Self::schema_of(record)?.to_owned(),
            format: match record.header(FORMAT) {
                None => Ok(RowFormat::Json),
                Some(name) => RowFormat::from_name(name),
            },
            is_late: record.header(LATE).is_some(),
        })
    }
}

/// Returns the key of a row.
pub(super) fn key(schema: &Schema, values: &[Value<'_>]) -> Option<Vec<u8>> {
    Key::of(schema, values).map(|key| key.bytes.to_vec())
}
