//! Plans and commits: short JSON texts, each created once.
//!
//! A plan names the records of a load, the files that they become, and the results of all records. A commit
//! of a load after the position has the sums over all loads of its log. The commit of a fill or of a retry
//! repeats its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tollgate_log::{Gap, Position, Sequence};

use crate::error::LakeError;

/// Version of the layout of plans and commits.
const VERSION: u32 = 1;

/// Counts of the records of one stream, by their results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Rows in files.
    #[serde(default)]
    pub loaded: u64,
    /// Rejects.
    #[serde(default)]
    pub rejected: u64,
    /// Records of streams that the sink does not take.
    #[serde(default)]
    pub skipped: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, more: Self) {
        self.loaded = self.loaded.saturating_add(more.loaded);
        self.rejected = self.rejected.saturating_add(more.rejected);
        self.skipped = self.skipped.saturating_add(more.skipped);
    }
}

/// The streams whose records a load takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streams {
    /// All streams.
    #[default]
    All,
    /// These streams.
    Only(BTreeSet<String>),
}

/// A gap, as plans and commits have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapText {
    /// First record of the gap.
    pub first: u64,
    /// Last record of the gap.
    pub last: u64,
    /// Why the records cannot be read.
    pub reason: String,
}

impl From<&Gap> for GapText {
    fn from(gap: &Gap) -> Self {
        Self { first: gap.first.0, last: gap.last.0, reason: gap.reason.clone() }
    }
}

impl GapText {
    /// Returns the gap.
    pub fn gap(&self) -> Gap {
        Gap { first: Sequence(self.first), last: Sequence(self.last), reason: self.reason.clone() }
    }

    /// Returns whether the gap has all records of another one.
    pub const fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Returns whether the gap has this record.
    pub const fn has(&self, sequence: Sequence) -> bool {
        self.first <= sequence.0 && sequence.0 <= self.last
    }
}

/// A file of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// Name of the file in the lake.
    pub name: String,
    /// Number of its rows.
    pub rows: u64,
}

/// The result of one reject in a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// The log of the record.
    pub log: String,
    /// Number of the record.
    pub sequence: u64,
    /// The stream of the record.
    pub stream: String,
    /// Why the record is still a reject. `None`: it became a row.
    pub reason: Option<String>,
}

/// A load that is decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    version: u32,
    /// The last record before the first record that the log had.
    pub before: u64,
    /// The last record.
    pub last: u64,
    /// Header checksum of the batch that ends with the last record. `None` after a gap.
    pub chain: Option<u32>,
    /// The streams whose records become rows.
    pub streams: Streams,
    /// Digest of the batches, in hexadecimal.
    pub digest: String,
    /// The machine that wrote the log.
    pub node: Option<String>,
    /// The files, in the order of their names.
    pub files: Vec<PlannedFile>,
    /// Results of the records, by stream.
    pub counts: BTreeMap<String, Counts>,
    /// Records that cannot be read. For a fill: the part of the gap that stays.
    pub gaps: Vec<GapText>,
    /// Results of rejects, for a retry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<Resolved>,
}

impl Plan {
    /// Returns a plan without files for records up to a position.
    pub fn new(end: Position, streams: Streams) -> Self {
        Self {
            version: VERSION,
            before: 0,
            last: end.last.0,
            chain: end.chain,
            streams,
            digest: String::new(),
            node: None,
            files: Vec::new(),
            counts: BTreeMap::new(),
            gaps: Vec::new(),
            resolved: Vec::new(),
        }
    }

    /// Returns the position after the load.
    pub const fn end(&self) -> Position {
        Position { last: Sequence(self.last), chain: self.chain }
    }

    /// Returns the text of the plan.
    pub(crate) fn to_text(&self) -> String {
        to_text(self)
    }

    /// Reads the text of a plan.
    pub(crate) fn read(name: &str, text: &str) -> Result<Self, LakeError> {
        read(name, text)
    }

    /// Returns the number of records in gaps.
    pub fn missing(&self) -> u64 {
        self.gaps.iter().map(|gap| Sequence(gap.first).count_to(Sequence(gap.last))).sum()
    }
}

/// The sums over all loads of a log, up to its position.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    version: u32,
    /// The last record before the sink began.
    pub start: u64,
    /// The last record that is loaded.
    pub last: u64,
    /// Header checksum of the batch that ends with the last record.
    pub chain: Option<u32>,
    /// The machine that wrote the log.
    pub node: Option<String>,
    /// Results of the records, by stream.
    pub counts: BTreeMap<String, Counts>,
    /// The gaps of all loads, as they were found.
    pub gaps: Vec<GapText>,
    /// Number of files.
    pub files: u64,
    /// Bytes of the files that the writer of the commit made.
    pub bytes: u64,
}

impl Commit {
    /// Returns the state before the first load.
    pub fn before(start: Sequence, chain: Option<u32>) -> Self {
        Self { version: VERSION, start: start.0, last: start.0, chain, ..Self::default() }
    }

