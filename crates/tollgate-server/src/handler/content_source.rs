//! The source of streamed content: a script call or a backend. The source continues after the head was sent.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tollgate_script::{Call, CallError, Pipe, Request, Step};

use super::content_step::ContentStep;
use super::endpoint::Endpoint;
use super::judged_pieces::JudgedPieces;
use super::proxy::BackendContent;
use crate::overload::{QueuePlace, RequestPermit, WaitingScript};
use crate::task_turn::give_turn;

/// The source of the content of a streamed reply: a script or a backend.
pub(crate) enum ContentSource {
    Script(Box<ScriptContent>),
    Backend(Box<BackendContent>),
    /// Content that goes on while it is valid.
    Judged(Box<ContentSource>, Box<JudgedPieces>),
}

/// Content that a script call writes.
pub(crate) struct ScriptContent {
    call: Call,
    pipe: Rc<Pipe>,
    endpoint: Rc<Endpoint>,
    request: Rc<Request>,
    /// The place of the call in the script queue, while the call waits there after a slice.
    place: Option<(WaitingScript, QueuePlace)>,
    /// Permit that counts the request until its content is written.
    _permit: Option<RequestPermit>,
}

impl ContentSource {
    /// Returns whether the content was cut off, because it is not valid.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Judged(_, pieces) if pieces.is_refused())
    }

    /// Returns the maximum pause of the content before the client gets a heartbeat. `None` means that no
    /// heartbeat is sent.
    pub(crate) fn heartbeat(&self) -> Option<Duration> {
        match self {
            Self::Script(script) => script.call.heartbeat(),
            Self::Backend(_) => None,
            Self::Judged(source, _) => source.heartbeat(),
        }
    }

    /// Removes and returns the bytes that were written so far.
    pub(crate) fn take(&mut self) -> Bytes {
        match self {
            Self::Script(script) => script.pipe.take().into(),
            Self::Backend(backend) => backend.take(),
            Self::Judged(_, pieces) => pieces.take(),
        }
    }

    /// Returns the lines of trailer fields after the content.
    pub(crate) fn trailers(&self) -> Vec<u8> {
        match self {
            Self::Script(_) => Vec::new(),
            Self::Backend(backend) => backend.trailers(),
            Self::Judged(source, _) => source.trailers(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Script(script) => script.call.memory_bytes(),
            Self::Backend(backend) => backend.memory_bytes(),
            Self::Judged(source, pieces) => source.memory_bytes() + pieces.memory_bytes(),
        }
    }

    /// Returns the content of a backend, if its bytes can be passed on unchanged.
    pub(crate) fn plain(&mut self) -> Option<&mut BackendContent> {
        match self {
            Self::Backend(backend) if backend.is_plain() => Some(backend),
            Self::Backend(_) | Self::Script(_) | Self::Judged(..) => None,
        }
    }

    /// Gives up the place in the script queue, because a script does not run while its bytes wait for the
    /// client.
    pub(crate) fn pause(&mut self) {
        match self {
            Self::Script(script) => script.place = None,
            Self::Backend(_) => {}
            Self::Judged(source, _) => source.pause(),
        }
    }

    /// Returns ready once if the time limit passes while the client takes no bytes. In that case the content
    /// is broken.
    pub(crate) fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Script(_) => Poll::Pending,
            Self::Backend(backend) => backend.poll_overdue(context),
            Self::Judged(source, _) => source.poll_overdue(context),
        }
    }

    /// Runs the source until it has written bytes, or until its slice ends.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ContentStep> {
        match self {
            Self::Script(script) => script.poll(context),
            Self::Backend(backend) => backend.poll(context),
            Self::Judged(source, pieces) => {
                pieces.poll(|| source.poll(context).map(|step| (step, source.take())))
            }
        }
    }

    /// Stops the source, because the content is no longer sent. A script runs up to its next wait, and a
    /// backend request is cancelled.
    pub(crate) async fn abandon(self) {
        match self {
            Self::Script(script) => script.abandon().await,
            Self::Backend(_) => {}
            Self::Judged(source, _) => Box::pin(source.abandon()).await,
        }
    }
}

impl ScriptContent {
    /// Returns `None` if the call streams nothing.
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

    /// Returns whether the script runs now. A script that has used its slice waits for its place in the
    /// script queue.
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

    /// Runs the script for a slice when it has its turn. Returns false if the script ended or would wait.
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

    /// Runs the script for a slice, and uses up the turn of its place in the script queue.
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
