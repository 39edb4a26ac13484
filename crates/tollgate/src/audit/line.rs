//! The counts of one log and stream, as a line of a table and as a JSON object.

use std::collections::BTreeMap;

use tollgate_load::AuditRow;

use super::counts::{Count, RecordCounts};
use super::side::{Cell, Side};
use crate::print::{printable, push_formatted, push_json_string};

/// The counts of one log and stream.
#[derive(Debug, Clone, Default)]
pub(super) struct AccountLine {
    pub(super) log: String,
    /// The machine that wrote the log. Empty if it is unknown, and in a sum.
    pub(super) node: String,
    pub(super) stream: String,
    /// Whether the machine noted the end of the log in the store. `None` in a sum, and if no store is read.
    pub(super) is_complete: Option<bool>,
    pub(super) counts: RecordCounts,
}

impl AccountLine {
    /// Returns the line of a row from the account of a sink.
    pub(super) fn of(row: &AuditRow) -> Self {
        let mut counts = RecordCounts::default();
        for (count, records) in [
            (Count::Ingested, row.ingested),
            (Count::Shipped, row.shipped),
            (Count::Pending, row.pending),
            (Count::Loaded, row.loaded),
            (Count::Rejected, row.rejected),
            (Count::Duplicate, row.duplicates),
            (Count::GivenUp, row.given_up),
            (Count::Missing, row.missing),
        ] {
            counts[count] = records;
        }
        let (log, node) = (row.log.to_string(), row.node.clone().unwrap_or_default());
        Self { log, node, stream: row.stream.clone(), is_complete: None, counts }
    }

    /// Returns the cells of the table of a side.
    pub(super) fn cells(&self, side: Side) -> Vec<String> {
        let cell = |cell: &Cell| match cell {
            Cell::Log => self.log.clone(),
            Cell::Stream => printable(&self.stream),
            Cell::Node => printable(&self.node),
            Cell::Complete => self.is_complete.map_or("", |is| if is { "yes" } else { "no" }).to_owned(),
            Cell::Count(count) => self.counts[*count].to_string(),
        };
        side.cells().iter().map(cell).collect()
    }

    /// Appends the names and values of the line to a JSON object. A count that the side does not know is
    /// null.
    pub(super) fn push_json(&self, side: Side, out: &mut String) {
        push_formatted(out, format_args!(",\"log\":\"{}\",\"node\":", self.log));
        if self.node.is_empty() {
            out.push_str("null");
        } else {
            push_json_string(out, &self.node);
        }
        out.push_str(",\"stream\":");
        push_json_string(out, &self.stream);
        if let Some(is_complete) = self.is_complete {
            push_formatted(out, format_args!(",\"complete\":{is_complete}"));
        }
        push_json_counts(&self.counts, side, out);
    }

    /// Returns the problem in these counts. `None`: every record is accounted for.
    fn problem(&self) -> Option<String> {
        let (stream, ingested) = (printable(&self.stream), self.counts[Count::Ingested]);
        let missing = self.counts[Count::Missing];
        if missing > 0 {
            return Some(format!("missing: {missing} of {ingested} records of {stream}"));
        }
        let accounted = self.counts.accounted();
        (!self.counts.is_exact())
            .then(|| format!("not exact: {stream} has {ingested} ingested, {accounted} accounted for"))
    }
}

/// Appends the counts of a side to a JSON object.
pub(super) fn push_json_counts(counts: &RecordCounts, side: Side, out: &mut String) {
    for count in side.json_counts() {
        push_formatted(out, format_args!(",\"{}\":", count.name()));
        if side.knows(*count) {
            push_formatted(out, format_args!("{}", counts[*count]));
        } else {
            out.push_str("null");
        }
    }
}

/// Returns the sum of each stream over the logs.
pub(super) fn sums(lines: &[AccountLine]) -> BTreeMap<&str, AccountLine> {
    let mut sums: BTreeMap<&str, AccountLine> = BTreeMap::new();
    for line in lines {
        let named =
            || AccountLine { log: "all".to_owned(), stream: line.stream.clone(), ..AccountLine::default() };
        sums.entry(&line.stream).or_insert_with(named).counts.add(&line.counts);
    }
    sums
}

/// Returns the problems in the sums of all streams.
pub(super) fn problems(sums: &BTreeMap<&str, AccountLine>) -> Vec<String> {
    sums.values().filter_map(AccountLine::problem).collect()
}
