//! Counts the results of records, by stream and in total.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Results of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of rows in tables.
    pub rows: u64,
    /// Number of rejects, from ingest and from the database.
    pub rejects: u64,
    /// Number of duplicates: records whose key another record of their stream has.
    pub duplicates: u64,
    /// Number of records in gaps.
    pub missing: u64,
    /// Number of records of streams that the sink does not take.
    pub skipped: u64,
}

impl Tally {
    /// Returns the number of records with any result.
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

/// A table that is not in the database, although rows were loaded into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostTable {
    /// Name of the table, as a statement writes it.
    pub table: String,
    /// Number of rows that were loaded into it.
    pub rows: u64,
}

/// Results of a transaction by stream.
#[derive(Debug, Default)]
pub struct StreamTallies {
    streams: BTreeMap<String, Tally>,
    /// Lost tables that the transaction created again without their rows, by stream.
    pub(crate) remade: BTreeMap<String, LostTable>,
    /// Number of records in gaps. They have no stream.
    pub(crate) missing: u64,
    /// Number of files that the transaction made, and their bytes. Only a sink of files makes any.
    pub(crate) files: (u64, u64),
}

impl StreamTallies {
    pub(crate) fn add(&mut self, stream: &str, more: Tally) {
        match self.streams.get_mut(stream) {
            Some(tally) => *tally += more,
            None => drop(self.streams.insert(stream.to_owned(), more)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Tally)> {
        self.streams.iter()
    }

    /// Returns the sum over all streams and the records in gaps.
    pub(crate) fn total(&self) -> Tally {
        let mut total = Tally { missing: self.missing, ..Tally::default() };
        self.streams.values().for_each(|tally| total += *tally);
        total
    }
}
