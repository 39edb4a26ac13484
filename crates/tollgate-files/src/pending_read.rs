//! A request for a file that waits for a thread, and what threads found for it.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::listing::Rendered;
use crate::lookup_context::LookupContext;
use crate::opened::{Brought, OpenError};
use crate::reply::FileReply;
use crate::representation::Representation;
use crate::request::FileRequest;

/// The work of a thread that a request waits for.
pub(crate) type ReadWait = Pin<Box<dyn Future<Output = ReadOutcome>>>;

/// The result of that work.
pub(crate) enum ReadOutcome {
    /// This representation was digested.
    Digested(Rc<Representation>),
    /// The work gave no result this time.
    Failed,
    /// These paths were opened.
    Opened(Vec<Brought>),
    /// The reply has all that was missing.
    Reply(Box<FileReply>),
    /// A folder was read, or could not be read.
    Listed(Result<Rendered, OpenError>),
}

/// How often one request waits. A result may be forgotten before the request gets it, or be of an older
/// version of the file.
const WAITS_MAX: usize = 16;
const FAILURES_MAX: usize = 3;

/// A request for a file that waits for a thread, and what threads found for it so far.
#[derive(Default)]
pub struct PendingRead {
    work: Job,
    waits: usize,
    /// How often a wait gave no result.
    failures: usize,
    pub(crate) brought: Vec<Brought>,
    digested: Option<Rc<Representation>>,
}

/// The work of a thread for it.
#[derive(Default)]
enum Job {
    #[default]
    None,
    /// No thread was asked yet.
    Due(ReadWait),
    UnderWay(ReadWait),
}

impl PendingRead {
    /// Whether it needs a thread that was not asked yet. The next poll with a context asks.
    pub fn is_due(&self) -> bool {
        matches!(self.work, Job::Due(_))
    }

    /// Whether a thread was asked and has not answered.
    pub fn is_under_way(&self) -> bool {
        matches!(self.work, Job::UnderWay(_))
    }

    /// What was digested for this request. It is answered with that, although the path may lead to another
    /// file by now: else one that is replaced again and again would have no tag, ever.
    pub(crate) fn digested(&self) -> Option<&Rc<Representation>> {
        self.digested.as_ref()
    }

    pub(crate) fn begin(&mut self, wait: ReadWait) {
        self.waits += 1;
        self.work = Job::Due(wait);
    }

    /// Waits for what was begun, and returns what settles the request. None: nothing does yet, and there is
    /// nothing to wait for.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<ReadOutcome>> {
        let mut wait = match std::mem::take(&mut self.work) {
            Job::None => return Poll::Ready(None),
            Job::Due(wait) | Job::UnderWay(wait) => wait,
        };
        let Poll::Ready(news) = wait.as_mut().poll(context) else {
            self.work = Job::UnderWay(wait);
            return Poll::Pending;
        };
        match news {
            ReadOutcome::Digested(one) => {
                self.digested = Some(one);
                Poll::Ready(None)
            }
            ReadOutcome::Opened(brought) => {
                self.brought.extend(brought);
                Poll::Ready(None)
            }
            ReadOutcome::Failed => {
                self.failures += 1;
                // It may be another by now than what was brought.
                self.brought.clear();
                self.digested = None;
                Poll::Ready(None)
            }
            ReadOutcome::Reply(_) | ReadOutcome::Listed(_) => Poll::Ready(Some(news)),
        }
    }
}

/// Whether a request is to wait, or to wait once more.
pub(crate) fn may_wait(pending_read: Option<&PendingRead>) -> bool {
    pending_read
        .is_none_or(|pending_read| pending_read.waits < WAITS_MAX && pending_read.failures < FAILURES_MAX)
}

impl<'a> LookupContext<'a> {
    /// Returns how a request looks at files, with what threads found for it so far.
    pub(crate) fn of(request: &FileRequest<'_>, pending_read: Option<&'a PendingRead>) -> Self {
        let brought = pending_read.map_or(&[][..], |pending_read| pending_read.brought.as_slice());
        Self { at: request.begun, wall_us: request.time_us, brought, is_patient: may_wait(pending_read) }
    }
}
