//! A request in its handler: the turns of the handler, and then the reply and the records.
//!
//! The stages are the `before` scripts of the route, its handler, and the `after` scripts, in this order. A
//! handler that passes starts the stages of the next route (`pass`). A turn may run before the handlers of
//! earlier requests return. Replies and records are created in the order of the requests.

use std::borrow::Cow;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollgate_files::PendingRead;
use tollgate_http::RequestHead;
use tollgate_script::{Body, Call, CallError, Emitted, Outcome, RequestId, Step};

use super::collect;
use super::content_source::ContentSource;
use super::endpoint::{Endpoint, Handler};
use super::exchange::Exchange;
use super::gated_reply::GatedReply;
use super::held_reply::HeldReply;
use super::judged_pieces::JudgedPieces;
use super::proxy::{Asked, Proxied};
use super::returned::{Returned, Tail};
use super::script::{self, Records};
use super::script_file::ScriptFileReply;
use crate::observe::OwnCells;
use crate::overload::RouteCost;
use crate::recorder::Recorder;
use crate::reply::{Extent, Reply};
use crate::validation::ReplyJudge;

/// Facts about a request that had a handler, which its reply needs.
pub(crate) struct Handled {
    pub(crate) id: RequestId,
    /// Metrics of the route.
    pub(crate) route: Rc<OwnCells>,
}

/// A request in its handler.
pub(crate) struct Visit {
    pub(super) exchange: Exchange,
    pub(super) stage: Stage,
    pub(super) phase: VisitPhase,
    /// Results of scripts of the other phases. `None` if there are none.
    aside: Option<Box<Aside>>,
    /// Error of a script that failed.
    pub(super) failure: Option<Box<CallError>>,
    /// Judges the content that follows the head, if it leaves while it is valid.
    pub(super) judge: Option<Box<ReplyJudge>>,
}

/// The script that runs, with its index among the scripts of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VisitPhase {
    Before(usize),
    Main,
    After(usize),
    /// No script runs, because the route refuses the request.
    Refused,
}

#[derive(Default)]
struct Aside {
    emitted: Vec<Emitted>,
    /// The reply while `after` scripts read it.
    returned: Option<Returned>,
}

pub(super) enum Stage {
    /// The handler runs only when its answer is requested, because it needs neither a slice nor a wait.
    AtOnce,
    /// A script runs, or is about to run.
    Script(Call),
    /// The script returned. The reply waits for a thread that opens the file to send.
    Sends(Box<Outcome>, ScriptFileReply),
    /// The file handler waits for a thread, or has not begun.
    Files(Option<Box<PendingRead>>),
    /// The proxy handler waits for the backend, or has not begun.
    Proxy(Option<Asked>),
    /// The handler returned. The reply is held until all of it is valid.
    Judging(Box<HeldReply>),
    /// The handler returned. `None` after its answer was taken.
    Returned(Option<Returned>),
}

/// Result of one turn of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The handler used its slice. Other connections have their turn first.
    Sliced,
    /// The handler waits for an operation that has to be polled.
    Waiting,
    /// The handler has nothing more to do.
    Over,
}

impl Visit {
    pub(crate) fn new(exchange: Exchange) -> Self {
        let phase = VisitPhase::Before(0);
        let mut visit =
            Self { exchange, stage: Stage::AtOnce, phase, aside: None, failure: None, judge: None };
        visit.enter();
        visit
    }

    /// Creates the visit of a request that the route refuses. The visit records only the refusal.
    pub(crate) fn refused(exchange: Exchange, reply: Reply) -> Self {
        let took_us = Some(exchange.took_us());
        let returned = Returned { reply, records: Records::default(), took_us, tail: None };
        let (stage, phase) = (Stage::Returned(Some(returned)), VisitPhase::Refused);
        Self { exchange, stage, phase, aside: None, failure: None, judge: None }
    }