    /// Returns the state after another load.
    #[must_use]
    pub fn after(&self, plan: &Plan, bytes: u64) -> Self {
        let mut counts = self.counts.clone();
        for (stream, more) in &plan.counts {
            counts.entry(stream.clone()).or_default().add(*more);
        }
        Self {
            version: VERSION,
            start: self.start,
            last: plan.last,
            chain: plan.chain,
            node: plan.node.clone().or_else(|| self.node.clone()),
            counts,
            gaps: self.gaps.iter().chain(&plan.gaps).cloned().collect(),
            files: self.files + plan.files.len() as u64,
            bytes: self.bytes.saturating_add(bytes),
        }
    }

    /// Returns the position.
    pub const fn end(&self) -> Position {
        Position { last: Sequence(self.last), chain: self.chain }
    }

    pub(crate) fn to_text(&self) -> String {
        to_text(self)
    }

    pub(crate) fn read(name: &str, text: &str) -> Result<Self, LakeError> {
        read(name, text)
    }
}

fn to_text(value: &impl Serialize) -> String {
    // A structure with texts as keys always has a JSON form.
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}

fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, LakeError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let failed = |reason: String| LakeError::Text {
        name: name.to_owned(),
        reason: format!("{reason}: use the program that wrote it, or a later one"),
    };
    let found: Version =
        serde_json::from_str(text).map_err(|error| failed(format!("it is no JSON ({error})")))?;
    if found.version != VERSION {
        return Err(failed(format!(
            "it has version {}, this program knows version {VERSION}",
            found.version
        )));
    }
    serde_json::from_str(text).map_err(|error| failed(format!("it is incomplete ({error})")))
}

/// Digest of the batches of a load. It depends on all bytes of their records, because the header of a batch
/// has a checksum of its content and of the header before.
#[derive(Debug, Clone, Default)]
pub struct RecordDigest(Sha256);

impl RecordDigest {
    /// Adds a batch, by the position after it.
    pub fn batch(&mut self, end: Position) {
        self.0.update(end.last.0.to_le_bytes());
        self.0.update(end.chain.unwrap_or_default().to_le_bytes());
    }

    /// Adds the text of a reject that is retried.
    pub fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    /// Returns the digest in hexadecimal.
    pub fn finish(self) -> String {
        let bytes = self.0.finalize();
        bytes.iter().fold(String::new(), |mut text, byte| {
            // A write to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// Returns the number of rows in these files.
pub fn total_rows(files: &[PlannedFile]) -> u64 {
    files.iter().map(|file| file.rows).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let mut plan = Plan::new(Position { last: Sequence(9), chain: Some(7) }, Streams::All);
        plan.counts.insert("s".to_owned(), Counts { loaded: 4, rejected: 1, skipped: 0 });
        plan.files.push(PlannedFile { name: "s/day=1970-01-01/x.parquet".to_owned(), rows: 4 });
        plan.gaps.push(GapText { first: 3, last: 6, reason: "damaged".to_owned() });
        plan
    }

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        for streams in [Streams::All, Streams::Only(["s".to_owned()].into())] {
            let plan = Plan { streams, ..plan() };
            assert_eq!(Plan::read("p", &plan.to_text()).unwrap(), plan);
        }
        assert_eq!(plan().missing(), 4);
    }

    #[test]
    fn a_commit_has_the_sums_of_all_loads() {
        let first = Commit::before(Sequence(2), None).after(&plan(), 10);
        let second = first.after(&Plan { last: 20, ..plan() }, 5);
        assert_eq!(Commit::read("c", &second.to_text()).unwrap(), second);
        assert_eq!((second.start, second.last, second.files, second.bytes), (2, 20, 2, 15));
        assert_eq!(second.counts["s"], Counts { loaded: 8, rejected: 2, skipped: 0 });
        assert_eq!(second.gaps.len(), 2);
    }

    #[test]
    fn a_text_of_a_later_version_is_refused_with_both_versions() {
        let text = plan().to_text().replace("\"version\":1", "\"version\":2");
        let error = Plan::read("p", &text).unwrap_err().to_string();
        assert!(error.contains("has version 2, this program knows version 1"), "{error}");
        let error = Plan::read("p", "{").unwrap_err().to_string();
        assert!(error.contains("no JSON"), "{error}");
    }

    #[test]
    fn the_digest_depends_on_every_batch_and_on_their_order() {
        let digest = |ends: &[(u64, u32)]| {
            let mut digest = RecordDigest::default();
            for (last, chain) in ends {
                digest.batch(Position { last: Sequence(*last), chain: Some(*chain) });
            }
            digest.finish()
        };
        let all =
            [digest(&[(1, 2)]), digest(&[(1, 3)]), digest(&[(1, 2), (2, 2)]), digest(&[(2, 2), (1, 2)])];
        assert_eq!(BTreeSet::from(all.clone()).len(), all.len());
        assert!(all.iter().all(|digest| digest.len() == 64));
    }
}
