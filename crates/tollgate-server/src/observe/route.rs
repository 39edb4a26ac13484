//! The counters of one route in one worker.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate_http::StatusCode;
use tollgate_meter::{Counter, Histogram, Observed};
use tollgate_script::CallError;

use super::refusal::Refusal;
use super::request_fault::RequestFault;
use super::validated::{Judged, JudgedCount, MessageSide};
use crate::options::{AccessRedaction, RouteSpec};

/// The name of a route. All parts of a name are configured, so the number of names is bounded by the number
/// of routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteName {
    /// The pattern of its path.
    pub path: String,
    /// The host of the route, if the route names a host.
    pub host: Option<String>,
    /// The methods of the route, separated by commas, if the route names methods.
    pub methods: Option<String>,
}

impl RouteName {
    pub(crate) fn of(spec: &RouteSpec) -> Self {
        let methods = spec.methods.map(|methods| methods.to_string().replace(", ", ","));
        Self { path: spec.path.clone(), host: spec.host.clone(), methods }
    }
}

/// Classes of statuses: 1xx to 5xx.
pub(crate) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Reason why a script call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptFailure {
    Error,
    CpuBudget,
    WallBudget,
    Memory,
    Replaced,
    Reply,
}

impl ScriptFailure {
    pub(crate) const ALL: [(Self, &str); 6] = [
        (Self::Error, "error"),
        (Self::CpuBudget, "cpu_budget"),
        (Self::WallBudget, "wall_budget"),
        (Self::Memory, "memory"),
        (Self::Replaced, "replaced"),
        (Self::Reply, "reply"),
    ];
}

impl From<&CallError> for ScriptFailure {
    fn from(error: &CallError) -> Self {
        match error {
            // A refusal counts as a failure only if the head of the reply was already sent.
            CallError::Script { .. } | CallError::Refused { .. } => Self::Error,
            CallError::CpuBudget { .. } => Self::CpuBudget,
            CallError::WallBudget { .. } => Self::WallBudget,
            CallError::Memory { .. } => Self::Memory,
            CallError::Replaced => Self::Replaced,
            CallError::Reply(_) => Self::Reply,
        }
    }
}

/// The counters of one route in one worker.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct RouteCells {
    pub(crate) name: RouteName,
    replies: [Counter; CLASSES.len()],
    took: Histogram,
    script_failures: [Counter; ScriptFailure::ALL.len()],
    refusals: [Counter; Refusal::ALL.len()],
    request_faults: [Counter; RequestFault::ALL.len()],
    judged: [[Counter; Judged::ALL.len()]; MessageSide::ALL.len()],
}

impl RouteCells {
    pub(crate) fn new(name: RouteName) -> Self {
        let (replies, took, script_failures, refusals, request_faults, judged) = Default::default();
        Self { name, replies, took, script_failures, refusals, request_faults, judged }
    }

    #[cfg(test)]
    pub(crate) fn observed(&self) -> Observed {
        self.took.read()
    }

    pub(crate) fn count_failure(&self, failure: ScriptFailure) {
        self.script_failures[failure as usize].add(1);
    }

    /// Counts a refused request of this route.
    pub(crate) fn count_refusal(&self, refusal: Refusal) {
        self.refusals[refusal as usize].add(1);
    }

    /// Counts a request of this route that was refused for what it asks or contains.
    pub(crate) fn count_fault(&self, fault: RequestFault) {
        self.request_faults[fault as usize].add(1);
    }

    /// Counts a message that the route has validated.
    pub(crate) fn count_judged(&self, side: MessageSide, judged: Judged) {
        self.judged[side as usize][judged as usize].add(1);
    }

    /// Lists the counters of refused requests, in the order of [`refusal_names`].
    fn all_refusals(&self) -> impl Iterator<Item = &Counter> {
        self.refusals.iter().chain(&self.request_faults)
    }
}

/// Counts replies without a route, by class.
#[derive(Debug, Default)]
pub(crate) struct Unrouted(pub(crate) [Counter; CLASSES.len()]);

/// The cells of a route in its worker. Requests share these cells by `Rc`, so that threads share no reference
/// count.
#[derive(Debug)]
pub(crate) struct OwnCells {
    cells: Arc<RouteCells>,
    /// The parts of requests that the access log hides. `None`: there is no access log.
    hides: Option<Box<AccessRedaction>>,
}

impl OwnCells {
    pub(crate) fn new(cells: Arc<RouteCells>, hides: Option<AccessRedaction>) -> Rc<Self> {
        Rc::new(Self { cells, hides: hides.map(Box::new) })
    }

    /// Returns the parts of requests that the access log hides.
    pub(crate) fn hides(&self) -> Option<&AccessRedaction> {
        self.hides.as_deref()
    }
}

impl Deref for OwnCells {
    type Target = RouteCells;

