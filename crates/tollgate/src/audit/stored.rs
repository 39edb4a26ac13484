//! The store of an audit: its logs, and a folder of this machine for the segment that is being read.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tollgate_log::{LogId, SegmentName, SegmentScan, SegmentState, Sequence, Storage};
use tollgate_ship::{
    NodeName, ObjectName, SegmentCopy, SegmentIdentity, SegmentPlace, Store, StoreError, copy_segment,
    end_of, ended_logs, shipped_logs,
};

use super::finding::{AuditFinding, AuditKind};
use super::walk::{Unread, Walk};

/// Maximum number of foreign names that are listed.
const FOREIGN_MAX: usize = 20;

/// The logs of a store, each with the machine that wrote it, and findings about their names.
type FoundLogs = (Vec<(NodeName, LogId)>, Vec<AuditFinding>);

/// A store that is audited.
pub(super) struct AuditedStore<'a> {
    /// The place, for people.
    pub(super) name: String,
    pub(super) store: &'a dyn Store,
    pub(super) storage: Arc<dyn Storage>,
    /// A folder of this machine for the segment that is being read.
    pub(super) dir: &'a Path,
    /// Maximum bytes of one segment.
    pub(super) bytes_max: u64,
}

impl AuditedStore<'_> {
    /// Returns the logs in the store, each with the machine that wrote it, and findings about their names.
    /// If two machines have one log, the segments of the first are counted, as a loader fetches them.
    pub(super) fn logs(&self) -> Result<FoundLogs, StoreError> {
        let (mut known, mut logs) = (BTreeSet::new(), Vec::new());
        let mut findings = self.foreign_names()?;
        for (node, log) in shipped_logs(self.store)? {
            if known.insert(log) {
                logs.push((node, log));
                continue;
            }
            let reason = "another machine has segments of this log too".to_owned();
            let (kind, node, log) = (AuditKind::Fork, Some(node), Some(log));
            findings.push(AuditFinding { kind, node, log, first: None, last: None, reason });
        }
        // The store may have lost all segments of a log that has ended.
        for log in ended_logs(self.store)? {
            if known.insert(log)
                && let Some(end) = end_of(self.store, log)?
            {
                logs.push((end.node, log));
            }
        }
        Ok((logs, findings))
    }

    fn foreign_names(&self) -> Result<Vec<AuditFinding>, StoreError> {
        let names = self.store.foreign(&ObjectName::all(), FOREIGN_MAX)?;
        let finding = |name: String| AuditFinding {
            kind: AuditKind::ForeignName,
            node: None,
            log: None,
            first: None,
            last: None,
            reason: name,
        };
        Ok(names.into_iter().map(finding).collect())
    }

    /// Copies the segment that begins with `first` to this machine. `None`: the store lacks the segment, or
    /// the walk has noted that it cannot be read.
    pub(super) fn copy(
        &self,
        walk: &mut Walk<'_>,
        first: Sequence,
    ) -> Result<Option<Box<SegmentScan>>, StoreError> {
        let place = SegmentPlace { node: walk.node, log: walk.log, first };
        let (kind, reason) = match copy_segment(self.store, &*self.storage, place, self.dir, self.bytes_max)?
        {
            SegmentCopy::Here(scan) => return Ok(Some(scan)),
            SegmentCopy::Absent => return Ok(None),
            SegmentCopy::Damaged(reason) => (AuditKind::Damaged, reason),
            SegmentCopy::LaterVersion(reason) => (AuditKind::LaterVersion, reason),
        };
        walk.reach(first)?;
        walk.unread = Some(Unread { first, last: last_of(self.store, place)?, kind, reason });
        Ok(None)
    }

    /// Removes the copy of a segment.
    pub(super) fn remove(&self, log: LogId, first: Sequence) {
        let name = SegmentName { first, state: SegmentState::Sealed };
        // A copy that stays takes space until the end of the command.
        drop(fs::remove_file(name.path(&self.dir.join(log.to_string()))));
    }
}

/// Returns the last record of a segment that cannot be read, from the identity that the store has of it.
fn last_of(store: &dyn Store, place: SegmentPlace<'_>) -> Result<Option<Sequence>, StoreError> {
    let SegmentPlace { node, log, first } = place;
    let name = ObjectName::Segment { node: node.clone(), log, first }.to_string();
    let identity = store.head(&name)?.and_then(|head| head.identity);
    let last = identity.as_ref().and_then(SegmentIdentity::end).map(|(last, _)| last);
    Ok(last.filter(|last| *last >= first && last.is_possible()))
}