    /// Enters the stage for the script of the phase, or for the next phase.
    pub(super) fn enter(&mut self) {
        let Exchange { endpoint, request, .. } = &self.exchange;
        let method = request.head.method();
        if let VisitPhase::Before(from) = self.phase {
            let next = endpoint.before.iter().skip(from).position(|script| script.takes(method));
            if let Some(at) = next.map(|skipped| from + skipped) {
                self.phase = VisitPhase::Before(at);
                self.stage = Stage::Script(endpoint.before[at].call(request.clone()));
                return;
            }
            self.phase = VisitPhase::Main;
        }
        if let VisitPhase::After(from) = self.phase {
            return self.enter_after(from);
        }
        self.stage = match &endpoint.handler {
            Handler::Script(handler) => Stage::Script(handler.call(request.clone())),
            Handler::Files(_) => Stage::Files(None),
            Handler::Proxy(_) => Stage::Proxy(None),
            Handler::Collect(_) | Handler::Reply(_) => Stage::AtOnce,
        };
        self.return_fixed();
    }

    /// Starts the next `after` script with the reply. After the last script, the reply is ready.
    fn enter_after(&mut self, from: usize) {
        let Exchange { endpoint, request, .. } = &self.exchange;
        let method = request.head.method();
        let Some(aside) = &mut self.aside else { return };
        let next = endpoint.after.iter().skip(from).position(|script| script.takes(method));
        match (next.map(|skipped| from + skipped), &aside.returned) {
            (Some(at), Some(returned)) => {
                self.phase = VisitPhase::After(at);
                let call = endpoint.after[at].call_after(request.clone(), returned.reply.for_after_scripts());
                self.stage = Stage::Script(call);
            }
            (_, _) => {
                let mut returned = aside.returned.take();
                if let Some(returned) = &mut returned {
                    rewrite(&self.exchange, &mut returned.reply);
                    returned.records.emitted.append(&mut aside.emitted);
                    returned.took_us = self.took_us(&returned.records);
                }
                self.stage = Stage::Returned(returned);
            }
        }
    }

    /// Returns the facts about the request that its reply needs.
    pub(crate) fn handled(&self) -> Handled {
        Handled { id: self.exchange.request.id.clone(), route: self.exchange.endpoint.cells.clone() }
    }

    /// Returns the head of an answered request. Returns `None` while a script or a streamed content still
    /// reads the request.
    pub(crate) fn unread_head(&mut self) -> Option<&mut RequestHead> {
        Rc::get_mut(&mut self.exchange.request).map(|request| &mut request.head)
    }

    /// Returns whether the request may run concurrently with others (RFC 9112 section 9.3.2).
    pub(crate) fn is_safe(&self) -> bool {
        self.exchange.request.head.method().is_safe()
    }

    /// Returns whether the handler can continue: the handler has not returned, and its operation is ready.
    pub(crate) fn can_run(&self) -> bool {
        match &self.stage {
            Stage::Script(call) => !call.is_waiting(),
            Stage::Files(pending_read) => pending_read.is_none(),
            Stage::Proxy(asked) => asked.is_none(),
            Stage::Judging(held) => held.can_run(),
            Stage::Sends(..) | Stage::AtOnce | Stage::Returned(_) => false,
        }
    }

    /// Returns whether the stage is a script of which no part has run.
    #[inline]
    pub(crate) fn has_to_begin(&self) -> bool {
        matches!(&self.stage, Stage::Script(call) if !call.has_begun())
    }

    /// Returns whether no part of the route has run. Such a request can still be refused, and leaves no
    /// record.
    pub(crate) fn is_untouched(&self) -> bool {
        let has_to_begin = match &self.stage {
            Stage::Script(call) => !call.has_begun(),
            Stage::Files(pending_read) => pending_read.is_none(),
            Stage::Proxy(asked) => asked.is_none(),
            Stage::AtOnce => true,
            Stage::Sends(..) | Stage::Judging(_) | Stage::Returned(_) => false,
        };
        has_to_begin && self.is_first()
    }

    /// Returns whether the handler does nothing before its answer is requested.
    pub(crate) fn is_at_once(&self) -> bool {
        matches!(self.stage, Stage::AtOnce)
    }

