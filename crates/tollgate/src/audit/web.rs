//! The account of a machine that wrote logs: its log folder, and the store.
//!
//! This machine cannot know what became of a record that a sink has passed. It knows only the position that
//! the loader wrote to the store. So it has one account for each sink that answered there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tollgate_load::{Place, RecordCounter};
use tollgate_log::{
    LogError, LogId, SegmentName, SegmentState, Sequence, join_chain, log_ids, read_footer, scan_segment,
    segments,
};
use tollgate_ship::{
    NodeName, ObjectName, SegmentIdentity, Sent, end_of, find_segment, positions_of, segments_of,
    shipped_logs,
};

use super::counts::Count;
use super::finding::{AuditFinding, AuditKind};
use super::line::AccountLine;
use super::report::SideAudit;
use super::stored::AuditedStore;
use super::walk::{Readable, View, Walk};

/// The accounts of all sinks, by the name of the sink. `None`: no sink has answered.
pub(super) type WebAudit = BTreeMap<Option<String>, SideAudit>;

/// RecordCounts the records of all logs of this machine.
///
/// # Errors
/// The store or the folder of logs cannot be read. The error of one log is a finding.
pub(super) fn audit(store: &AuditedStore<'_>, dir: &Path, node: &NodeName) -> anyhow::Result<WebAudit> {
    let mut logs: BTreeSet<_> = match log_ids(&*store.storage, dir) {
        Err(error) if error.is_not_found() => BTreeSet::new(),
        ids => ids?.into_iter().collect(),
    };
    let local = logs.clone();
    let shipped = shipped_logs(store.store)?;
    logs.extend(shipped.iter().filter(|(of, _)| of == node).map(|(_, log)| *log));
    let sinks = sinks(store)?;
    let mut audit: WebAudit = sinks.iter().map(|sink| (sink.clone(), SideAudit::default())).collect();
    for log in logs {
        let one = LogAudit { store, dir, node, log, sinks: &sinks };
        let mut accounts = one.read().or_else(|error| one.not_counted(error))?;
        if local.contains(&log)
            && let Some((other, _)) = shipped.iter().find(|(of, shipped)| *shipped == log && of != node)
        {
            let reason = "another machine has segments of this log too".to_owned();
            let (kind, node, log) = (AuditKind::Fork, Some(other.clone()), Some(log));
            let finding = AuditFinding { kind, node, log, first: None, last: None, reason };
            accounts.values_mut().for_each(|account| account.findings.push(finding.clone()));
        }
        for (sink, account) in accounts {
            audit.entry(sink).or_default().add(account);
        }
    }
    Ok(audit)
}

/// Returns the sinks that answered in the store. Without any answer, returns one account without a sink.
fn sinks(store: &AuditedStore<'_>) -> anyhow::Result<Vec<Option<String>>> {
    let sinks: Vec<_> = store.store.folders(&ObjectName::positions())?.into_iter().map(Some).collect();
    Ok(if sinks.is_empty() { vec![None] } else { sinks })
}

/// A segment of a log.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// This machine has the segment.
    Local { name: SegmentName, last: Sequence, place: Place },
    /// Only the store has the segment.
    Stored,
}

/// The audit of one log.
struct LogAudit<'a> {
    store: &'a AuditedStore<'a>,
    dir: &'a Path,
    node: &'a NodeName,
    log: LogId,
    sinks: &'a [Option<String>],
}

