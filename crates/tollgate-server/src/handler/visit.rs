//! A request in its handler: the turns that the handler takes, then its reply and its records.
//!
//! Turns may be taken while requests before it run still; reply and records are asked for in the order of the requests.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate_http::StatusCode;
use tollgate_script::{Body, Call, CallError, Outcome, Record, RequestId, Step};

use super::flow::ScriptFlow;
use super::{Answer, Asked, BackendFlow, Exchange, Flow, Handler, Proxied, allowed_methods, collect, script};
use crate::files::Errand;
use crate::observe::RouteCells;
use crate::recorder::Recorder;
use crate::reply::{Extent, Reply};

/// A request that had a handler.
pub(crate) struct Handled {
    pub(crate) id: RequestId,
    /// Where it is counted.
    #[expect(
        clippy::redundant_allocation,
        reason = "cloned for each request: a plain count is cheaper than a locked one"
    )]
    pub(crate) route: Rc<Arc<RouteCells>>,
}

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
    /// It waits for a thread that reads files, or was not begun.
    Files(Option<Box<Errand>>),
    /// It waits for a backend, or was not begun.
    Proxy(Option<Asked>),
    /// It is done. None: it was asked for its answer.
    Returned(Option<Returned>),
}

/// What a handler left.
struct Returned {
    reply: Reply,
    record: Record,
    /// None where nobody keeps it.
    took_us: Option<i64>,
    /// What goes on to write the content of a streamed reply.
    tail: Option<Tail>,
}

/// What writes the content of a reply after its head.
enum Tail {
    Call(Box<Call>),
    Backend(Box<BackendFlow>),
}

impl Returned {
    fn memory_bytes(&self) -> usize {
        let tail_bytes = match &self.tail {
            None => 0,
            Some(Tail::Call(call)) => call.memory_bytes(),
            Some(Tail::Backend(flow)) => flow.memory_bytes(),
        };
        self.reply.content.len() + tail_bytes
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
            Handler::Script(handler) => Stage::Script(handler.call(exchange.request.clone())),
            Handler::Files(_) => Stage::Files(None),
            Handler::Proxy(_) => Stage::Proxy(None),
            Handler::Collect(_) | Handler::Reply(_) => Stage::AtOnce,
        };
        Self { exchange, stage }
    }

    /// What is known of the request when there is an answer.
    pub(crate) fn handled(&self) -> Handled {
        Handled { id: self.exchange.request.id.clone(), route: self.exchange.endpoint.cells.clone() }
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
            Stage::Proxy(asked) => asked.is_none(),
            Stage::AtOnce | Stage::Returned(_) => false,
        }
    }

    /// Polls what the handler waits for. Files and backends return by that, scripts then can run.
    pub(crate) fn poll_wait(&mut self, context: &mut Context<'_>) {
        match &mut self.stage {
            Stage::Script(call) => {
                // Whether it is there is seen by `can_run`.
                let _ = call.poll_wait(context);
            }
            Stage::Files(Some(_)) => {
                self.poll_files(context);
            }
            Stage::Proxy(Some(asked)) => {
                if let Poll::Ready(proxied) = asked.poll(context) {
                    self.return_proxied(proxied);
                }
            }
            Stage::Files(None) | Stage::Proxy(None) | Stage::AtOnce | Stage::Returned(_) => {}
        }
    }

    /// Lets the handler run for a slice.
    pub(crate) fn run(&mut self) -> Turn {
        match &mut self.stage {
            Stage::Script(call) => {
                let result = match call.resume() {
                    Step::Sliced => return Turn::Sliced,
                    Step::Waiting => return Turn::Waiting,
                    Step::Done(result) => result,
                    Step::Streams(outcome) => Ok(outcome),
                    Step::Ended(ended) => ended.and_then(|()| Err(CallError::Reply("no head".to_owned()))),
                };
                self.return_with(result);
                Turn::Over
            }
            // Who waits is polled by the queue, which knows whom to wake.
            Stage::Files(_) => self.poll_files(&mut Context::from_waker(Waker::noop())),
            Stage::Proxy(asked) => {
                if let Handler::Proxy(proxy) = &self.exchange.endpoint.handler
                    && asked.is_none()
                {
                    *asked = Some(proxy.ask(&self.exchange));
                }
                Turn::Waiting
            }
            Stage::AtOnce | Stage::Returned(_) => Turn::Over,
        }
    }

    fn return_proxied(&mut self, Proxied { reply, flow }: Proxied) {
        let (record, took_us, tail) = (Record::default(), self.took_us(), flow.map(Tail::Backend));
        self.stage = Stage::Returned(Some(Returned { reply, record, took_us, tail }));
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
        self.stage = Stage::Returned(Some(Returned { reply, record, took_us, tail: None }));
        Turn::Over
    }

    fn return_with(&mut self, result: Result<Outcome, CallError>) {
        let (reply, record) = script::reply(result, &self.exchange);
        let took_us = self.took_us();
        let stage = std::mem::replace(&mut self.stage, Stage::Returned(None));
        let tail = match stage {
            Stage::Script(call) if reply.extent == Extent::Streamed => Some(Tail::Call(Box::new(call))),
            _ => None,
        };
        self.stage = Stage::Returned(Some(Returned { reply, record, took_us, tail }));
    }

    /// Makes the answer and appends the records, those of a transaction together; once. None: the handler has not
    /// returned.
    pub(crate) fn answer(&mut self, recorder: &Recorder) -> Option<Answer<'_>> {
        let endpoint = &self.exchange.endpoint;
        let request = &self.exchange.request;
        let mut answer = match &mut self.stage {
            Stage::Script(_) | Stage::Files(_) | Stage::Proxy(_) => return None,
            Stage::AtOnce => match &endpoint.handler {
                Handler::Collect(stream) => collect::answer(stream, &self.exchange, recorder),
                Handler::Reply(reply) => {
                    let reply = Cow::Borrowed(reply);
                    endpoint.record(reply, Record::default(), self.took_us(), request, recorder)
                }
                Handler::Script(_) | Handler::Files(_) | Handler::Proxy(_) => return None,
            },
            Stage::Returned(returned) => {
                let Returned { reply, record, took_us, tail } = returned.take()?;
                let mut answer = endpoint.record(Cow::Owned(reply), record, took_us, request, recorder);
                if answer.reply.extent != Extent::Whole {
                    answer.flow = tail.and_then(|tail| match tail {
                        Tail::Backend(flow) => Some(Box::new(Flow::Backend(flow))),
                        Tail::Call(call) => {
                            let flow = ScriptFlow::new(*call, endpoint, request)?;
                            Some(Box::new(Flow::Script(Box::new(flow))))
                        }
                    });
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
            Stage::Files(None) | Stage::Proxy(None) | Stage::AtOnce => {}
            Stage::Script(_) | Stage::Files(Some(_)) | Stage::Proxy(Some(_)) => {
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
            Stage::Proxy(asked) => asked.as_ref().map_or(0, Asked::memory_bytes),
            Stage::Files(_) | Stage::AtOnce => 0,
        };
        request.head.bytes_len() + body_bytes + handler_bytes
    }
}