    /// Returns whether the request waits only for the reply of a backend. False while the request still sends
    /// its content to the backend.
    pub(crate) fn awaits_reply(&self) -> bool {
        matches!(self.stage, Stage::Proxy(Some(_))) && self.exchange.upload.is_none()
    }

    /// Returns the cost of the route, if the request has to wait in the script queue before it runs.
    #[inline]
    pub(crate) fn held_back_at(&self) -> Option<&Rc<RouteCost>> {
        let route_cost = self.exchange.endpoint.route_cost();
        (self.has_to_begin() && route_cost.holds_back()).then_some(route_cost)
    }

    /// Creates the reply to a request that is refused after it was admitted.
    pub(crate) fn unavailable(&self, text: &'static str) -> Reply {
        self.exchange.endpoint.unavailable(text, &self.exchange.request.head)
    }

    /// Returns the cost of the route, if the script waits in the script queue after its slice ended.
    pub(crate) fn sliced_at(&self) -> Option<&Rc<RouteCost>> {
        let is_sliced = matches!(&self.stage, Stage::Script(call) if call.is_sliced());
        is_sliced.then(|| self.exchange.endpoint.route_cost())
    }

    /// Returns whether a thread has to read files for the request, and was not started yet.
    pub(crate) fn has_pending_read(&self) -> bool {
        self.pending_read().is_some_and(PendingRead::is_due)
    }

    /// Returns whether a thread reads files for the request, or the job waits for a thread.
    pub(crate) fn is_reading(&self) -> bool {
        self.pending_read().is_some_and(PendingRead::is_under_way)
    }

    fn pending_read(&self) -> Option<&PendingRead> {
        match &self.stage {
            Stage::Files(pending_read) => pending_read.as_deref(),
            Stage::Sends(_, sending) => sending.pending_read(),
            Stage::Script(_) | Stage::Proxy(_) | Stage::Judging(_) | Stage::AtOnce | Stage::Returned(_) => {
                None
            }
        }
    }

    /// Polls the operation that the handler waits for. When the operation is ready, a file or proxy handler
    /// returns, and a script can run.
    pub(crate) fn poll_wait(&mut self, context: &mut Context<'_>) {
        match &mut self.stage {
            Stage::Script(call) => {
                // The result is ignored, because `can_run` returns whether the operation is ready.
                let _ = call.poll_wait(context);
            }
            Stage::Files(Some(_)) => {
                self.poll_files(Some(context));
            }
            Stage::Sends(..) => {
                self.poll_sent(Some(context));
            }
            Stage::Proxy(Some(asked)) => {
                if let Poll::Ready(proxied) = asked.poll(context) {
                    self.return_proxied(proxied);
                }
            }
            Stage::Judging(held) => {
                if let Some(end) = held.poll(context) {
                    self.end_held(end);
                }
            }
            Stage::Files(None) | Stage::Proxy(None) | Stage::AtOnce | Stage::Returned(_) => {}
        }
    }

    /// Runs the handler for a slice. Also returns the run time of scripts in this slice.
    pub(crate) fn run(&mut self) -> (Turn, Duration) {
        let before = self.exchange.endpoint.route_cost().ran();
        loop {
            if let Some(turn) = self.advance() {
                return (turn, self.exchange.endpoint.route_cost().ran() - before);
            }
        }
    }

    /// Runs one stage. Returns `None` if the next stage can run at once.
    pub(super) fn advance(&mut self) -> Option<Turn> {
        let turn = match &mut self.stage {
            Stage::Script(call) => {
                let route_cost = self.exchange.endpoint.route_cost();
                let begun = route_cost.begin();
                let step = call.resume();
                route_cost.end(begun, matches!(step, Step::Sliced));
                self.take_step(step)
            }
            // A stage that waits is polled later by the queue, which has a context with a waker.
            Stage::Files(_) => self.poll_files(None),
            Stage::Sends(..) => self.poll_sent(None),
            Stage::Proxy(asked) => {
                if let Handler::Proxy(proxy) = &self.exchange.endpoint.handler
                    && asked.is_none()
                {
                    *asked = Some(proxy.ask(&self.exchange));
                }
                Turn::Waiting
            }
            Stage::Judging(held) => match held.run() {
                Some(end) => {
                    self.end_held(end);
                    Turn::Over
                }
                None if held.can_run() => Turn::Sliced,
                None => Turn::Waiting,
            },
            Stage::AtOnce | Stage::Returned(_) => return Some(Turn::Over),
        };
        (turn != Turn::Over).then_some(turn)
    }

