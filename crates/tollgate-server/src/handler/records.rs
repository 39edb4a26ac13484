//! Appends the records of a transaction to the log, and adds their ack level to the reply.

use std::borrow::Cow;
use std::time::Instant;

use tollgate_http::StatusCode;
use tollgate_log::{AppendError, Level};
use tollgate_script::{Emitted, RecordValues, Request, RequestId};

use super::endpoint::Endpoint;
use super::exchange::Exchange;
use super::gated_reply::GatedReply;
use super::script::{self, Records, ScriptRecord};
use crate::observe::Refusal;
use crate::options::stream::Ack;
use crate::overload::refusal_text;
use crate::recorder::{Gate, Recorder};
use crate::reply::Reply;
use crate::row::{Facts, StreamPlan, TransactionEnd};

impl Endpoint {
    /// Appends the records of a complete transaction. A transaction has the record for the stream of the
    /// route, if the route has a stream, and the emitted records.
    pub(super) fn record<'a>(
        &self,
        reply: Cow<'a, Reply>,
        records: Records,
        took_us: Option<i64>,
        request: &Request,
        recorder: &Recorder,
    ) -> GatedReply<'a> {
        let plain = |reply| GatedReply { reply, gate: None, ack: None, streamed: None };
        let Some(took_us) = took_us else { return plain(reply) };
        let Records { own, emitted } = records;
        let away = |one: &Emitted| recorder.away(self.streams.get(one.stream)?.ack);
        if let Some(kind) = emitted.iter().find_map(away) {
            return Reply::refused(StatusCode::SERVICE_UNAVAILABLE, kind.away()).into();
        }
        let ending = TransactionEnd::of(&reply, request.head.method());
        let transaction = Emitting { endpoint: self, facts: Facts { request, took_us, ending }, recorder };
        let appended = match &self.stream {
            Some(stream) if emitted.is_empty() => append(stream, &own, &transaction.facts, recorder),
            None if emitted.is_empty() => return plain(reply),
            _ => transaction.append(&own, &emitted),
        };
        match appended {
            Ok(gate) => {
                let ack = Some(self.ack(&emitted));
                GatedReply { reply, gate, ack, streamed: None }
            }
            Err(AppendError::TooLarge { bytes, limit }) if !emitted.is_empty() => {
                if let Some(left_out) = self.failures.note(Instant::now()) {
                    let id = &request.id;
                    tracing::error!(route = self.path, %id, left_out, "script failed: its records have {bytes} bytes, limit {limit} bytes");
                }
                let failed = Reply::text(StatusCode::INTERNAL_SERVER_ERROR, script::FAILED);
                self.record(Cow::Owned(failed), Records::default(), Some(took_us), request, recorder)
            }
            Err(error) => refused(&error, &request.id, recorder).into(),
        }
    }

    /// Returns the ack level that all records of a transaction wait for together.
    fn ack(&self, emitted: &[Emitted]) -> Ack {
        let own = self.stream.as_ref().map(|stream| stream.ack);
        if let Some(ack) = own.filter(|_| emitted.is_empty()) {
            return ack;
        }
        let others = emitted.iter().filter_map(|emitted| self.streams.get(emitted.stream));
        let all = own.into_iter().chain(others.map(|stream| stream.ack));
        all.reduce(Ack::strictest).unwrap_or(Ack::Log(Level::Received))
    }

    /// Appends the record of a cancelled transaction, if its route has a stream.
    pub(super) fn record_cancelled(&self, exchange: &Exchange, recorder: &Recorder) {
        let Some(stream) = &self.stream else { return };
        let request = &*exchange.request;
        let facts = Facts { request, took_us: exchange.took_us(), ending: TransactionEnd::Cancelled };
        if let Err(error) = append(stream, &RecordValues::default(), &facts, recorder) {
            tracing::debug!(%error, id = %request.id, "a cancelled request was not recorded");
        }
    }
}

/// A transaction with records for several streams.
struct Emitting<'a> {
    endpoint: &'a Endpoint,
    facts: Facts<'a>,
    recorder: &'a Recorder,
}

impl Emitting<'_> {
    /// Appends all records in one transaction.
    fn append(&self, own: &RecordValues, emitted: &[Emitted]) -> Result<Option<Gate>, AppendError> {
        let Self { endpoint, facts, recorder } = self;
        let own = endpoint.stream.as_ref().map(|stream| ScriptRecord::new(own, stream));
        let others = emitted.iter().filter_map(|Emitted { stream, record }| {
            let plan = endpoint.streams.get(*stream)?;
            Some(ScriptRecord::new(record, plan))
        });
        let all: Vec<_> = own.into_iter().chain(others).collect();
        let appended = recorder.append(endpoint.ack(emitted), &facts.request.id, |log| {
            all.iter().for_each(|record| record.append(log, facts));
        });
        appended.map(|(gate, ())| gate)
    }
}

/// Appends a row, or a reject with the reason.
fn append(
    stream: &StreamPlan,
    record: &RecordValues,
    facts: &Facts<'_>,
    recorder: &Recorder,
) -> Result<Option<Gate>, AppendError> {
    let record = ScriptRecord::new(record, stream);
    let id = &facts.request.id;
    let appended = match recorder.append(stream.ack, id, |log| record.append(log, facts)) {
        Err(AppendError::TooLarge { bytes, limit }) => {
            let reason = format!("the record has {bytes} bytes, limit {limit} bytes");
            recorder.append(stream.ack, id, |log| log.reject(stream.id, &reason, b""))
        }
        appended => appended,
    };
    appended.map(|(gate, ())| gate)
}

pub(super) fn refused(error: &AppendError, id: &RequestId, recorder: &Recorder) -> Reply {
    recorder.cells().count_refusal(Refusal::from(error));
    if matches!(error, AppendError::TooLarge { .. }) {
        return Reply::text(StatusCode::CONTENT_TOO_LARGE, refusal_text::of_log(error));
    }
    // The log crate writes log lines when this state begins and ends.
    tracing::debug!(%error, %id, "request refused");
    Reply::refused(StatusCode::SERVICE_UNAVAILABLE, refusal_text::of_log(error))
}
