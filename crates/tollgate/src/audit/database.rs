//! The account of a machine that loads: the segments in a store, and the database of one sink.
//!
//! The bookkeeping of the sink is read first. Segments up to its positions are not read. Each later segment
//! is copied to this machine, checked, counted and removed, so the audit needs space for one segment.

use tollgate_load::{LogAccount, Place, RecordsByStream, STREAM_UNKNOWN, SinkAccount, SinkOptions};
use tollgate_log::{LogId, SegmentName, SegmentScan, SegmentState, Sequence};
use tollgate_ship::{NodeName, end_of, reported_of, segments_of};

use super::counts::{Count, RecordCounts};
use super::finding::{AuditFinding, AuditKind};
use super::line::AccountLine;
use super::report::SideAudit;
use super::stored::AuditedStore;
use super::walk::{Readable, View, Walk};

/// Maximum number of reads of one log. A log is read again if the sink loaded records of it, and the store
/// deleted their segments, between the read of the sink and the read of the store.
const LOOKS_MAX: usize = 3;

/// RecordCounts the records of all logs in a store, for one sink.
///
/// # Errors
/// The store or the database cannot be read.
pub(super) fn audit(store: &AuditedStore<'_>, sink: &SinkOptions) -> anyhow::Result<SideAudit> {
    let mut account = SinkAccount::read(sink)?;
    let (logs, findings) = store.logs()?;
    let mut audit = SideAudit { findings, ..SideAudit::default() };
    for (node, log) in &logs {
        let mut found = LogAudit { store, account: &account, node, log: *log }.read()?;
        for _ in 1..LOOKS_MAX {
            if !found.has_hole() {
                break;
            }
            let now = SinkAccount::read(sink)?;
            if now.position(*log) == account.position(*log) {
                break;
            }
            account = now;
            found = LogAudit { store, account: &account, node, log: *log }.read()?;
        }
        audit.add(found);
    }
    for log in account.logs().filter(|log| !logs.iter().any(|(_, stored)| stored == log)) {
        audit.add(without_segments(&account, log));
    }
    audit.gaps = account.gaps();
    Ok(audit)
}

/// Returns the account of a log that the store does not have.
fn without_segments(account: &SinkAccount, log: LogId) -> SideAudit {
    let mut lines: Vec<_> =
        account.account(log, &RecordsByStream::new()).rows.iter().map(AccountLine::of).collect();
    for line in &mut lines {
        line.is_complete = Some(false);
        line.node = account.node(log).unwrap_or_default().to_owned();
    }
    SideAudit { lines, ..SideAudit::default() }
}

/// The audit of one log.
struct LogAudit<'a> {
    store: &'a AuditedStore<'a>,
    account: &'a SinkAccount,
    node: &'a NodeName,
    log: LogId,
}

