//! The schemas of a route in one worker.

use std::time::Instant;

use tollgate_meter::FewPerPeriod;
use tollgate_validate::{DocumentFault, FaultKind, Schema, limits};

use crate::observe::{Judged, MessageSide, RouteCells};
use crate::options::{SchemaSpec, ValidateMode, ValidateSpec};

/// The schemas of a route in one worker. The documents of the worker share the automaton of each schema.
pub(crate) struct Validation {
    pub(crate) request: Option<Schema>,
    pub(crate) reply: Option<Schema>,
    pub(crate) mode: ValidateMode,
    /// Limits the number of faults that are logged.
    lines: FewPerPeriod,
}

impl Validation {
    pub(crate) fn new(spec: &ValidateSpec) -> Self {
        let schema = |spec: &Option<SchemaSpec>| spec.as_ref().map(|spec| spec.compiled.for_thread(limits()));
        Self {
            request: schema(&spec.request),
            reply: schema(&spec.reply),
            mode: spec.mode,
            lines: FewPerPeriod::failures(),
        }
    }

    /// Returns whether a request that is not valid is refused.
    pub(crate) fn refuses_requests(&self) -> bool {
        self.request.is_some() && self.refuses()
    }

    /// Returns whether a reply that is not valid is refused.
    pub(crate) fn refuses_replies(&self) -> bool {
        self.reply.is_some() && self.refuses()
    }

    /// Returns whether the handler gets a request only when all of it is valid.
    pub(crate) fn needs_whole_requests(&self) -> bool {
        self.request.is_some() && self.mode == ValidateMode::Whole
    }

    /// Returns whether a message that is not valid is refused.
    pub(crate) fn refuses(&self) -> bool {
        self.mode != ValidateMode::Report
    }

    /// Counts a message with a fault, and logs it.
    #[cold]
    pub(super) fn note_fault(&self, cells: &RouteCells, side: MessageSide, fault: &DocumentFault) {
        let judged = match fault.kind {
            FaultKind::Malformed => Judged::Malformed,
            FaultKind::Invalid => Judged::Invalid,
            FaultKind::Limit => Judged::Limit,
        };
        cells.count_judged(side, judged);
        self.log(cells, side, &fault.to_string());
    }

    /// Counts a message that cannot be read as a document, and logs it.
    #[cold]
    pub(super) fn note_unread(&self, cells: &RouteCells, side: MessageSide, reason: &str) {
        cells.count_judged(side, Judged::Unread);
        self.log(cells, side, reason);
    }

    /// A request with a fault is the fault of its client, who gets the reason. So only `report` logs it.
    fn log(&self, cells: &RouteCells, side: MessageSide, reason: &str) {
        let route = &cells.name.path;
        if side == MessageSide::Request && self.refuses() {
            tracing::debug!(route, "the request is not valid: {reason}");
        } else if let Some(left_out) = self.lines.note(Instant::now()) {
            let (side, mode) = (side.name(), self.mode.name());
            tracing::warn!(route, mode, left_out, "the {side} is not valid: {reason}");
        }
    }
}