    /// Applies the result of a script step. Returns `Over` if the stage changed.
    fn take_step(&mut self, step: Step) -> Turn {
        match step {
            Step::Sliced => return Turn::Sliced,
            Step::Waiting => return Turn::Waiting,
            Step::Passed(emitted) => self.passed(emitted),
            Step::Done(Ok(outcome)) if matches!(self.phase, VisitPhase::After(_)) => self.changed(outcome),
            Step::Done(Ok(outcome)) if outcome.file.is_some() => {
                self.stage = Stage::Sends(Box::new(outcome), ScriptFileReply::default());
            }
            Step::Done(Ok(outcome)) | Step::Streams(outcome) => self.return_outcome(outcome),
            Step::Done(Err(error)) => self.return_with(Err(error)),
            Step::Ended(ended) => {
                let error = ended.err().unwrap_or_else(|| CallError::Reply("no head".to_owned()));
                self.return_with(Err(error));
            }
        }
        Turn::Over
    }

    fn passed(&mut self, mut emitted: Vec<Emitted>) {
        match self.phase {
            VisitPhase::Main | VisitPhase::Refused => return self.pass(),
            VisitPhase::Before(at) => self.phase = VisitPhase::Before(at + 1),
            VisitPhase::After(at) => self.phase = VisitPhase::After(at + 1),
        }
        if !emitted.is_empty() {
            self.aside.get_or_insert_default().emitted.append(&mut emitted);
        }
        self.enter();
    }

    /// Drops the records that the scripts of this route emitted.
    pub(super) fn forget(&mut self) {
        self.aside = None;
    }

    fn changed(&mut self, outcome: Outcome) {
        if let Some(returned) = self.aside.as_mut().and_then(|aside| aside.returned.as_mut()) {
            if outcome.sets_one_cookie {
                returned.reply.overwrite_one_cookie(&outcome.headers);
            } else {
                returned.reply.overwrite(&outcome.headers);
            }
        }
        self.passed(outcome.emitted);
    }

    /// Passes a fixed reply to the `after` scripts. Without such scripts the request is answered at once.
    fn return_fixed(&mut self) {
        let endpoint = &self.exchange.endpoint;
        if let Handler::Reply(reply) = &endpoint.handler
            && !(endpoint.after.is_empty() && endpoint.validation.is_none())
        {
            let reply = reply.reply().clone();
            self.return_with(Ok((reply, Records::default())));
        }
    }

    fn poll_files(&mut self, context: Option<&mut Context<'_>>) -> Turn {
        let (Stage::Files(pending_read), Handler::Files(files)) =
            (&mut self.stage, &self.exchange.endpoint.handler)
        else {
            return Turn::Over;
        };
        let request = self.exchange.file_request();
        let Poll::Ready(reply) = files.poll_answer(&request, pending_read, context) else {
            return Turn::Waiting;
        };
        self.return_reply(reply.into(), Records::default(), None);
        Turn::Over
    }

    fn return_proxied(&mut self, Proxied { mut reply, streamed }: Proxied) {
        self.stage = Stage::AtOnce;
        if self.exchange.endpoint.after.is_empty() {
            rewrite(&self.exchange, &mut reply);
        }
        self.return_reply(reply, Records::default(), streamed.map(Tail::Backend));
    }

    fn poll_sent(&mut self, context: Option<&mut Context<'_>>) -> Turn {
        let Stage::Sends(outcome, sending) = &mut self.stage else { return Turn::Over };
        let Poll::Ready(sent) = sending.poll(outcome, &self.exchange, context) else {
            return Turn::Waiting;
        };
        let records = Records::take(outcome);
        self.return_with(sent.map(|reply| (reply, records)));
        Turn::Over
    }

