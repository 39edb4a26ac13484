//! Handlers without a server: what a test is told in place of a reply that leaves, and of records that go to the log.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tollgate_http::{Method, StatusCode};
use tollgate_script::{Call, Record, Request, Step, Streamed};

use super::collect::{self, CollectedItem};
use super::items::{SplitError, split};
use super::script::ScriptRecord;
use super::{Endpoint, Exchange, Handler, allowed_methods, script};
use crate::files::{Files, Sending};
use crate::reply::{Extent, Reply};
use crate::summary::summary;
use crate::transaction::{Ending, Facts, StreamPlan};

/// Bytes of a streamed content that are kept: what writes it is told then that nobody reads on.
const STREAMED_BYTES_MAX: usize = 16 << 20;

/// What a request came to.
pub(crate) struct Rehearsed {
    pub(crate) reply: Reply,
    /// As JSON.
    pub(crate) records: Vec<String>,
    /// Why records are no rows.
    pub(crate) rejects: Vec<String>,
    /// Why the script failed.
    pub(crate) error: Option<String>,
}

impl From<Reply> for Rehearsed {
    fn from(reply: Reply) -> Self {
        Self { reply, records: Vec::new(), rejects: Vec::new(), error: None }
    }
}

impl Rehearsed {
    fn keep(&mut self, record: Result<String, String>) {
        match record {
            Ok(record) => self.records.push(record),
            Err(reason) => self.rejects.push(reason),
        }
    }
}

impl Endpoint {
    /// Answers a request; nothing is recorded.
    ///
    /// # Errors
    /// What needs a server.
    pub(crate) async fn rehearse(self: &Rc<Self>, request: Rc<Request>) -> Result<Rehearsed, String> {
        if request.body.bytes_len() > self.body_bytes_max {
            return Ok(Reply::text(StatusCode::CONTENT_TOO_LARGE, "content too large").into());
        }
        let exchange = Exchange { endpoint: self.clone(), request, begun: Instant::now() };
        let request = &exchange.request;
        let mut rehearsed = match &self.handler {
            Handler::Script(script) => {
                let call = script.handler.call(request.clone());
                script_answer(call, &exchange, script.files.as_ref(), self.stream.as_deref()).await
            }
            Handler::Collect(stream) => match self.refusal(&request.head) {
                Some(refusal) => refusal.into(),
                None => collect_answer(stream, &exchange)?,
            },
            Handler::Reply(reply) => {
                with_record(reply.clone(), Record::default(), &exchange, self.stream.as_deref())
            }
            Handler::Files(files) => {
                let mut errand = None;
                let reply =
                    poll_fn(|context| files.poll_answer(request, exchange.begun, &mut errand, context));
                with_record(reply.await, Record::default(), &exchange, self.stream.as_deref())
            }
        };
        let reply = &mut rehearsed.reply;
        reply.read_parts().map_err(|error| format!("file cannot be read: {error}"))?;
        if reply.status == StatusCode::METHOD_NOT_ALLOWED && !reply.has("Allow") {
            reply.push("Allow", allowed_methods(self.methods));
        }
        if let Some(cors) = &self.cors {
            cors.grant(&request.head).add_to(reply);
        }
        if request.head.method() == Method::Head {
            reply.content = Bytes::new();
        }
        Ok(rehearsed)
    }

    /// The stream that its records go to.
    pub(crate) fn stream(&self) -> Option<&StreamPlan> {
        self.stream.as_deref()
    }
}

/// Runs a call to its end. Of events only what is sent before the first pause after one is wanted.
async fn script_answer(
    mut call: Call,
    exchange: &Exchange,
    files: Option<&Files>,
    stream: Option<&StreamPlan>,
) -> Rehearsed {
    let (result, streamed) = loop {
        match call.resume() {
            Step::Sliced => {}
            Step::Waiting => poll_fn(|context| call.poll_wait(context)).await,
            Step::Streams(outcome) => {
                let streamed = outcome.streamed;
                break (Ok(outcome), streamed);
            }
            Step::Done(result) => break (result, None),
            Step::Ended(_) => return Reply::empty(StatusCode::INTERNAL_SERVER_ERROR).into(),
        }
    };
    let result = match result {
        Ok(outcome) if outcome.file.is_some() => {
            let (mut sending, begun) = (Sending::default(), exchange.begun);
            let sent =
                poll_fn(|context| sending.poll(files, &outcome, &exchange.request, begun, context)).await;
            sent.map(|reply| (reply, outcome.record))
        }
        result => script::told(result),
    };
    let failure = result.as_ref().err().map(ToString::to_string);
    let (reply, record) = script::reply(result, exchange);
    let mut rehearsed = with_record(reply, record, exchange, stream);
    rehearsed.error = failure;
    if let Some(streamed) = streamed {
        let (content, failure) = streamed_content(call, streamed).await;
        rehearsed.reply.content = content;
        rehearsed.error = failure;
    }
    rehearsed
}

/// Lets a call write its content; returns that, and why it is not whole.
async fn streamed_content(mut call: Call, streamed: Streamed) -> (Bytes, Option<String>) {
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
            Step::Waiting if streamed == Streamed::Events && !content.is_empty() => break None,
            Step::Waiting => poll_fn(|context| call.poll_wait(context)).await,
            Step::Sliced => {}
            Step::Ended(Err(error)) => break Some(error.to_string()),
            Step::Ended(Ok(())) | Step::Streams(_) | Step::Done(_) => break None,
        }
    };
    (content.into(), failure)
}

fn with_record(reply: Reply, record: Record, exchange: &Exchange, stream: Option<&StreamPlan>) -> Rehearsed {
    let status = reply.status.as_u16();
    let ending = match reply.extent {
        Extent::Whole => {
            Ending::Complete { status, reply_bytes: usize::try_from(reply.content_bytes()).ok() }
        }
        Extent::Streamed => Ending::Streamed { status },
    };
    let mut rehearsed = Rehearsed::from(reply);
    if let Some(plan) = stream {
        let facts = Facts { request: &exchange.request, took_us: 0, ending };
        rehearsed.keep(ScriptRecord { record, plan }.check(&facts));
    }
    rehearsed
}

fn collect_answer(stream: &StreamPlan, exchange: &Exchange) -> Result<Rehearsed, String> {
    let request = &exchange.request;
    let body =
        request.body.read_within(collect::BODY_BYTES_MAX as usize).map_err(|error| error.to_string())?;
    let items = match split(&body) {
        Ok(items) => items,
        Err(SplitError::Malformed(text)) => return Ok(Reply::text(StatusCode::BAD_REQUEST, text).into()),
        Err(SplitError::TooMany) => {
            return Ok(
                Reply::text(StatusCode::CONTENT_TOO_LARGE, "too many items: nothing was recorded").into()
            );
        }
    };
    let ending = Ending::Complete { status: StatusCode::OK.as_u16(), reply_bytes: None };
    let facts = Facts { request, took_us: 0, ending };
    let mut rehearsed = Rehearsed::from(Reply::empty(StatusCode::OK));
    let mut rejected = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let checked = CollectedItem::new(item, place, stream)
            .and_then(|given| stream.check(&facts, &given).map_err(|error| error.to_string()));
        if let Err(reason) = &checked {
            rejected.push((place, reason.clone()));
        }
        rehearsed.keep(checked.map(|()| String::from_utf8_lossy(item.text()).into_owned()));
    }
    let told = rejected.iter().map(|(place, reason)| (*place, reason.as_str()));
    rehearsed.reply = Reply::new(StatusCode::OK, "application/json", summary(items.len(), told));
    Ok(rehearsed)
}
