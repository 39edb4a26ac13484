//! Prints the account of one side and sink.

use std::io::{self, Write};

use tollgate_load::SinkGap;

use super::counts::{Count, RecordCounts};
use super::finding::{AuditFinding, AuditKind};
use super::line::{AccountLine, problems, push_json_counts, sums};
use super::side::Side;
use crate::load_end::gap_text;
use crate::print::{note, push_formatted, push_json_string, table, write_table};

/// The account of one side and sink.
#[derive(Debug, Clone, Default)]
pub(super) struct SideAudit {
    pub(super) lines: Vec<AccountLine>,
    pub(super) gaps: Vec<SinkGap>,
    pub(super) findings: Vec<AuditFinding>,
}

impl SideAudit {
    /// Adds the account of another log.
    pub(super) fn add(&mut self, other: Self) {
        self.lines.extend(other.lines);
        self.gaps.extend(other.gaps);
        self.findings.extend(other.findings);
    }

    /// Returns whether the store lacks a segment.
    pub(super) fn has_hole(&self) -> bool {
        self.findings.iter().any(|finding| finding.kind == AuditKind::Hole)
    }

    /// Returns the sum of all lines.
    pub(super) fn sum(&self) -> RecordCounts {
        let mut sum = RecordCounts::default();
        self.lines.iter().for_each(|line| sum.add(&line.counts));
        sum
    }

    /// Returns whether no record is missing, and all records are accounted for.
    pub(super) fn is_well(&self) -> bool {
        let sum = self.sum();
        let is_failure = |finding: &AuditFinding| finding.kind.is_failure();
        sum[Count::Missing] == 0 && self.closes() && !self.findings.iter().any(is_failure)
    }

    /// Returns whether the counts add up.
    pub(super) fn closes(&self) -> bool {
        let is_not_exact = |finding: &AuditFinding| finding.kind == AuditKind::NotExact;
        self.sum().is_exact() && !self.findings.iter().any(is_not_exact)
    }

    /// Returns the findings, gaps and problems, for people.
    fn remarks(&self) -> Vec<String> {
        let findings = self.findings.iter().map(AuditFinding::to_string);
        findings.chain(self.gaps.iter().map(gap_text)).chain(problems(&sums(&self.lines))).collect()
    }
}

/// An account, and where it comes from.
pub(super) struct Report<'a> {
    pub(super) side: Side,
    pub(super) store: &'a str,
    pub(super) sink: Option<&'a str>,
    pub(super) audit: &'a SideAudit,
}

impl Report<'_> {
    /// Writes a table with a sum for each stream, the findings, and the sum of all.
    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { side, store, sink, audit } = self;
        let of = sink.map_or_else(|| "no sink has answered".to_owned(), |sink| format!("sink {sink}"));
        writeln!(out, "{} machine, store {store}, {of}", side.name())?;
        if !audit.lines.is_empty() {
            let mut table = table(&side.header());
            for line in audit.lines.iter().chain(sums(&audit.lines).values()) {
                table.add_row(line.cells(*side));
            }
            write_table(out, &mut table)?;
        }
        audit.remarks().iter().try_for_each(|remark| writeln!(out, "{remark}"))?;
        writeln!(out, "{}", self.verdict())
    }

    /// Returns the sum of all counts, and whether they add up.
    fn verdict(&self) -> String {
        let sum = self.audit.sum();
        let parts = self.side.json_counts().iter().filter(|count| self.side.knows(**count));
        let parts = parts.filter(|count| **count != Count::Ingested);
        let parts: Vec<_> = parts.map(|count| format!("{} {}", sum[*count], count.name())).collect();
        let (ingested, parts) = (sum[Count::Ingested], parts.join(" + "));
        if self.audit.closes() {
            format!("exact: {ingested} ingested = {parts}")
        } else {
            format!("not exact: {ingested} ingested, but {parts}")
        }
    }

    /// Writes an object for each line, and one for the sum. Findings go to stderr.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in &self.audit.lines {
            let mut text = self.json_head();
            line.push_json(self.side, &mut text);
            text.push('}');
            writeln!(out, "{text}")?;
        }
        let mut text = self.json_head();
        push_formatted(&mut text, format_args!(",\"closes\":{}", self.audit.closes()));
        push_json_counts(&self.audit.sum(), self.side, &mut text);
        text.push('}');
        writeln!(out, "{text}")?;
        out.flush()?;
        self.audit.remarks().iter().for_each(|remark| note(&format!("{}: {remark}", self.side.name())));
        Ok(())
    }

    fn json_head(&self) -> String {
        let mut text = format!("{{\"side\":\"{}\",\"store\":", self.side.name());
        push_json_string(&mut text, self.store);
        text.push_str(",\"sink\":");
        match self.sink {
            Some(sink) => push_json_string(&mut text, sink),
            None => text.push_str("null"),
        }
        text
    }
}
