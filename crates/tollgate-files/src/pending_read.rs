//! A request for a file that waits for a thread, and the results of threads for it.

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

/// The result of the work of a thread.
pub(crate) enum ReadOutcome {
    /// This representation was digested.
    Digested(Rc<Representation>),
    /// The work failed. The request may wait for a thread again.
    Failed,
    /// These paths were opened.
    Opened(Vec<Brought>),
    /// The reply is complete.
    Reply(Box<FileReply>),
    /// A folder was read, or could not be read.
    Listed(Result<Rendered, OpenError>),
}

/// Maximum number of waits of one request. A request waits again if its result has left the cache, or belongs
/// to an older version of the file.
const WAITS_MAX: usize = 16;
const FAILURES_MAX: usize = 3;

/// A request for a file that waits for a thread, and the results of threads for it so far.
#[derive(Default)]
pub struct PendingRead {
    work: Job,
    waits: usize,
    /// Number of waits that ended without a result.
    failures: usize,
    pub(crate) brought: Vec<Brought>,
    digested: Option<Rc<Representation>>,
}

/// State of the work that a thread does for the request.
#[derive(Default)]
enum Job {
    #[default]
    None,
    /// No thread was started yet.
    Due(ReadWait),
    UnderWay(ReadWait),
}

impl PendingRead {
    /// Returns whether the request needs a thread that was not started yet. The next poll with a context
    /// starts the thread.
    pub fn is_due(&self) -> bool {
        matches!(self.work, Job::Due(_))
    }

    /// Returns whether a thread was started and has not finished.
    pub fn is_under_way(&self) -> bool {
        matches!(self.work, Job::UnderWay(_))
    }

    /// Returns the representation that was digested for this request.
    ///
    /// The reply uses this representation even if another file is at the path by now. Without this rule, a
    /// file that is replaced repeatedly would never have a tag.
    pub(crate) fn digested(&self) -> Option<&Rc<Representation>> {
        self.digested.as_ref()
    }

    pub(crate) fn begin(&mut self, wait: ReadWait) {
        self.waits += 1;
        self.work = Job::Due(wait);
    }

    /// Waits for the work that was begun, and returns its result if that settles the request.
    ///
    /// `None` means that the request is not settled, and has no work to wait for.
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
                // The file may have changed since the thread opened it.
                self.brought.clear();
                self.digested = None;
                Poll::Ready(None)
            }
            ReadOutcome::Reply(_) | ReadOutcome::Listed(_) => Poll::Ready(Some(news)),
        }
    }
}

/// Returns whether a request may still wait for a thread. The number of waits and the number of failures are
/// limited.
pub(crate) fn may_wait(pending_read: Option<&PendingRead>) -> bool {
    pending_read
        .is_none_or(|pending_read| pending_read.waits < WAITS_MAX && pending_read.failures < FAILURES_MAX)
}

impl<'a> LookupContext<'a> {
    /// Returns the context of a lookup, with the results of threads so far.
    pub(crate) fn of(request: &FileRequest<'_>, pending_read: Option<&'a PendingRead>) -> Self {
        let brought = pending_read.map_or(&[][..], |pending_read| pending_read.brought.as_slice());
        Self { at: request.begun, wall_us: request.time_us, brought, is_patient: may_wait(pending_read) }
    }
}
