//! Communication of machines through the store: positions of sinks, requests for lost segments, ends of logs,
//! and reports of machines (heartbeats).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_log::{LogId, SegmentName, SegmentState, Sequence, Storage, read_footer};

use crate::answer::{EndAnswer, NodeAnswer, PositionAnswer, TEXT_BYTES_MAX, WantAnswer, now_ms};
use crate::identity::SegmentIdentity;
use crate::logs::ShippedLogs;
use crate::name::ObjectName;
use crate::options::{DeleteRule, ShipOptions, ShipTuning};
use crate::progress::Progress;
use crate::status::ShipWatch;
use crate::store::{Store, StoreError};

/// The positions of loaders that were read last from the store, and the times of the last read and report.
pub(super) struct Answers {
    tuning: ShipTuning,
    /// Last record of each log that every sink of the delete rule has loaded.
    loaded: BTreeMap<LogId, Sequence>,
    polled_at: Option<Instant>,
    reported_at: Option<Instant>,
    /// The log that the last heartbeat of this process names.
    reported_log: Option<LogId>,
}

impl Answers {
    pub(super) fn new(tuning: ShipTuning) -> Self {
        Self { tuning, loaded: BTreeMap::new(), polled_at: None, reported_at: None, reported_log: None }
    }

    /// Returns the last record up to which a log may be deleted on this machine.
    pub(super) fn deletable(
        &self,
        rule: &DeleteRule,
        log: LogId,
        shipped: Sequence,
        is_room_tight: bool,
    ) -> Sequence {
        match rule {
            DeleteRule::Shipped => shipped,
            DeleteRule::Loaded { .. } if is_room_tight => shipped,
            DeleteRule::Loaded { .. } => shipped.min(self.loaded.get(&log).copied().unwrap_or_default()),
        }
    }

    /// Returns whether every sink of the delete rule has loaded the log up to `last`.
    pub(super) fn is_loaded(&self, log: LogId, last: Sequence) -> bool {
        self.loaded.get(&log).is_some_and(|loaded| *loaded >= last)
    }

    fn is_due(at: Option<Instant>, every: Duration) -> bool {
        at.is_none_or(|at| at.elapsed() >= every)
    }

    /// Reads the positions and requests of loaders if `poll` has passed. Writes the report of this machine if
    /// `heartbeat` has passed.
    pub(super) fn exchange(&mut self, with: &mut Exchange<'_>) -> Result<(), StoreError> {
        if Self::is_due(self.polled_at, self.tuning.poll) {
            let logs: Vec<_> = with.progress.logs.keys().copied().collect();
            self.loaded.retain(|log, _| logs.contains(log));
            for log in logs {
                if let Some(loaded) = with.read_positions(log)? {
                    self.loaded.insert(log, loaded);
                }
                with.answer_wants(log)?;
            }
            self.polled_at = Some(Instant::now());
            with.watch.lock().loaded.clone_from(&self.loaded);
        }
        if Self::is_due(self.reported_at, self.tuning.heartbeat) {
            with.report(self.reported_log, self.tuning.heartbeat)?;
            (self.reported_at, self.reported_log) = (Some(Instant::now()), with.logs.live());
        }
        Ok(())
    }
}

/// References to the state of the thread `ship` that an exchange with loaders needs.
pub(super) struct Exchange<'a> {
    pub(super) options: &'a ShipOptions,
    pub(super) storage: &'a dyn Storage,
    pub(super) store: &'a dyn Store,
    pub(super) logs: &'a dyn ShippedLogs,
    pub(super) progress: &'a mut Progress,
    pub(super) watch: &'a ShipWatch,
}

