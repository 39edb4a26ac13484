//! The content of a streamed reply, which goes on after the head left: of a call, or of a backend.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tollgate_script::{Call, CallError, Pipe, Request, Step};

use super::content_step::ContentStep;
use super::endpoint::Endpoint;
use super::proxy::BackendContent;
use crate::overload::{QueuePlace, RequestPermit, WaitingScript};
use crate::task_turn::give_turn;

/// The source of the content of a streamed reply: a script or a backend.
pub(crate) enum ContentSource {
    Script(Box<ScriptContent>),
    Backend(Box<BackendContent>),
}

/// The content of a reply that a call of a script writes.
pub(crate) struct ScriptContent {
    call: Call,
    pipe: Rc<Pipe>,
    endpoint: Rc<Endpoint>,
    request: Rc<Request>,
    /// Its place among the worker's scripts that go on after a slice.
    place: Option<(WaitingScript, QueuePlace)>,
    /// The request counts as long as its content is written.
    _permit: Option<RequestPermit>,
}

impl ContentSource {
    /// How long the content may pause before the client is told to go on waiting; none if it may for ever.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        match self {
            Self::Script(script) => script.call.heartbeat(),
            Self::Backend(_) => None,
        }
    }

    /// What was written so far.
    pub(crate) fn take(&mut self) -> Bytes {
        match self {
            Self::Script(script) => script.pipe.take().into(),
            Self::Backend(backend) => backend.take(),
        }
    }

    /// Lines of trailer fields behind what was written.
    pub(crate) fn trailers(&self) -> Vec<u8> {
        match self {
            Self::Script(_) => Vec::new(),
            Self::Backend(backend) => backend.trailers(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Script(script) => script.call.memory_bytes(),
            Self::Backend(backend) => backend.memory_bytes(),
        }
    }

    /// Returns the content of a backend, if its bytes can be passed on as they come.
    pub(crate) fn plain(&mut self) -> Option<&mut BackendContent> {
        match self {
            Self::Backend(backend) if backend.is_plain() => Some(backend),
            Self::Backend(_) | Self::Script(_) => None,
        }
    }

    /// It does not run while what it wrote waits for the client, and lets others go first.
    pub(crate) fn pause(&mut self) {
        match self {
            Self::Script(script) => script.place = None,
            Self::Backend(_) => {}
        }
    }

    /// Ready, once, when its time is over while nobody takes what it wrote; from then on it is broken.
    pub(crate) fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Script(_) => Poll::Pending,
            Self::Backend(backend) => backend.poll_overdue(context),
        }
    }

    /// Lets it go on until it has written something, or its slice is over.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ContentStep> {
        match self {
            Self::Script(script) => script.poll(context),
            Self::Backend(backend) => backend.poll(context),
        }
    }

    /// Tells it that nobody takes any more: a script runs up to its next wait, a request to a backend is
    /// cancelled.
    pub(crate) async fn abandon(self) {
        match self {
            Self::Script(script) => script.abandon().await,
            Self::Backend(_) => {}
        }
    }
}

impl ScriptContent {
    /// None: the call streams nothing.
    pub(super) fn new(
        call: Call,
        endpoint: &Rc<Endpoint>,
        request: &Rc<Request>,
        permit: Option<RequestPermit>,
    ) -> Option<Self> {
        let pipe = call.pipe()?.clone();
        let (endpoint, request) = (endpoint.clone(), request.clone());
        Some(Self { call, pipe, endpoint, request, place: None, _permit: permit })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<ContentStep> {
        if self.call.poll_wait(context).is_pending() || !self.may_run(context) {
            return self.poll_written();
        }
        match self.step() {
            Step::Waiting if self.call.poll_wait(context).is_pending() => self.poll_written(),
            Step::Waiting | Step::Sliced => Poll::Ready(ContentStep::Sliced),
            Step::Ended(Ok(())) => Poll::Ready(ContentStep::Ended),
            Step::Ended(Err(error)) => {
                self.log(&error);
                Poll::Ready(ContentStep::Broken)
            }
            Step::Streams(_) | Step::Done(_) | Step::Passed(_) => Poll::Ready(ContentStep::Broken),
        }
    }

    /// Whether it runs now: it does unless it ran a slice, and others are before it, or have their turn.
    fn may_run(&mut self, context: &mut Context<'_>) -> bool {
        if !self.call.is_sliced() {
            return true;
        }
        let (_, place) = self.place.get_or_insert_with(|| {
            let waiting_script = self.endpoint.route_cost().begin_waiting();
            let place = waiting_script.enter();
            (waiting_script, place)
        });
        let may_run = place.may_run();
        if !place.is_first() {
            place.watch(context.waker());
        } else if !may_run {
            place.give_turn();
            give_turn(context);
        }
        may_run
    }

    fn log(&self, error: &CallError) {
        self.endpoint.note_failure(error, &self.request, "script failed after its reply began");
    }

    fn poll_written(&self) -> Poll<ContentStep> {
        if self.pipe.bytes_len() > 0 { Poll::Ready(ContentStep::Written) } else { Poll::Pending }
    }

    async fn abandon(mut self) {
        self.pipe.close();
        while poll_fn(|context| self.poll_run_on(context)).await {
            tokio::task::yield_now().await;
        }
    }

    /// Runs it for a slice when it is its turn. False: it is over, or would wait.
    fn poll_run_on(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if self.call.poll_wait(context).is_pending() {
            return Poll::Ready(false);
        }
        if !self.may_run(context) {
            return Poll::Pending;
        }
        Poll::Ready(match self.step() {
            Step::Sliced => true,
            Step::Ended(Err(error)) => {
                self.log(&error);
                false
            }
            Step::Waiting | Step::Ended(Ok(())) | Step::Streams(_) | Step::Done(_) | Step::Passed(_) => false,
        })
    }

    /// Runs it for a slice, which it spends of its place in the script queue.
    fn step(&mut self) -> Step {
        let route_cost = self.endpoint.route_cost();
        let begun = route_cost.begin();
        let step = self.call.resume();
        route_cost.end(begun, matches!(step, Step::Sliced));
        match &mut self.place {
            Some((_, place)) if self.call.is_sliced() => place.spend(),
            place => *place = None,
        }
        step
    }
}