impl LogAudit<'_> {
    fn read(&self) -> anyhow::Result<WebAudit> {
        let AuditedStore { store, storage, .. } = self.store;
        // A segment leaves this machine only after the store has it. So this machine is read first.
        let mut forks = Vec::new();
        let known = self.known(&mut forks)?;
        let end = end_of(*store, self.log)?.map(|end| end.last);
        let positions = positions_of(*store, self.log)?;
        let position = |sink: &Option<String>| {
            let position = sink.as_ref().and_then(|sink| positions.get(sink));
            position.map_or(Sequence(0), |position| position.last)
        };
        let view = |sink: &Option<String>| {
            let last = position(sink);
            View::new(RecordCounter::up_to(storage.clone(), self.log, last), last)
        };
        let mut walk = Walk {
            store: *store,
            node: self.node,
            log: self.log,
            next: Sequence::FIRST,
            chain: None,
            is_broken: false,
            unread: None,
            views: self.sinks.iter().map(view).collect(),
            findings: forks,
        };
        let passed = walk.views.iter().map(|view| view.position).min().unwrap_or_default();
        let nexts: Vec<_> =
            known.keys().copied().skip(1).map(Some).chain([end.map(|end| end.after(1))]).collect();
        for ((first, segment), next) in known.into_iter().zip(nexts) {
            // A stored segment that each sink has passed is not read. Its streams stay unknown.
            let is_passed = next.is_some_and(|next| next.before() <= passed);
            if !(is_passed && matches!(segment, Known::Stored)) {
                self.visit(&mut walk, first, segment)?;
            }
        }
        walk.finish(end)?;
        let is_complete = end == Some(walk.next.before());
        Ok(self.close(walk, is_complete))
    }

    /// Returns the segments of the log, by their first records.
    fn known(&self, forks: &mut Vec<AuditFinding>) -> anyhow::Result<BTreeMap<Sequence, Known>> {
        let names = segments(&*self.store.storage, self.dir, self.log)?;
        let stored = segments_of(self.store.store, self.node, self.log, None)?;
        let mut known: BTreeMap<_, _> = stored.iter().map(|first| (*first, Known::Stored)).collect();
        for (at, (name, path)) in names.iter().enumerate() {
            let before_next = names.get(at + 1).map(|(next, _)| next.first.before());
            match self.local(*name, path, before_next, &stored) {
                Ok(Some((segment, fork))) => {
                    known.insert(name.first, segment);
                    forks.extend(fork);
                }
                Ok(None) => {}
                // The server deleted the segment after it was listed.
                Err(error) if error.downcast_ref::<LogError>().is_some_and(LogError::is_not_found) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    /// Returns a segment of this machine, and a finding if the store has another segment of its name. `None`:
    /// the segment has no records.
    fn local(
        &self,
        name: SegmentName,
        path: &Path,
        before_next: Option<Sequence>,
        stored: &[Sequence],
    ) -> anyhow::Result<Option<(Known, Option<AuditFinding>)>> {
        let storage = &*self.store.storage;
        let footer = match name.state {
            SegmentState::Sealed => read_footer(storage, path)?,
            SegmentState::Open | SegmentState::Damaged => None,
        };
        let Some(footer) = footer else {
            let last = match before_next {
                Some(last) => last,
                None => scan_segment(storage, path)?.last,
            };
            let segment = Known::Local { name, last, place: Place::Unshipped };
            return Ok((last >= name.first).then_some((segment, None)));
        };
        let (first, last) = (name.first, footer.last);
        let mut place = Place::Unshipped;
        let mut fork = None;
        if stored.binary_search(&first).is_ok() {
            let object = ObjectName::Segment { node: self.node.clone(), log: self.log, first }.to_string();
            match find_segment(self.store.store, &object, &SegmentIdentity::of(&footer))? {
                Some(Sent::Stored | Sent::Present) => place = Place::Shipped,
                Some(Sent::Forked { found }) => fork = Some(self.fork(first, last, &found)),
                None => {}
            }
        }
        Ok(Some((Known::Local { name, last, place }, fork)))
    }

    fn fork(&self, first: Sequence, last: Sequence, found: &str) -> AuditFinding {
        let reason = format!("the store has another segment of this name: {found}");
        let (node, log) = (Some(self.node.clone()), Some(self.log));
        AuditFinding { kind: AuditKind::Fork, node, log, first: Some(first), last: Some(last), reason }
    }

    fn visit(&self, walk: &mut Walk<'_>, first: Sequence, segment: Known) -> anyhow::Result<()> {
        if let Known::Local { name, last, place } = segment {
            walk.reach(first)?;
            match walk.add(Readable { dir: self.dir, name, last, place }) {
                // The server deleted the segment after it was listed, so the store has it.
                Err(error) if error.is_not_found() => {}
                added => return Ok(added?),
            }
        }
        let Some(scan) = self.store.copy(walk, first)? else { return Ok(()) };
        walk.reach(first)?;
        let name = SegmentName { first, state: SegmentState::Sealed };
        let added = match scan.last >= walk.next {
            true => walk.add(Readable { dir: self.store.dir, name, last: scan.last, place: Place::Shipped }),
            false => Ok(()),
        };
        self.store.remove(self.log, first);
        Ok(added?)
    }

    fn close(&self, walk: Walk<'_>, is_complete: bool) -> WebAudit {
        let last = walk.next.before();
        let mut audit = WebAudit::new();
        for (sink, mut view) in self.sinks.iter().zip(walk.views) {
            // A sink may have passed records that neither this machine nor the store has any more.
            view.unknown[Count::Answered] += last.after(1).count_to(view.position);
            let total = last.max(view.position).0;
            let mut findings = walk.findings.clone();
            let lines: Vec<_> = view
                .counts()
                .into_iter()
                .filter(|(_, counts)| counts.accounted() > 0)
                .map(|(stream, mut counts)| {
                    counts[Count::Ingested] = counts.accounted();
                    let (log, node) = (self.log.to_string(), self.node.decode().unwrap_or_default());
                    AccountLine {
                        log,
                        node,
                        stream: stream.to_owned(),
                        is_complete: Some(is_complete),
                        counts,
                    }
                })
                .collect();
            let accounted: u64 = lines.iter().map(|line| line.counts.accounted()).sum();
            if accounted != total {
                let reason = format!("the log has {total} records, {accounted} accounted for");
                findings.push(self.whole(AuditKind::NotExact, reason));
            }
            audit.insert(sink.clone(), SideAudit { lines, findings, ..SideAudit::default() });
        }
        audit
    }

    /// Makes an error of this log a finding. An error of the store ends the audit.
    fn not_counted(&self, error: anyhow::Error) -> anyhow::Result<WebAudit> {
        let Some(reason) = error.downcast_ref::<LogError>().map(|error| join_chain(error)) else {
            return Err(error);
        };
        let findings = vec![self.whole(AuditKind::NotCounted, reason)];
        let account = SideAudit { findings, ..SideAudit::default() };
        Ok(self.sinks.iter().map(|sink| (sink.clone(), account.clone())).collect())
    }

    fn whole(&self, kind: AuditKind, reason: String) -> AuditFinding {
        let (node, log) = (Some(self.node.clone()), Some(self.log));
        AuditFinding { kind, node, log, first: None, last: None, reason }
    }
}
