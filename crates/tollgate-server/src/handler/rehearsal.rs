//! Runs handlers without a server. A test gets the reply and the records as values. Nothing is sent, and no
//! record is written to the log.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use tollgate_http::{Method, StatusCode};
use tollgate_script::{Call, Emitted, Step};

use super::collect::{CollectPlan, CollectedItem, recorded, unsplit, utf8};
use super::collected::BODY_BYTES_MAX;
use super::endpoint::{Endpoint, Handler};
use super::exchange::Exchange;
use super::rehearsed::{RecordOrigin, Rehearsed, RehearsedRecord, RehearsedReject, RehearsedRow};
use super::returned::{Returned, Tail};
use super::script::{Records, ScriptRecord};
use super::visit::{Stage, Turn, Visit, VisitPhase};
use crate::reply::Reply;
use crate::row::{Facts, StreamPlan, TransactionEnd};
use crate::validation::ReplyJudge;

/// Maximum bytes of streamed content that are kept. After this number of bytes the script finds its pipe
/// closed.
const STREAMED_BYTES_MAX: usize = 16 << 20;

impl Exchange {
    /// Answers the request without recording it. Returns the result, and the stream of the route that
    /// answered.
    ///
    /// # Errors
    /// A file or content cannot be read, or the route has a proxy.
    pub(crate) async fn rehearse(mut self) -> Result<(Rehearsed, Option<String>), String> {
        let (endpoint, request) = (&self.endpoint, &self.request);
        if request.body.bytes_len() > endpoint.body_bytes_max {
            let reply = Reply::text(StatusCode::CONTENT_TOO_LARGE, "content too large");
            return Ok((reply.into(), endpoint.stream_name()));
        }
        if let Some(refusal) = endpoint.refusal(&request.head) {
            return Ok((refusal.into(), endpoint.stream_name()));
        }
        let stream = endpoint.stream_name();
        if let Err(reply) = self.choose() {
            return Ok(((*reply).into(), stream));
        }
        let mut visit = Visit::new(self);
        loop {
            if let Handler::Proxy(_) = visit.exchange.endpoint.handler {
                let path = &visit.exchange.endpoint.path;
                let text = "has a proxy, which only a running server answers: send the request with curl";
                return Err(format!("route {path:?} {text}"));
            }
            match visit.advance() {
                Some(Turn::Over) => break,
                Some(Turn::Sliced) | None => continue,
                Some(Turn::Waiting) => {}
            }
            poll_fn(|context| {
                visit.poll_wait(context);
                if visit.is_waiting() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
        }
        visit.rehearsed().await
    }
}

impl Exchange {
    /// Returns the result of a request that its route refuses and records.
    ///
    /// # Errors
    /// The reply cannot be read.
    pub(crate) async fn rehearse_refusal(self, reply: Reply) -> Result<(Rehearsed, Option<String>), String> {
        Visit::refused(self, reply).rehearsed().await
    }
}

impl Visit {
    fn is_waiting(&self) -> bool {
        let has_returned = matches!(self.stage, Stage::AtOnce | Stage::Returned(_));
        !self.can_run() && !has_returned
    }

    async fn rehearsed(self) -> Result<(Rehearsed, Option<String>), String> {
        let Self { exchange, stage, phase, failure, judge, .. } = self;
        let (endpoint, request) = (&exchange.endpoint, &exchange.request);
        let mut rehearsed = match (stage, &endpoint.handler) {
            (Stage::Returned(Some(returned)), _) => returned_answer(returned, &exchange, judge).await,
            (_, Handler::Collect(plan)) => collect_answer(plan, &exchange)?,
            (_, Handler::Reply(reply)) => {
                with_record(reply.reply().clone(), &Records::default(), &exchange, endpoint.stream.as_deref())
            }
            _ => Reply::empty(StatusCode::INTERNAL_SERVER_ERROR).into(),
        };
        if let Some(failure) = failure {
            rehearsed.error = Some(failure.to_string());
        }
        let reply = &mut rehearsed.reply;
        reply.read_parts().map_err(|error| format!("file cannot be read: {error}"))?;
        reply.say_what_is_allowed(endpoint.methods);
        if let Some(cors) = endpoint.cors.as_ref().filter(|_| phase != VisitPhase::Refused) {
            cors.grant(&request.head).add_to(reply);
        }
        if request.head.method() == Method::Head {
            reply.content = Bytes::new();
        }
        Ok((rehearsed, endpoint.stream_name()))
    }
}

impl Endpoint {
    fn stream_name(&self) -> Option<String> {
        self.stream.as_ref().map(|stream| stream.name.clone())
    }
}

/// Returns the result of a handler. Of an event stream, the result has only the bytes before the first pause
/// after an event.
async fn returned_answer(
    returned: Returned,
    exchange: &Exchange,
    judge: Option<Box<ReplyJudge>>,
) -> Rehearsed {
    let Returned { reply, records, took_us, tail } = returned;
    let stream = exchange.endpoint.stream.as_deref().filter(|_| took_us.is_some());
    let mut rehearsed = with_record(reply, &records, exchange, stream);
    if let Some(Tail::Call(call)) = tail {
        (rehearsed.reply.content, rehearsed.error) = content_source(*call).await;
        if let Some(mut judge) = judge.filter(|_| rehearsed.error.is_none())
            && judge.whole(&rehearsed.reply.content).is_err()
        {
            rehearsed.error = Some("the reply is not valid: it breaks off at its fault".to_owned());
        }
    }
    rehearsed
}

/// Runs a call that writes content. Returns the content, and an error if the content is not complete.
async fn content_source(mut call: Call) -> (Bytes, Option<String>) {
    let is_events = call.heartbeat().is_some();
    let mut content = Vec::new();
    let failure = loop {
        let step = call.resume();
        if let Some(pipe) = call.pipe() {
            content.extend(pipe.take());
            if content.len() > STREAMED_BYTES_MAX {
                pipe.close();
            }
        }
        match step {
            Step::Waiting if is_events && !content.is_empty() => break None,
            Step::Waiting => poll_fn(|context| call.poll_wait(context)).await,
            Step::Sliced => {}
            Step::Ended(Err(error)) => break Some(error.to_string()),
            Step::Ended(Ok(())) | Step::Streams(_) | Step::Done(_) | Step::Passed(_) => break None,
        }
    };
    (content.into(), failure)
}

fn with_record(
    reply: Reply,
    records: &Records,
    exchange: &Exchange,
    stream: Option<&StreamPlan>,
) -> Rehearsed {
    let ending = TransactionEnd::of(&reply, exchange.request.head.method());
    let facts = Facts { request: &exchange.request, took_us: 0, ending };
    let mut rehearsed = Rehearsed::from(reply);
    let own = stream.map(|plan| (RecordOrigin::Route(0), ScriptRecord::new(&records.own, plan)));
    let emitted = records.emitted.iter().filter_map(|Emitted { stream, record }| {
        let plan = exchange.endpoint.streams.get(*stream)?;
        Some((RecordOrigin::Emitted, ScriptRecord::new(record, plan)))
    });
    for (origin, record) in own.into_iter().chain(emitted) {
        let (stream, outcome) = (record.stream().to_owned(), record.rehearse(&facts));
        rehearsed.records.push(RehearsedRecord { origin, stream, outcome });
    }
    rehearsed
}

fn collect_answer(plan: &CollectPlan, exchange: &Exchange) -> Result<Rehearsed, String> {
    let request = &exchange.request;
    let body = request.body.read_within(BODY_BYTES_MAX as usize).map_err(|error| error.to_string())?;
    let body = match plan.json(&body) {
        Ok(json) => json,
        Err(error) => return Ok(unsplit(error).into()),
    };
    let body = utf8(&body);
    let batch = match plan.split(&body) {
        Ok(batch) => batch,
        Err(error) => return Ok(unsplit(error).into()),
    };
    let ending = TransactionEnd::Complete { status: plan.reply.status(), reply_bytes: None };
    let facts = Facts { request, took_us: 0, ending };
    let mut rehearsed = Rehearsed::from(Reply::empty(StatusCode::OK));
    let mut rejected = Vec::new();
    let mut buffer = Vec::new();
    for (place, item) in batch.items.iter().enumerate() {
        let contained = plan.contained(*item, &mut buffer);
        let text = contained.as_ref().unwrap_or(item).text();
        let row = contained
            .and_then(|item| CollectedItem::new(item, place, &plan.stream, batch.envelope(place)))
            .and_then(|given| plan.stream.row(&facts, &given).map_err(|error| error.to_string()));
        rejected.extend(row.as_ref().err().map(|reason| (place, reason.clone())));
        let outcome = row
            .map(|row| RehearsedRow { record: String::from_utf8_lossy(text).into_owned(), row })
            .map_err(|reason| RehearsedReject { reason, item: plan.kept(*item, text).into_owned() });
        let (origin, stream) = (RecordOrigin::Route(place), plan.stream.name.clone());
        rehearsed.records.push(RehearsedRecord { origin, stream, outcome });
    }
    rehearsed.reply = recorded(plan, &batch, &rejected);
    Ok(rehearsed)
}
