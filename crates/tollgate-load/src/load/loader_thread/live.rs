//! The live log: reads its watermark, confirms loaded positions to it, and releases waiting replies.

use std::time::{Duration, Instant};

use tollgate_log::{LogId, Position, Sequence, SinkBreaker, Watermark};

use super::super::control::{LoaderControl, Order};
use super::super::follow::is_log_of_position;
use super::super::settle::{Brought, settle};
use super::{LoaderThread, ORDER_LATENCY};
use crate::error::SinkError;
use crate::live::LiveLog;

impl LoaderThread {
    /// Reads the watermark of the live log. If the id of the live log changed, another process run writes
    /// logs and has no confirmations yet. All logs are then visited again.
    pub(super) fn look_at_live(&mut self) {
        let watermark = self.live.as_ref().and_then(|live| live.watermark());
        let log = |watermark: Option<Watermark>| watermark.map(|watermark| watermark.log);
        if log(watermark) != log(self.watermark) {
            self.restart_logs();
        }
        self.watermark = watermark;
    }

    pub(super) fn is_live(&self, log: LogId) -> bool {
        self.watermark.is_some_and(|watermark| watermark.log == log)
    }

    /// Returns whether this loader loads a log. A loader of another process may load it during an upgrade.
    pub(super) fn is_ours(&self, log: LogId) -> bool {
        self.live.as_ref().is_none_or(|live| live.is_ours(log))
    }

    /// Waits until the watermark moves or the next search for logs is due. After a move, lets records gather,
    /// unless replies wait for them.
    pub(super) fn wait_for_more(&mut self) {
        let until = Instant::now() + self.options.tuning.poll;
        match (&self.live, self.watermark) {
            (Some(live), Some(seen)) => {
                while self.control.order() == Order::Follow && Instant::now() < until {
                    self.control.note_progress();
                    let is_beyond = |now: Watermark| now.log != seen.log || now.synced > seen.synced;
                    if live.wait_beyond(seen.synced, ORDER_LATENCY).is_none_or(is_beyond) {
                        self.control.update(|status| status.backlog.saw_more());
                        gather(&**live, &self.control, self.options.tuning.gather);
                        return;
                    }
                }
            }
            _ => self.control.rest(Order::Follow, self.options.tuning.poll),
        }
    }

    /// Returns whether replies wait for records that the loader can load now.
    pub(super) fn is_awaited(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_awaited())
    }

    pub(super) fn set_breaker(&self, breaker: SinkBreaker) {
        if let Some(live) = &self.live {
            live.set_breaker(breaker);
        }
    }

    /// Confirms a position that was found in the sink, if it belongs to this log.
    pub(super) fn confirm_found(&mut self, log: LogId, position: Option<Position>) -> Result<(), SinkError> {
        let is_of_log =
            |position: &Position| is_log_of_position(&self.storage, &self.options.dir, log, *position);
        let of_log = position.filter(|position| is_of_log(position).unwrap_or(false));
        let last = of_log.map_or(Sequence(0), |position| position.last);
        self.confirm(log, last);
        // The loader loads no record before the position, also if the position belongs to another log.
        if let Some(position) = position {
            self.control.state().unloaded.passed(log, position.last);
        }
        self.settle(log, last, Brought::Anything)
    }

    /// Confirms the records that the sink durably has, so that their segments may be deleted.
    pub(super) fn confirm(&mut self, log: LogId, last: Sequence) {
        self.pending.passed(log, last);
        self.control.state().unloaded.passed(log, last);
        if let Some(live) = &self.live {
            live.confirm(log, last);
        }
    }

    /// Releases the replies that wait for records up to `last`, with the result of each record.
    pub(super) fn settle(&mut self, log: LogId, last: Sequence, brought: Brought) -> Result<(), SinkError> {
        match (&self.live, &mut self.sink) {
            (Some(live), Some(sink)) => settle(&**live, &mut **sink, log, last, brought),
            _ => Ok(()),
        }
    }
}

/// Lets records gather for `time`, or until replies wait for records.
fn gather(live: &dyn LiveLog, control: &LoaderControl, time: Duration) {
    let end = Instant::now() + time;
    while control.order() == Order::Follow && !live.is_awaited() {
        control.note_progress();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        live.wait_awaited(left.min(ORDER_LATENCY));
    }
}
