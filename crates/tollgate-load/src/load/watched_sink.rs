//! A sink whose calls are noted in [`SinkCalls`], so that other threads see how long a call has run.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_log::{Gap, LogId, Position, RecordBatch, Schema, Sequence};
use tollgate_queue::TopicCopies;

use super::calls::SinkCalls;
use crate::error::SinkError;
use crate::sink::{
    Decided, LoadExtent, LostTable, PlannedLoad, ReadItem, Retried, Sink, StreamTallies, Taken, Tally,
};

/// A sink with noted calls.
pub(super) struct WatchedSink {
    inner: Box<dyn Sink>,
    calls: Arc<SinkCalls>,
}

impl WatchedSink {
    pub(super) fn new(inner: Box<dyn Sink>, calls: Arc<SinkCalls>) -> Self {
        Self { inner, calls }
    }
}

/// Implements the functions of [`Sink`] that may wait for the database.
macro_rules! noted {
    ($(fn $name:ident(&mut self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)+) => {$(
        fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            self.calls.call(|| self.inner.$name($($argument),*))
        }
    )+};
}

impl Sink for WatchedSink {
    noted! {
        fn planned(
            &mut self, log: LogId, expected: Option<Position>, taken: &Taken
        ) -> Result<Option<PlannedLoad>, SinkError>;
        fn replace_decided(&mut self) -> Result<Decided, SinkError>;
        fn is_enrolled(&mut self) -> Result<bool, SinkError>;
        fn enroll(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), SinkError>;
        fn position(&mut self, log: LogId) -> Result<Option<Position>, SinkError>;
        fn look(&mut self, schema: &Schema) -> Result<(), SinkError>;
        fn lost_tables(&mut self) -> Result<BTreeMap<String, LostTable>, SinkError>;
        fn topic_copies(&mut self, streams: &[String]) -> Result<BTreeMap<String, TopicCopies>, SinkError>;
        fn begin(&mut self, log: LogId, expected: Option<Position>) -> Result<(), SinkError>;
        fn write(&mut self, batch: &RecordBatch<'_>) -> Result<(), SinkError>;
        fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;
        fn commit(&mut self, end: Position) -> Result<StreamTallies, SinkError>;
        fn rejects(
            &mut self, log: LogId, first: Sequence, last: Sequence
        ) -> Result<Vec<(Sequence, String)>, SinkError>;
        fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, SinkError>;
        fn gap_records(&mut self) -> Result<BTreeMap<String, u64>, SinkError>;
        fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, SinkError>;
        fn begin_fill(&mut self, log: LogId, gap: &Gap, taken: &Taken) -> Result<Taken, SinkError>;
        fn commit_fill(&mut self, left: &[Gap]) -> Result<Tally, SinkError>;
        fn retry_rejects(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError>;
        fn rollback(&mut self);
        fn is_changed(&mut self) -> Result<bool, SinkError>;
        fn tidy(&mut self, bytes: u64) -> Result<(), SinkError>;
    }

    fn extent(&self) -> LoadExtent {
        self.inner.extent()
    }

    fn note_ended(&mut self, logs: &[LogId]) {
        self.inner.note_ended(logs);
    }

    fn tables_met(&self) -> usize {
        self.inner.tables_met()
    }

    fn skipped(&mut self, stream: &str, count: u64) {
        self.inner.skipped(stream, count);
    }
}