    /// Sets the result of the handler to the reply and the records of a script. The values are moved only
    /// once, because each move copies them.
    #[inline]
    fn return_outcome(&mut self, mut outcome: Outcome) {
        self.failure = None;
        let records = Records::take(&mut outcome);
        let tail = outcome.streamed.and_then(|_| self.take_tail());
        self.return_reply(outcome.into(), records, tail);
    }

    /// Removes the call that writes the content of the reply, and returns it.
    fn take_tail(&mut self) -> Option<Tail> {
        match std::mem::replace(&mut self.stage, Stage::Returned(None)) {
            Stage::Script(call) => Some(Tail::Call(Box::new(call))),
            _ => None,
        }
    }

    /// Sets the result of a script. If the script failed, the reply is final.
    fn return_with(&mut self, result: Result<(Reply, Records), CallError>) {
        self.failure = result.as_ref().err().map(|error| Box::new(error.clone()));
        let (reply, records) = script::reply(result, &self.exchange);
        let tail = if reply.extent == Extent::Streamed { self.take_tail() } else { None };
        self.return_reply(reply, records, tail);
    }

    #[inline]
    fn return_reply(&mut self, reply: Reply, records: Records, tail: Option<Tail>) {
        if self.exchange.endpoint.validation.is_some() && self.failure.is_none() {
            return self.judge_reply(reply, records, tail);
        }
        self.return_judged(reply, records, tail);
    }

    /// Passes a reply to the `after` scripts.
    #[inline]
    pub(super) fn return_judged(&mut self, reply: Reply, mut records: Records, tail: Option<Tail>) {
        if self.failure.is_none() {
            if let Some(aside) = &mut self.aside {
                records.emitted.splice(..0, aside.emitted.drain(..));
            }
            if !self.exchange.endpoint.after.is_empty() {
                let returned = Returned { reply, records, took_us: None, tail };
                self.aside.get_or_insert_default().returned = Some(returned);
                self.phase = VisitPhase::After(0);
                return self.enter();
            }
        }
        let took_us = self.took_us(&records);
        self.stage = Stage::Returned(Some(Returned { reply, records, took_us, tail }));
    }

