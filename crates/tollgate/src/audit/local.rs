//! The account of a machine with a log and the database.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use tollgate_load::{Audit, audit};
use tollgate_log::{DiskStorage, LogError, LogId, join_chain, log_ids};

use super::counts::Count;
use super::line::{AccountLine, problems, sums};
use super::side::Side;
use crate::config::{Config, may_exist};
use crate::load_end::gap_text;
use crate::print::{note, push_json_string, table, to_stdout_marked, write_table};
use crate::progress::Progress;

/// Prints the records of the log and the counts of each sink. Fails if a record is missing.
pub(super) fn run(config: &Config, is_json: bool) -> anyhow::Result<ExitCode> {
    let sinks = config.chosen(None)?;
    to_stdout_marked(|out| {
        let logs = log_ids(&DiskStorage, &config.log.dir).unwrap_or_default();
        // Each sink reads all logs once.
        let _progress = Progress::of_logs("audit", &config.log.dir, &logs, sinks.len() as u64);
        let mut is_exact = true;
        for (index, sink) in sinks.iter().enumerate() {
            if sinks.len() > 1 && !is_json {
                let space = if index > 0 { "\n" } else { "" };
                writeln!(out, "{space}sink {}", sink.name())?;
            }
            let account = match may_exist(&config.log.dir) {
                true => audit(&DiskStorage, &config.log.dir, &sink.options)
                    .with_context(|| format!("cannot count the records of sink {}", sink.name())),
                false => Ok(Audit::default()),
            };
            match account {
                Ok(Audit { rows, gaps, failed }) => {
                    let lines: Vec<_> = rows.iter().map(AccountLine::of).collect();
                    let gaps: Vec<_> = gaps.iter().map(gap_text).collect();
                    is_exact &= if is_json {
                        write_json(sink.name(), &lines, &gaps, &failed, out)?
                    } else {
                        write_lines(&lines, &gaps, &failed, out)?
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

/// Writes an object for each line. Gaps and problems go to stderr. Returns whether there is no problem.
fn write_json(
    sink: &str,
    lines: &[AccountLine],
    gaps: &[String],
    failed: &[(LogId, LogError)],
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    for line in lines {
        let mut text = "{\"sink\":".to_owned();
        push_json_string(&mut text, sink);
        line.push_json(Side::Local, &mut text);
        text.push('}');
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    let problems = all_problems(lines, failed);
    gaps.iter().chain(&problems).for_each(|remark| note(&format!("sink {sink}: {remark}")));
    Ok(problems.is_empty())
}

fn all_problems(lines: &[AccountLine], failed: &[(LogId, LogError)]) -> Vec<String> {
    let not_counted =
        |(log, error): &(LogId, LogError)| format!("not counted: log {log}: {}", join_chain(error));
    problems(&sums(lines)).into_iter().chain(failed.iter().map(not_counted)).collect()
}

/// Writes the lines, a sum for each stream, the gaps, the logs that cannot be counted, and the verdict.
/// Returns whether every record is accounted for.
fn write_lines(
    lines: &[AccountLine],
    gaps: &[String],
    failed: &[(LogId, LogError)],
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    if lines.is_empty() && failed.is_empty() {
        writeln!(out, "exact: the sink has no records of a log yet")?;
        return Ok(true);
    }
    let sums = sums(lines);
    let mut table = table(&Side::Local.header());
    for line in lines.iter().chain(sums.values()) {
        table.add_row(line.cells(Side::Local));
    }
    write_table(out, &mut table)?;
    gaps.iter().try_for_each(|gap| writeln!(out, "{gap}"))?;
    let problems = all_problems(lines, failed);
    if problems.is_empty() {
        let has_given_up = sums.values().any(|sum| sum.counts[Count::GivenUp] > 0);
        let last = if has_given_up { ", a duplicate or given up" } else { " or a duplicate" };
        writeln!(out, "exact: every record is pending, loaded, rejected{last}")?;
    }
    problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
    Ok(problems.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::counts::RecordCounts;
    use super::*;

    fn line(
        log: &str,
        stream: &str,
        [ingested, pending, loaded, rejected, duplicate, missing]: [u64; 6],
    ) -> AccountLine {
        let mut counts = RecordCounts::default();
        for (count, records) in [
            (Count::Ingested, ingested),
            (Count::Pending, pending),
            (Count::Loaded, loaded),
            (Count::Rejected, rejected),
            (Count::Duplicate, duplicate),
            (Count::Missing, missing),
        ] {
            counts[count] = records;
        }
        let (log, node) = (log.to_owned(), format!("m{log}"));
        AccountLine { log, node, stream: stream.to_owned(), is_complete: None, counts }
    }

    fn check(lines: &[AccountLine], expected: (bool, &str)) {
        let mut out = Vec::new();
        let is_exact = write_lines(lines, &[], &[], &mut out).unwrap();
        assert_eq!((is_exact, String::from_utf8(out).unwrap().as_str()), expected);
    }

    #[test]
    fn nothing_is_exact() {
        check(&[], (true, "exact: the sink has no records of a log yet\n"));
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
                "log  stream  ingested  pending  loaded  rejected  duplicate  missing  given_up  node\n\
                 x    a       10        1        6       1         2          0        0         mx\n\
                 x    b       1         0        1       0         0          0        0         mx\n\
                 y    a       5         5        0       0         0          0        0         my\n\
                 all  a       15        6        6       1         2          0        0\n\
                 all  b       1         0        1       0         0          0        0\n\
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
                "log  stream  ingested  pending  loaded  rejected  duplicate  missing  given_up  node\n\
                 x    a       10        0        7       0         0          3        0         mx\n\
                 x    b       4         0        5       0         0          0        0         mx\n\
                 all  a       10        0        7       0         0          3        0\n\
                 all  b       4         0        5       0         0          0        0\n\
                 missing: 3 of 10 records of a\n\
                 not exact: b has 4 ingested, 5 accounted for\n",
            ),
        );
    }

    #[test]
    fn json_has_each_line_with_its_sink_and_machine_and_no_sums() {
        let lines = [
            line("x", "a", [10, 1, 6, 1, 2, 0]),
            AccountLine { node: String::new(), ..line("y", "b\"", [0; 6]) },
        ];
        let mut out = Vec::new();
        assert!(write_json("main", &lines, &[], &[], &mut out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"sink":"main","log":"x","node":"mx","stream":"a","ingested":10,"pending":1,"loaded":6,"#,
                r#""rejected":1,"duplicate":2,"missing":0,"given_up":0}"#,
                "\n",
                r#"{"sink":"main","log":"y","node":null,"stream":"b\"","ingested":0,"pending":0,"loaded":0,"#,
                r#""rejected":0,"duplicate":0,"missing":0,"given_up":0}"#,
                "\n",
            )
        );
        let mut out = Vec::new();
        assert!(!write_json("main", &[line("x", "a", [1, 0, 0, 0, 0, 1])], &[], &[], &mut out).unwrap());
    }
}
