//! Damage that the start found in logs of earlier runs, until an operator accepts it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tollgate_log::{AcceptedDamage, DiskStorage, LogId, SegmentName};

use super::seen::Damaged;

/// The damage that was noted in this run.
#[derive(Debug, Default)]
pub(super) struct NotedDamage {
    segments: BTreeMap<PathBuf, NotedSegment>,
    unmended: Vec<(LogId, String)>,
}

/// A damaged segment.
#[derive(Debug)]
struct NotedSegment {
    log: LogId,
    /// The checksum of an earlier acceptance, which does not cover this damage.
    accepted_before: Option<u32>,
}

impl NotedDamage {
    /// Notes a damaged segment. Returns whether it was not noted yet.
    pub(super) fn note(&mut self, dir: &Path, log: LogId, file: &Path) -> bool {
        let accepted_before = accepted_checksum(&read_accepted(dir), log, file);
        self.segments.insert(file.to_owned(), NotedSegment { log, accepted_before }).is_none()
    }

    pub(super) fn note_unmended(&mut self, logs: Vec<(LogId, String)>) {
        self.unmended = logs;
    }

    /// Returns the damage without the segments that an operator has accepted since they were noted.
    pub(super) fn seen(&self, dir: &Path) -> Damaged {
        let unmended = self.unmended.clone();
        if self.segments.is_empty() {
            return Damaged { unmended, ..Damaged::default() };
        }
        let accepted = read_accepted(dir);
        let is_reported = |(file, noted): &(&PathBuf, &NotedSegment)| {
            let now = accepted_checksum(&accepted, noted.log, file);
            now.is_none() || now == noted.accepted_before
        };
        let reported: Vec<_> = self.segments.iter().filter(is_reported).map(|(file, _)| file).collect();
        let first = reported.first().map(|file| (*file).clone());
        Damaged { segments: reported.len() as u64, first, unmended }
    }
}

/// Reads what an operator has accepted. If the file cannot be read, the damage is reported.
fn read_accepted(dir: &Path) -> AcceptedDamage {
    AcceptedDamage::read(&DiskStorage, dir).unwrap_or_default()
}

fn accepted_checksum(accepted: &AcceptedDamage, log: LogId, file: &Path) -> Option<u32> {
    accepted.checksum_of(log, SegmentName::parse(file.file_name()?.to_str()?)?)
}
