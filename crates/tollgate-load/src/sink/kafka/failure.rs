//! Errors of a broker as errors of the sink.

use tollgate_log::LogId;
use tollgate_queue::QueueError;

use crate::error::SinkError;

/// Makes our error of an error of the broker. `log` is the log of the producer.
pub(super) fn failed(action: &'static str, log: Option<LogId>) -> impl Fn(QueueError) -> SinkError {
    move |error| match (error, log) {
        (QueueError::Fenced { .. }, Some(log)) => SinkError::Lost { log },
        (source, _) => SinkError::Queue { action, source: Box::new(source) },
    }
}
