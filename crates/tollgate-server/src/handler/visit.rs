//! A request in its handler: the turns that the handler takes, then its reply and its records.
//!
//! Turns may be taken while requests before it run still; reply and records are asked for in the order of the requests.

use std::borrow::Cow;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tollgate_http::StatusCode;
use tollgate_script::{Body, Call, CallError, Outcome, Record, Request, Step};

use super::{Answer, Exchange, Flow, Handler, allowed_methods, collect, script};
use crate::files::{Errand, Sending};
use crate::recorder::Recorder;
use crate::reply::{Extent, Reply};

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
    /// It returned, and its reply waits for a thread that opens the file which it sends.
    Sends(Box<Outcome>, Sending),
    /// It waits for a thread that reads files, or was not begun.
    Files(Option<Box<Errand>>),
    /// It is done. None: it was asked for its answer.
    Returned(Option<Returned>),
}

/// What a handler left.
struct Returned {
    reply: Reply,
    record: Record,
    /// None where nobody keeps it.
    took_us: Option<i64>,
    /// The call of a streamed reply, which goes on.
    call: Option<Box<Call>>,
}

impl Returned {
    fn memory_bytes(&self) -> usize {
        self.reply.content.len() + self.call.as_ref().map_or(0, |call| call.memory_bytes())
    }
}

/// What became of a handler by one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It ran its slice: others have their turn first.
    Sliced,
    /// It waits for something that has to be polled.
    Waiting,
    /// It has nothing more to do.
    Over,
}

impl Visit {
    pub(crate) fn new(exchange: Exchange) -> Self {
        let stage = match &exchange.endpoint.handler {
            Handler::Script(handler) => Stage::Script(handler.handler.call(exchange.request.clone())),
            Handler::Files(_) => Stage::Files(None),
            Handler::Collect(_) | Handler::Reply(_) => Stage::AtOnce,
        };
        Self { exchange, stage }
    }

    pub(crate) fn request(&self) -> &Rc<Request> {
        &self.exchange.request
    }

    /// Whether it may run beside others (RFC 9112 section 9.3.2).
    pub(crate) fn is_safe(&self) -> bool {
        self.exchange.request.head.method().is_safe()
    }

    /// Whether it can go on: it has not returned, and what it waited for is there.
    pub(crate) fn can_run(&self) -> bool {
        match &self.stage {
            Stage::Script(call) => !call.is_waiting(),
            Stage::Files(errand) => errand.is_none(),
            Stage::Sends(..) | Stage::AtOnce | Stage::Returned(_) => false,
        }
    }

    /// Polls what the handler waits for. Files return by that, scripts then can run.
    pub(crate) fn poll_wait(&mut self, context: &mut Context<'_>) {
        match &mut self.stage {
            Stage::Script(call) => {
                // Whether it is there is seen by `can_run`.
                let _ = call.poll_wait(context);
            }
            Stage::Files(Some(_)) => {
                self.poll_files(context);
            }
            Stage::Sends(..) => {
                self.poll_sent(context);
            }
            Stage::Files(None) | Stage::AtOnce | Stage::Returned(_) => {}
        }
    }

    /// Lets the handler run for a slice.
    pub(crate) fn run(&mut self) -> Turn {
        match &mut self.stage {
            Stage::Script(call) => {
                let result = match call.resume() {
                    Step::Sliced => return Turn::Sliced,
                    Step::Waiting => return Turn::Waiting,
                    Step::Done(Ok(outcome)) if outcome.file.is_some() => {
                        self.stage = Stage::Sends(Box::new(outcome), Sending::default());
                        return self.poll_sent(&mut Context::from_waker(Waker::noop()));
                    }
                    Step::Done(result) => result,
                    Step::Streams(outcome) => Ok(outcome),
                    Step::Ended(ended) => ended.and_then(|()| Err(CallError::Reply("no head".to_owned()))),
                };
                self.return_with(script::told(result));
                Turn::Over
            }
            // Who waits is polled by the queue, which knows whom to wake.
            Stage::Files(_) => self.poll_files(&mut Context::from_waker(Waker::noop())),
            Stage::Sends(..) => Turn::Waiting,
            Stage::AtOnce | Stage::Returned(_) => Turn::Over,
        }
    }

