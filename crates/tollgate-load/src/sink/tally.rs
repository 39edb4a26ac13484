//! Counting what becomes of records, by stream and in all.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What one commit brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Rows in tables.
    pub rows: u64,
    /// Rejects, those made at ingest and those that the database made.
    pub rejects: u64,
    /// Records whose key another record of their stream has.
    pub duplicates: u64,
    /// Records that are in gaps.
    pub missing: u64,
    /// Records of streams that the sink does not take.
    pub skipped: u64,
}

impl Tally {
    /// Records that came, whatever became of them.
    pub(crate) fn records(&self) -> u64 {
        self.rows + self.rejects + self.duplicates + self.skipped
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.rows += more.rows;
        self.rejects += more.rejects;
        self.duplicates += more.duplicates;
        self.missing += more.missing;
        self.skipped += more.skipped;
    }
}

/// What a transaction brings of each stream.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<String, Tally>);

impl Counts {
    pub(crate) fn add(&mut self, stream: &str, more: Tally) {
        match self.0.get_mut(stream) {
            Some(tally) => *tally += more,
            None => drop(self.0.insert(stream.to_owned(), more)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Tally)> {
        self.0.iter()
    }

    /// All streams together, and records that are missing.
    pub(crate) fn total(&self, missing: u64) -> Tally {
        let mut total = Tally { missing, ..Tally::default() };
        self.0.values().for_each(|tally| total += *tally);
        total
    }
}