    /// Creates the answer, and appends all records of the transaction together. An answer is created once.
    /// Returns `None` if the handler has not returned.
    pub(crate) fn answer(&mut self, recorder: &Recorder) -> Option<GatedReply<'_>> {
        let endpoint = &self.exchange.endpoint;
        let request = &self.exchange.request;
        let mut answer = match &mut self.stage {
            Stage::Script(_) | Stage::Files(_) | Stage::Sends(..) | Stage::Proxy(_) | Stage::Judging(_) => {
                return None;
            }
            Stage::AtOnce => match &endpoint.handler {
                Handler::Collect(plan) => collect::answer(plan, &self.exchange, recorder),
                Handler::Reply(reply) => {
                    let reply = Cow::Borrowed(reply.reply());
                    let took_us = endpoint.stream.as_ref().map(|_| self.exchange.took_us());
                    endpoint.record(reply, Records::default(), took_us, request, recorder)
                }
                Handler::Script(_) | Handler::Files(_) | Handler::Proxy(_) => return None,
            },
            Stage::Returned(returned) => {
                let Returned { reply, records, took_us, tail } = returned.take()?;
                let mut answer = endpoint.record(Cow::Owned(reply), records, took_us, request, recorder);
                if answer.reply.extent != Extent::Whole {
                    let permit = self.exchange.permit.take();
                    let source = tail.and_then(|tail| tail.source(endpoint, request, permit));
                    answer.streamed = source.map(|source| match self.judge.take() {
                        None => source,
                        Some(judge) => {
                            Box::new(ContentSource::Judged(source, Box::new(JudgedPieces::new(judge))))
                        }
                    });
                }
                answer
            }
        };
        if answer.reply.lacks_allow() {
            answer.reply.to_mut().say_what_is_allowed(endpoint.methods);
        }
        // A refusal has its permission already.
        if let Some(cors) = endpoint.cors.as_ref().filter(|_| self.phase != VisitPhase::Refused) {
            cors.grant(&request.head).add_to(answer.reply.to_mut());
        }
        Some(answer)
    }

    /// Returns the duration so far in microseconds, or `None` if no record has the duration.
    pub(super) fn took_us(&self, records: &Records) -> Option<i64> {
        let is_kept = self.exchange.endpoint.stream.is_some() || !records.emitted.is_empty();
        is_kept.then(|| self.exchange.took_us())
    }

    /// Cancels the request, because no client waits for it. If the handler has returned, the record has its
    /// result. If the handler has only begun, the record states that the request was cancelled.
    pub(crate) fn cancel(mut self, recorder: &Recorder) {
        if self.is_untouched() {
            return;
        }
        if let Some(returned) = self.aside.as_mut().and_then(|aside| aside.returned.take()) {
            // An `after` script ran, so the reply of the handler already exists.
            let took_us = self.took_us(&returned.records);
            self.stage = Stage::Returned(Some(Returned { took_us, ..returned }));
        }
        match &self.stage {
            Stage::Files(None) | Stage::Proxy(None) | Stage::AtOnce => {}
            Stage::Script(_)
            | Stage::Files(Some(_))
            | Stage::Sends(..)
            | Stage::Proxy(Some(_))
            | Stage::Judging(_) => {
                self.exchange.endpoint.record_cancelled(&self.exchange, recorder);
            }
            Stage::Returned(_) => {
                self.answer(recorder);
            }
        }
    }

    /// Returns whether no other part of the route ran before this stage.
    fn is_first(&self) -> bool {
        match self.phase {
            VisitPhase::Before(at) => at == 0,
            VisitPhase::Main => self.exchange.endpoint.before.is_empty(),
            VisitPhase::After(at) => {
                let Endpoint { before, handler, .. } = &*self.exchange.endpoint;
                at == 0 && before.is_empty() && matches!(handler, Handler::Reply(_))
            }
            VisitPhase::Refused => true,
        }
    }

    /// Returns the bytes of the reply of the handler, even while `after` scripts run.
    pub(crate) fn reply_bytes(&self) -> usize {
        match &self.stage {
            Stage::Returned(Some(returned)) => returned.memory_bytes(),
            _ => self.reply_before_after_bytes(),
        }
    }

    /// Returns the bytes of the reply that `after` scripts read.
    fn reply_before_after_bytes(&self) -> usize {
        let returned = self.aside.as_ref().and_then(|aside| aside.returned.as_ref());
        returned.map_or(0, Returned::memory_bytes)
    }

    /// Returns the bytes of the request, of a suspended handler, and of the reply.
    pub(crate) fn memory_bytes(&self) -> usize {
        let request = &self.exchange.request;
        let body_bytes = match &request.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File(_) => 0,
        };
        request.head.bytes_len() + body_bytes + self.made_bytes()
    }

    /// Returns the bytes that the handler has produced and holds, including its reply.
    pub(crate) fn made_bytes(&self) -> usize {
        let stage_bytes = match &self.stage {
            Stage::Returned(returned) => returned.as_ref().map_or(0, Returned::memory_bytes),
            Stage::Script(call) => call.memory_bytes(),
            Stage::Proxy(asked) => asked.as_ref().map_or(0, Asked::memory_bytes),
            Stage::Judging(held) => held.memory_bytes(),
            Stage::Files(_) | Stage::Sends(..) | Stage::AtOnce => 0,
        };
        stage_bytes + self.reply_before_after_bytes()
    }
}

/// Rewrites a reply of a backend when all `after` scripts have run.
fn rewrite(exchange: &Exchange, reply: &mut Reply) {
    if let Handler::Proxy(proxy) = &exchange.endpoint.handler {
        proxy.rewrite(exchange, reply);
    }
}