    fn poll_files(&mut self, context: &mut Context<'_>) -> Turn {
        let (Stage::Files(errand), Handler::Files(files)) =
            (&mut self.stage, &self.exchange.endpoint.handler)
        else {
            return Turn::Over;
        };
        let Exchange { request, begun, .. } = &self.exchange;
        let Poll::Ready(reply) = files.poll_answer(request, *begun, errand, context) else {
            return Turn::Waiting;
        };
        let (record, took_us) = (Record::default(), self.took_us());
        self.stage = Stage::Returned(Some(Returned { reply, record, took_us, call: None }));
        Turn::Over
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Turn {
        let (Stage::Sends(outcome, sending), Handler::Script(script)) =
            (&mut self.stage, &self.exchange.endpoint.handler)
        else {
            return Turn::Over;
        };
        let Exchange { request, begun, .. } = &self.exchange;
        let Poll::Ready(sent) = sending.poll(script.files.as_ref(), outcome, request, *begun, context) else {
            return Turn::Waiting;
        };
        let record = std::mem::take(&mut outcome.record);
        self.return_with(sent.map(|reply| (reply, record)));
        Turn::Over
    }

    fn return_with(&mut self, result: Result<(Reply, Record), CallError>) {
        let (reply, record) = script::reply(result, &self.exchange);
        let took_us = self.took_us();
        let stage = std::mem::replace(&mut self.stage, Stage::Returned(None));
        let call = match stage {
            Stage::Script(call) if reply.extent == Extent::Streamed => Some(Box::new(call)),
            _ => None,
        };
        self.stage = Stage::Returned(Some(Returned { reply, record, took_us, call }));
    }

    /// Makes the answer and appends the records, those of a transaction together; once. None: the handler has not
    /// returned.
    pub(crate) fn answer(&mut self, recorder: &Recorder) -> Option<Answer<'_>> {
        let endpoint = &self.exchange.endpoint;
        let request = &self.exchange.request;
        let mut answer = match &mut self.stage {
            Stage::Script(_) | Stage::Files(_) | Stage::Sends(..) => return None,
            Stage::AtOnce => match &endpoint.handler {
                Handler::Collect(stream) => collect::answer(stream, &self.exchange, recorder),
                Handler::Reply(reply) => {
                    let reply = Cow::Borrowed(reply);
                    endpoint.record(reply, Record::default(), self.took_us(), request, recorder)
                }
                Handler::Script(_) | Handler::Files(_) => return None,
            },
            Stage::Returned(returned) => {
                let Returned { reply, record, took_us, call } = returned.take()?;
                let mut answer = endpoint.record(Cow::Owned(reply), record, took_us, request, recorder);
                if answer.reply.extent == Extent::Streamed {
                    answer.flow = call.and_then(|call| Flow::new(*call, endpoint, request)).map(Box::new);
                }
                answer
            }
        };
        if answer.reply.status == StatusCode::METHOD_NOT_ALLOWED && !answer.reply.has("Allow") {
            // RFC 9110 section 15.5.6: a 405 says what is allowed, also one of a script.
            answer.reply.to_mut().push("Allow", allowed_methods(endpoint.methods));
        }
        if let Some(cors) = &endpoint.cors {
            cors.grant(&request.head).add_to(answer.reply.to_mut());
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
            Stage::Script(call) if !call.has_begun() => {}
            Stage::Files(None) | Stage::AtOnce => {}
            Stage::Script(_) | Stage::Files(Some(_)) | Stage::Sends(..) => {
                self.exchange.endpoint.record_cancelled(&self.exchange, recorder);
            }
            Stage::Returned(_) => {
                self.answer(recorder);
            }
        }
    }

    /// What is held for the request, for a handler that is set aside, and for the reply.
    pub(crate) fn memory_bytes(&self) -> usize {
        let request = &self.exchange.request;
        let body_bytes = match &request.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File(_) => 0,
        };
        let handler_bytes = match &self.stage {
            Stage::Returned(returned) => returned.as_ref().map_or(0, Returned::memory_bytes),
            Stage::Script(call) => call.memory_bytes(),
            Stage::Files(_) | Stage::Sends(..) | Stage::AtOnce => 0,
        };
        request.head.bytes_len() + body_bytes + handler_bytes
    }
}