impl Exchange<'_> {
    /// Returns the last record that every sink of the delete rule has loaded. `None`: the rule has no sinks.
    fn read_positions(&self, log: LogId) -> Result<Option<Sequence>, StoreError> {
        let DeleteRule::Loaded { sinks } = &self.options.delete else { return Ok(None) };
        let mut loaded: Option<Sequence> = None;
        for sink in sinks {
            let name = ObjectName::Position { sink: sink.clone(), log }.to_string();
            let text = self.store.text(&name, TEXT_BYTES_MAX)?;
            let answer = text.as_deref().and_then(PositionAnswer::parse);
            let last = answer.map_or(Sequence::default(), |answer| answer.position.last);
            loaded = Some(loaded.map_or(last, |loaded| loaded.min(last)));
        }
        Ok(loaded)
    }

    /// Sends the segments of a log that loaders ask for to the store again.
    fn answer_wants(&self, log: LogId) -> Result<(), StoreError> {
        for wanted in self.store.list(&ObjectName::wanted_of(log), None)? {
            let Some(ObjectName::Want { first, .. }) = ObjectName::parse(&wanted) else { continue };
            let text = self.store.text(&wanted, TEXT_BYTES_MAX)?;
            if text.as_deref().and_then(WantAnswer::parse) != Some(WantAnswer::Wanted) {
                continue;
            }
            if self.store_again(log, first)? {
                self.store.remove(&wanted)?;
                self.watch.lock().wanted_segments += 1;
            } else {
                self.store.put_text(&wanted, WantAnswer::Gone.to_text())?;
                self.watch.lock().gone_segments += 1;
                let ship = &self.options.name;
                tracing::warn!(ship, %log, %first, "a loader asks for a segment that is deleted here");
            }
        }
        Ok(())
    }

    /// Sends a segment to the store again, and replaces its object. Returns false if this machine does not
    /// have the segment any more.
    fn store_again(&self, log: LogId, first: Sequence) -> Result<bool, StoreError> {
        let has = self.progress.logs.get(&log).is_some_and(|progress| progress.segment(first).is_some());
        let path =
            SegmentName { first, state: SegmentState::Sealed }.path(&self.options.dir.join(log.to_string()));
        let footer = if has { read_footer(self.storage, &path).ok().flatten() } else { None };
        let Some(footer) = footer else { return Ok(false) };
        let node = self.options.node.clone();
        let name = ObjectName::Segment { node, log, first }.to_string();
        self.store.replace(&name, &path, &SegmentIdentity::of(&footer))?;
        Ok(true)
    }

    /// Writes the end of a log that has ended to the store, once. `live` is the log that is being written.
    pub(super) fn note_end(&mut self, log: LogId, live: Option<LogId>) -> Result<(), StoreError> {
        if live == Some(log) {
            return Ok(());
        }
        let Some(progress) = self.progress.logs.get_mut(&log).filter(|progress| !progress.is_end_noted)
        else {
            return Ok(());
        };
        if let Some(last) = progress.end() {
            let answer = EndAnswer { node: self.options.node.clone(), last };
            self.store.put_text(&ObjectName::End(log).to_string(), &answer.to_text())?;
            progress.is_end_noted = true;
        }
        Ok(())
    }

    /// Writes the report of this machine to the store. Checks whether another machine with the same name has
    /// written a report.
    ///
    /// `reported`: the log of the last report of this process.
    fn report(&self, reported: Option<LogId>, every: Duration) -> Result<(), StoreError> {
        let name = ObjectName::Node(self.options.node.clone()).to_string();
        let text = self.store.text(&name, TEXT_BYTES_MAX)?;
        let found = text.as_deref().and_then(NodeAnswer::parse).and_then(|answer| answer.log);
        let live = self.logs.live();
        // The last report of this process names the log of this process. If the report in the store names
        // another log, another machine wrote it later.
        let namesake = found.filter(|found| reported.is_some() && Some(*found) != live);
        if let Some(log) = namesake {
            let (ship, node) = (&self.options.name, &self.options.node);
            tracing::error!(ship, %node, %log, "another machine has the name of this one in [log]");
        }
        let (unshipped_segments, unshipped_bytes) = self.progress.unshipped();
        let answer = NodeAnswer {
            log: live,
            shipped: live.and_then(|live| self.progress.logs.get(&live)?.shipped()),
            at_ms: now_ms(),
            every_ms: u64::try_from(every.as_millis()).unwrap_or(u64::MAX),
            unshipped_segments,
            unshipped_bytes,
        };
        self.store.put_text(&name, &answer.to_text())?;
        self.watch.lock().namesake = namesake;
        Ok(())
    }
}
