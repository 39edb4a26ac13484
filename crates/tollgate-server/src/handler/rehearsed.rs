//! The result of a request that was answered without a server.

use crate::reply::Reply;
use crate::row::SampleRow;

/// The result of a request.
pub(crate) struct Rehearsed {
    pub(crate) reply: Reply,
    /// The records in their order.
    pub(crate) records: Vec<RehearsedRecord>,
    /// Error of a script that failed.
    pub(crate) error: Option<String>,
}

/// A record that the request would make.
pub(crate) struct RehearsedRecord {
    pub(crate) origin: RecordOrigin,
    /// The name of its stream.
    pub(crate) stream: String,
    pub(crate) outcome: Result<RehearsedRow, RehearsedReject>,
}

/// The source of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordOrigin {
    /// The route: its reply, or an item of the body with its index.
    Route(usize),
    /// `tollgate.emit`.
    Emitted,
}

/// A record that becomes a row.
pub(crate) struct RehearsedRow {
    /// The record before it fills columns, as JSON.
    pub(crate) record: String,
    pub(crate) row: SampleRow,
}

/// A record that becomes a reject.
pub(crate) struct RehearsedReject {
    pub(crate) reason: String,
    /// The item that the reject keeps.
    pub(crate) item: Vec<u8>,
}

impl From<Reply> for Rehearsed {
    fn from(reply: Reply) -> Self {
        Self { reply, records: Vec::new(), error: None }
    }
}

impl Rehearsed {
    /// Returns the rows of an origin as JSON, each with the name of its stream.
    pub(crate) fn rows(&self, is_wanted: impl Fn(RecordOrigin) -> bool) -> Vec<(String, String)> {
        let wanted = self.records.iter().filter(|record| is_wanted(record.origin));
        let rows = wanted.filter_map(|record| Some((record, record.outcome.as_ref().ok()?)));
        rows.map(|(record, row)| (record.stream.clone(), row.record.clone())).collect()
    }

    /// Returns the reasons of records that are not rows.
    pub(crate) fn rejects(&self) -> Vec<String> {
        let reason = |record: &RehearsedRecord| {
            let RehearsedReject { reason, .. } = record.outcome.as_ref().err()?;
            Some(match record.origin {
                RecordOrigin::Route(_) => reason.clone(),
                RecordOrigin::Emitted => format!("stream {}: {reason}", record.stream),
            })
        };
        self.records.iter().filter_map(reason).collect()
    }
}