impl LogAudit<'_> {
    fn read(&self) -> anyhow::Result<SideAudit> {
        let (store, account, log) = (self.store.store, self.account, self.log);
        let end = end_of(store, log)?.map(|end| end.last);
        // The report is read before the segments, so the store has all reported segments.
        let reported = reported_of(store, self.node, log)?;
        let firsts = segments_of(store, self.node, log, None)?;
        let position = account.position(log);
        let last = position.map_or(Sequence(0), |position| position.last);
        let counter = account.counter(self.store.storage.clone(), log);
        let mut walk = Walk {
            store,
            node: self.node,
            log,
            next: last.after(1),
            // The first segment of a log continues no chain, which is the chain 0.
            chain: position.map_or(Some(0), |position| position.chain),
            is_broken: false,
            unread: None,
            views: vec![View::new(counter, last)],
            findings: Vec::new(),
        };
        // The segment with the next record may begin before it.
        let begin = firsts.partition_point(|first| *first <= walk.next).saturating_sub(1);
        for first in &firsts[begin..] {
            self.visit(&mut walk, *first)?;
        }
        walk.finish(end.max(reported))?;
        let last = walk.next.before();
        if let Some(end) = end.filter(|end| *end < last) {
            let reason = format!("its machine noted that the log ended with record {end}");
            walk.find(AuditKind::Fork, (end.after(1), Some(last)), reason);
        }
        let is_complete = end == Some(last);
        Ok(self.close(walk, is_complete))
    }

    /// Visits the segment that begins with `first`.
    fn visit(&self, walk: &mut Walk<'_>, first: Sequence) -> anyhow::Result<()> {
        let Some(scan) = self.store.copy(walk, first)? else { return Ok(()) };
        let counted = self.count(walk, first, &scan);
        self.store.remove(self.log, first);
        counted
    }

    fn count(&self, walk: &mut Walk<'_>, first: Sequence, scan: &SegmentScan) -> anyhow::Result<()> {
        walk.reach(first)?;
        if scan.last < walk.next {
            return Ok(());
        }
        if let Some(reason) = self.fork(walk, first, scan) {
            walk.find(AuditKind::Fork, (first, Some(scan.last)), reason.to_owned());
            walk.is_broken = true;
        }
        let place = if walk.is_broken { Place::Shipped } else { Place::Pending };
        let name = SegmentName { first, state: SegmentState::Sealed };
        walk.add(Readable { dir: self.store.dir, name, last: scan.last, place })?;
        walk.chain = Some(scan.chain);
        Ok(())
    }

    /// Returns why a segment does not continue the log before it. `None`: it does, or that is unknown.
    fn fork(&self, walk: &Walk<'_>, first: Sequence, scan: &SegmentScan) -> Option<&'static str> {
        let header = scan.header.as_ref()?;
        let is_other = if first == walk.next {
            walk.chain.is_some_and(|chain| chain != header.chain)
        } else if walk.views.iter().all(|view| view.position >= walk.next.before()) {
            self.account.has_diverged(&self.store.storage, self.store.dir, self.log)
        } else {
            return Some("the segment overlaps with the segment before it, so two machines wrote the log");
        };
        is_other
            .then_some("the segment does not continue the records before it, so two machines wrote the log")
    }

    /// Joins the counts of the segments with the counts of the sink.
    fn close(&self, walk: Walk<'_>, is_complete: bool) -> SideAudit {
        let total = self.account.start(self.log).after(1).count_to(walk.next.before());
        let mut findings = walk.findings;
        let mut lines = Vec::new();
        let mut accounted = 0;
        for view in &walk.views {
            let LogAccount { rows, not_taken } = self.account.account(self.log, view.counter.records());
            lines = rows.iter().map(AccountLine::of).collect();
            add_unknown(&mut lines, self.log, view.unknown);
            accounted = lines.iter().map(|line| line.counts.accounted()).fold(not_taken, u64::saturating_add);
        }
        if accounted != total {
            let reason = format!("the log has {total} records, {accounted} accounted for");
            let (node, log) = (Some(self.node.clone()), Some(self.log));
            findings.push(AuditFinding {
                kind: AuditKind::NotExact,
                node,
                log,
                first: None,
                last: None,
                reason,
            });
        }
        let node = self.node.decode().unwrap_or_default();
        for line in &mut lines {
            line.node.clone_from(&node);
            line.is_complete = Some(is_complete);
        }
        SideAudit { lines, findings, ..SideAudit::default() }
    }
}

/// Adds records of an unknown stream to the lines of a log.
fn add_unknown(lines: &mut Vec<AccountLine>, log: LogId, mut unknown: RecordCounts) {
    if unknown.accounted() == 0 {
        return;
    }
    unknown[Count::Ingested] = unknown.accounted();
    if let Some(line) = lines.iter_mut().find(|line| line.stream == STREAM_UNKNOWN) {
        line.counts.add(&unknown);
        return;
    }
    let (log, stream) = (log.to_string(), STREAM_UNKNOWN.to_owned());
    lines.insert(0, AccountLine { log, stream, counts: unknown, ..AccountLine::default() });
}
