//! `tollgate audit`: checks that every record of the log is in the database.
//!
//! The machine is the last column, so that a script which reads the others by their place goes on.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use tollgate_load::{Audit, AuditRow, audit};
use tollgate_log::{DiskStorage, LogError, LogId, join_chain};

use crate::config::Config;
use crate::print::{note, printable, push_formatted, push_json_string, table, to_stdout, write_table};

const HEADER: [&str; 9] =
    ["log", "stream", "ingested", "pending", "loaded", "rejected", "duplicate", "missing", "node"];

/// Prints the records of the log and the counts of each sink. Fails if a record is missing.
pub(crate) fn run(config: &Config, is_json: bool) -> anyhow::Result<ExitCode> {
    let sinks = config.chosen(None)?;
    to_stdout(|out| {
        let mut is_exact = true;
        for (index, sink) in sinks.iter().enumerate() {
            if sinks.len() > 1 && !is_json {
                let space = if index > 0 { "\n" } else { "" };
                writeln!(out, "{space}sink {}", sink.name())?;
            }
            let account = match config.log.dir.is_dir() {
                true => audit(&DiskStorage, &config.log.dir, &sink.options)
                    .with_context(|| format!("cannot count the records of sink {}", sink.name())),
                false => Ok(Audit::default()),
            };
            match account {
                Ok(Audit { rows, failed }) => {
                    let lines: Vec<_> = rows.iter().map(Line::of).collect();
                    is_exact &= if is_json {
                        write_json(sink.name(), &lines, &failed, out)?
                    } else {
                        write_lines(&lines, &failed, out)?
                    };
                }
                // The other sinks are counted nevertheless.
                Err(error) if sinks.len() > 1 => {
                    if is_json {
                        note(&format!("{error:#}"));
                    } else {
                        writeln!(out, "{error:#}")?;
                    }
                    is_exact = false;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(if is_exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The counts of one log and stream.
#[derive(Debug, Clone, Default)]
struct Line {
    log: String,
    /// The machine that wrote the log. Empty if it is unknown, and in a sum.
    node: String,
    stream: String,
    ingested: u64,
    pending: u64,
    loaded: u64,
    rejected: u64,
    duplicate: u64,
    missing: u64,
}

impl Line {
    fn of(row: &AuditRow) -> Self {
        Self {
            log: row.log.to_string(),
            node: row.node.clone().unwrap_or_default(),
            stream: row.stream.clone(),
            ingested: row.ingested,
            pending: row.pending,
            loaded: row.loaded,
            rejected: row.rejected,
            duplicate: row.duplicates,
            missing: row.missing,
        }
    }

    fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.ingested, other.ingested);
        add(&mut self.pending, other.pending);
        add(&mut self.loaded, other.loaded);
        add(&mut self.rejected, other.rejected);
        add(&mut self.duplicate, other.duplicate);
        add(&mut self.missing, other.missing);
    }

    fn cells(&self) -> [String; 9] {
        let counts = [self.ingested, self.pending, self.loaded, self.rejected, self.duplicate, self.missing];
        let [ingested, pending, loaded, rejected, duplicate, missing] = counts.map(|count| count.to_string());
        let (log, stream, node) = (self.log.clone(), printable(&self.stream), printable(&self.node));
        [log, stream, ingested, pending, loaded, rejected, duplicate, missing, node]
    }

    fn push_json(&self, sink: &str, out: &mut String) {
        out.push_str("{\"sink\":");
        push_json_string(out, sink);
        push_formatted(out, format_args!(",\"log\":\"{}\",\"node\":", self.log));
        if self.node.is_empty() {
            out.push_str("null");
        } else {
            push_json_string(out, &self.node);
        }
        out.push_str(",\"stream\":");
        push_json_string(out, &self.stream);
        for (name, count) in [
            ("ingested", self.ingested),
            ("pending", self.pending),
            ("loaded", self.loaded),
            ("rejected", self.rejected),
            ("duplicate", self.duplicate),
            ("missing", self.missing),
        ] {
            push_formatted(out, format_args!(",\"{name}\":{count}"));
        }
        out.push('}');
    }

    /// Returns the problem in these counts. `None`: every record is accounted for.
    fn problem(&self) -> Option<String> {
        let parts = [self.pending, self.loaded, self.rejected, self.duplicate, self.missing];
        let accounted = parts.into_iter().fold(0, u64::saturating_add);
        let stream = printable(&self.stream);
        if self.missing > 0 {
            return Some(format!("missing: {} of {} records of {stream}", self.missing, self.ingested));
        }
        (accounted != self.ingested)
            .then(|| format!("not exact: {stream} has {} ingested, {accounted} accounted for", self.ingested))
    }
}

/// Writes an object for each line. Problems go to stderr. Returns whether there is none.
fn write_json(
    sink: &str,
    lines: &[Line],
    failed: &[(LogId, LogError)],
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    let mut text = String::new();
    for line in lines {
        text.clear();
        line.push_json(sink, &mut text);
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    let problems = problems(&sums(lines), failed);
    problems.iter().for_each(|problem| note(&format!("sink {sink}: {problem}")));
    Ok(problems.is_empty())
}

/// Returns the sum of each stream over the logs.
fn sums(lines: &[Line]) -> BTreeMap<&str, Line> {
    let mut sums: BTreeMap<&str, Line> = BTreeMap::new();
    for line in lines {
        let named = || Line { log: "all".to_owned(), stream: line.stream.clone(), ..Line::default() };
        sums.entry(&line.stream).or_insert_with(named).add(line);
    }
    sums
}

fn problems(sums: &BTreeMap<&str, Line>, failed: &[(LogId, LogError)]) -> Vec<String> {
    let not_counted =
        |(log, error): &(LogId, LogError)| format!("not counted: log {log}: {}", join_chain(error));
    sums.values().filter_map(Line::problem).chain(failed.iter().map(not_counted)).collect()
}

/// Writes the lines, a sum for each stream, the logs that cannot be counted, and the verdict. Returns whether
/// every record is accounted for.
fn write_lines(lines: &[Line], failed: &[(LogId, LogError)], out: &mut dyn Write) -> std::io::Result<bool> {
    if lines.is_empty() && failed.is_empty() {
        writeln!(out, "exact: the sink has no records yet")?;
        return Ok(true);
    }
    let sums = sums(lines);
    let mut table = table(&HEADER);
    for line in lines {
        table.add_row(line.cells());
    }
    for sum in sums.values() {
        table.add_row(sum.cells());
    }
    write_table(out, &mut table)?;
    let problems = problems(&sums, failed);
    if problems.is_empty() {
        writeln!(out, "exact: every record is pending, loaded, rejected or a duplicate")?;
    }
    problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
    Ok(problems.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(
        log: &str,
        stream: &str,
        [ingested, pending, loaded, rejected, duplicate, missing]: [u64; 6],
    ) -> Line {
        Line {
            log: log.to_owned(),
            node: format!("m{log}"),
            stream: stream.to_owned(),
            ingested,
            pending,
            loaded,
            rejected,
            duplicate,
            missing,
        }
    }

    fn check(lines: &[Line], expected: (bool, &str)) {
        let mut out = Vec::new();
        let is_exact = write_lines(lines, &[], &mut out).unwrap();
        assert_eq!((is_exact, String::from_utf8(out).unwrap().as_str()), expected);
    }

    #[test]
    fn nothing_is_exact() {
        check(&[], (true, "exact: the sink has no records yet\n"));
    }

    #[test]
    fn each_stream_has_a_sum_over_the_logs() {
        check(
            &[
                line("x", "a", [10, 1, 6, 1, 2, 0]),
                line("x", "b", [1, 0, 1, 0, 0, 0]),
                line("y", "a", [5, 5, 0, 0, 0, 0]),
            ],
            (
                true,
                "log  stream  ingested  pending  loaded  rejected  duplicate  missing  node\n\
                 x    a       10        1        6       1         2          0        mx\n\
                 x    b       1         0        1       0         0          0        mx\n\
                 y    a       5         5        0       0         0          0        my\n\
                 all  a       15        6        6       1         2          0\n\
                 all  b       1         0        1       0         0          0\n\
                 exact: every record is pending, loaded, rejected or a duplicate\n",
            ),
        );
    }

    #[test]
    fn missing_records_and_sums_that_do_not_add_up_are_named() {
        check(
            &[line("x", "a", [10, 0, 7, 0, 0, 3]), line("x", "b", [4, 0, 5, 0, 0, 0])],
            (
                false,
                "log  stream  ingested  pending  loaded  rejected  duplicate  missing  node\n\
                 x    a       10        0        7       0         0          3        mx\n\
                 x    b       4         0        5       0         0          0        mx\n\
                 all  a       10        0        7       0         0          3\n\
                 all  b       4         0        5       0         0          0\n\
                 missing: 3 of 10 records of a\n\
                 not exact: b has 4 ingested, 5 accounted for\n",
            ),
        );
    }

    #[test]
    fn json_has_each_line_with_its_sink_and_machine_and_no_sums() {
        let lines =
            [line("x", "a", [10, 1, 6, 1, 2, 0]), Line { node: String::new(), ..line("y", "b\"", [0; 6]) }];
        let mut out = Vec::new();
        assert!(write_json("main", &lines, &[], &mut out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"sink":"main","log":"x","node":"mx","stream":"a","ingested":10,"pending":1,"loaded":6,"#,
                r#""rejected":1,"duplicate":2,"missing":0}"#,
                "\n",
                r#"{"sink":"main","log":"y","node":null,"stream":"b\"","ingested":0,"pending":0,"loaded":0,"#,
                r#""rejected":0,"duplicate":0,"missing":0}"#,
                "\n",
            )
        );
        let mut out = Vec::new();
        assert!(!write_json("main", &[line("x", "a", [1, 0, 0, 0, 0, 1])], &[], &mut out).unwrap());
    }
}