    fn deref(&self) -> &RouteCells {
        &self.cells
    }
}

/// Facts about a reply, which are counted when it may be sent.
#[derive(Debug)]
pub(crate) struct RouteTally {
    pub(crate) status: StatusCode,
    /// Time when the head of the request was complete.
    pub(crate) begun: Instant,
    /// Cells of the route. `None` if the server answered without a route.
    pub(crate) route: Option<Rc<OwnCells>>,
}

impl RouteTally {
    /// Returns whether a reply with these facts is counted in the same way as this one.
    #[inline]
    pub(crate) fn is_as(&self, status: StatusCode, begun: Instant, route: &Rc<OwnCells>) -> bool {
        let is_same_route = self.route.as_ref().is_some_and(|own| Rc::ptr_eq(own, route));
        is_same_route && self.status == status && self.begun == begun
    }
}

/// Counts replies that are sent together.
pub(crate) struct Leaving<'a> {
    unrouted: &'a Unrouted,
    now: Instant,
    /// The start time of the last reply, with the bucket and the nanoseconds of its duration. The next reply
    /// usually has the same start time.
    last: (Instant, usize, u64),
}

impl<'a> Leaving<'a> {
    pub(crate) fn new(unrouted: &'a Unrouted) -> Self {
        let now = Instant::now();
        Self { unrouted, now, last: (now, 0, 0) }
    }

    #[inline]
    pub(crate) fn count(&mut self, tally: &RouteTally, replies: u64) {
        let class = class_of(tally.status);
        let Some(route) = &tally.route else { return self.unrouted.0[class].add(replies) };
        if tally.begun != self.last.0 {
            let took = self.now.saturating_duration_since(tally.begun);
            let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.last = (tally.begun, Histogram::bucket(nanoseconds), nanoseconds);
        }
        route.replies[class].add(replies);
        route.took.observe_in(self.last.1, self.last.2, replies);
    }
}

/// Lists the reasons for refused requests of a route.
fn refusal_names() -> impl Iterator<Item = &'static str> {
    Refusal::ALL.into_iter().map(Refusal::name).chain(RequestFault::ALL.into_iter().map(RequestFault::name))
}

fn class_of(status: StatusCode) -> usize {
    usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1
}

/// The counters of a route, over all workers.
#[derive(Debug, Clone)]
pub struct RouteStatus {
    /// Name of the route.
    pub name: RouteName,
    /// Replies by the class of their status: 1xx to 5xx.
    pub replies: [u64; CLASSES.len()],
    /// Time from the complete head of the request until its reply may be sent.
    pub took: Observed,
    /// Failed calls of the scripts of the route, by reason.
    pub script_failures: Vec<(&'static str, u64)>,
    /// Requests that were refused after their head was complete, by reason. The handler did not run for these
    /// requests.
    pub refusals: Vec<(&'static str, u64)>,
    /// Messages that were validated, by side and verdict.
    pub judged: Vec<JudgedCount>,
}

impl RouteStatus {
    /// Returns the number of requests that were refused before the handler.
    pub fn refused(&self) -> u64 {
        self.refusals.iter().map(|(_, count)| count).sum()
    }

    /// Returns whether the route has validated messages.
    pub fn has_validated(&self) -> bool {
        self.judged.iter().any(|judged| judged.count > 0)
    }

    /// Returns the number of messages on one side that were validated and are not valid.
    pub fn invalid(&self, side: &str) -> u64 {
        let counts = self.judged.iter().filter(|judged| judged.side == side && judged.result != "valid");
        counts.map(|judged| judged.count).sum()
    }

    /// Returns the number of requests with a 5xx reply, and of requests that were refused before the handler.
    pub fn failures(&self) -> u64 {
        self.replies[4].saturating_add(self.refused())
    }

    pub(crate) fn of(cells: &RouteCells) -> Self {
        let mut status = Self {
            name: cells.name.clone(),
            replies: [0; CLASSES.len()],
            took: Observed::default(),
            script_failures: ScriptFailure::ALL.iter().map(|(_, name)| (*name, 0)).collect(),
            refusals: refusal_names().map(|name| (name, 0)).collect(),
            judged: JudgedCount::none(),
        };
        status.add(cells);
        status
    }

    pub(crate) fn add(&mut self, cells: &RouteCells) {
        for (all, more) in self.replies.iter_mut().zip(&cells.replies) {
            *all += more.get();
        }
        self.took.add(&cells.took.read());
        for ((_, all), more) in self.script_failures.iter_mut().zip(&cells.script_failures) {
            *all += more.get();
        }
        for ((_, all), more) in self.refusals.iter_mut().zip(cells.all_refusals()) {
            *all += more.get();
        }
        for (all, more) in self.judged.iter_mut().zip(cells.judged.iter().flatten()) {
            all.count += more.get();
        }
    }
}
