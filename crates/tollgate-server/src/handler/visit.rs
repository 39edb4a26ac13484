//! A request in its handler: the turns that the handler takes, then its reply and its records.
//!
//! Turns may be taken while requests before it run still; reply and records are asked for in the order of the requests.

use tollgate_http::StatusCode;
use tollgate_script::{Body, Call, Record, RequestId, Step};

use super::{Answer, Exchange, Handler, allowed_methods, collect, script};
use crate::recorder::Recorder;
use crate::reply::Reply;

/// A request in its handler.
pub(crate) struct Visit {
    exchange: Exchange,
    stage: Stage,
}

enum Stage {
    /// What it does takes no time of its own, and is done when it is asked for its answer.
    AtOnce,
    /// It runs, or will.
    Script(Call),
    Returned {
        reply: Reply,
        record: Record,
        /// None where nobody keeps it.
        took_us: Option<i64>,
    },
}

/// What became of a handler by one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It ran its slice: others have their turn first.
    Sliced,
    /// It has nothing more to do.
    Over,
}

impl Visit {
    pub(crate) fn new(exchange: Exchange) -> Self {
        let stage = match &exchange.endpoint.handler {
            Handler::Script(handler) => Stage::Script(handler.call(exchange.request.clone())),
            Handler::Collect(_) | Handler::Reply(_) => Stage::AtOnce,
        };
        Self { exchange, stage }
    }

    pub(crate) fn id(&self) -> &RequestId {
        &self.exchange.request.id
    }

    /// Whether it may run beside others (RFC 9112 section 9.3.2).
    pub(crate) fn is_safe(&self) -> bool {
        self.exchange.request.head.method().is_safe()
    }

    pub(crate) fn has_returned(&self) -> bool {
        !matches!(self.stage, Stage::Script(_))
    }

    /// Lets the handler run for a slice.
    pub(crate) fn run(&mut self) -> Turn {
        if let Stage::Script(call) = &mut self.stage {
            let Step::Done(result) = call.resume() else { return Turn::Sliced };
            let (reply, record) = script::reply(result, &self.exchange);
            self.stage = Stage::Returned { reply, record, took_us: self.took_us() };
        }
        Turn::Over
    }

    /// Makes the answer and appends the records, those of a transaction together; once. None: the handler has not
    /// returned.
    pub(crate) fn answer(&mut self, recorder: &Recorder) -> Option<Answer> {
        let endpoint = &self.exchange.endpoint;
        let request = &self.exchange.request;
        let mut answer = match std::mem::replace(&mut self.stage, Stage::AtOnce) {
            Stage::Returned { reply, record, took_us } => {
                endpoint.record(reply, record, took_us, request, recorder)
            }
            Stage::AtOnce => match &endpoint.handler {
                Handler::Collect(stream) => collect::answer(stream, &self.exchange, recorder),
                Handler::Reply(reply) => {
                    endpoint.record(reply.clone(), Record::default(), self.took_us(), request, recorder)
                }
                Handler::Script(_) => return None,
            },
            running @ Stage::Script(_) => {
                self.stage = running;
                return None;
            }
        };
        if answer.reply.status == StatusCode::METHOD_NOT_ALLOWED && !answer.reply.has("Allow") {
            // RFC 9110 section 15.5.6: a 405 says what is allowed, also one of a script.
            answer.reply.push("Allow", allowed_methods(endpoint.methods));
        }
        if let Some(cors) = &endpoint.cors {
            cors.grant(&request.head).add_to(&mut answer.reply);
        }
        Some(answer)
    }

    fn took_us(&self) -> Option<i64> {
        self.exchange.endpoint.stream.as_ref().map(|_| self.exchange.took_us())
    }

    /// Ends it: nobody waits for the answer any more. A handler that was entered leaves its record: one that returned what
    /// it returned, another that it was cancelled.
    pub(crate) fn cancel(mut self, recorder: &Recorder) {
        match &self.stage {
            Stage::Script(call) if call.has_begun() => {
                self.exchange.endpoint.record_cancelled(&self.exchange, recorder);
            }
            Stage::Returned { .. } => {
                self.answer(recorder);
            }
            Stage::Script(_) | Stage::AtOnce => {}
        }
    }

    /// What is held for the request, and for its reply.
    pub(crate) fn memory_bytes(&self) -> usize {
        let request = &self.exchange.request;
        let body_bytes = match &request.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File(_) => 0,
        };
        let reply_bytes = match &self.stage {
            Stage::Returned { reply, .. } => reply.content.len(),
            Stage::Script(_) | Stage::AtOnce => 0,
        };
        request.head.bytes_len() + body_bytes + reply_bytes
    }
}
