//! `tollgate audit --kafka`: compares the rows in topics with the counts of the sinks that wrote them, and of
//! the databases that load them.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::json;
use tollgate_load::{PartitionAccount, SentAccount, SinkKind, SinkOptions, TopicAudit, audit_topics};
use tollgate_queue::BrokerOptions;

use crate::cli::WrongUsage;
use crate::config::Config;
use crate::load_topics::broker_options;
use crate::print::{printable, to_stdout_marked};

/// Prints the accounts of each cluster. The exit code is 1 if a row is missing, doubled or not
/// visible yet.
pub(super) fn run(config: &Config, brokers: &str, is_json: bool) -> anyhow::Result<ExitCode> {
    let clusters = clusters(config, brokers)?;
    ensure!(
        !clusters.is_empty(),
        WrongUsage("the configuration has no Kafka sink: name the brokers, like --kafka=HOST:9092")
    );
    let databases: Vec<SinkOptions> =
        config.sinks.iter().map(|sink| sink.options.clone()).filter(|sink| sink.kind.is_database()).collect();
    let mut audits = Vec::new();
    for cluster in clusters {
        let audit = audit_topics(&cluster, &databases)
            .with_context(|| format!("cannot count the rows of topics at {}", cluster.brokers))?;
        audits.push(audit);
    }
    to_stdout_marked(|out| {
        let mut is_well = true;
        for audit in &audits {
            if is_json {
                write_json(audit, out)?;
            } else {
                write_table(audit, out)?;
            }
            is_well &= problems(audit).is_empty();
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Returns the named cluster, or those of the Kafka sinks.
fn clusters(config: &Config, brokers: &str) -> anyhow::Result<Vec<BrokerOptions>> {
    if !brokers.is_empty() {
        return Ok(vec![broker_options(config, brokers)?]);
    }
    let mut clusters: Vec<BrokerOptions> = Vec::new();
    for sink in &config.sinks {
        if let SinkKind::Kafka(kafka) = &sink.options.kind
            && !clusters.iter().any(|known| known.brokers == kafka.broker.brokers)
        {
            clusters.push(kafka.broker.clone());
        }
    }
    Ok(clusters)
}

fn write_table(audit: &TopicAudit, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:36}  {:12} {:16} {:>12} {:>12} {:>8} {:>8}",
        "log", "sink", "stream", "sent", "in topic", "missing", "doubled"
    )?;
    for row in &audit.sent {
        writeln!(
            out,
            "{:36}  {:12} {:16} {:>12} {:>12} {:>8} {:>8}",
            row.log.to_string(),
            printable(&row.sink),
            printable(&row.stream),
            row.sent,
            row.found,
            row.missing(),
            row.doubled
        )?;
    }
    if !audit.loaded.is_empty() {
        writeln!(
            out,
            "\n{:36}  {:12} {:>12} {:>12} {:>12} {:>8}",
            "partition", "sink", "passed", "counted", "pending", "missing"
        )?;
    }
    for row in &audit.loaded {
        writeln!(
            out,
            "{:36}  {:12} {:>12} {:>12} {:>12} {:>8}",
            printable(&row.place.to_string()),
            printable(&row.sink),
            row.passed,
            row.counted,
            row.pending,
            row.missing
        )?;
    }
    let problems = problems(audit);
    problems.iter().try_for_each(|problem| writeln!(out, "{problem}"))?;
    if problems.is_empty() {
        writeln!(out, "no row is missing or doubled")?;
    }
    Ok(())
}

fn write_json(audit: &TopicAudit, out: &mut dyn Write) -> std::io::Result<()> {
    for row in &audit.sent {
        let SentAccount { sink, log, stream, sent, found, doubled, is_cut, .. } = row;
        let line = json!({
            "sink": sink, "log": log.to_string(), "stream": stream, "sent": sent, "in_topic": found,
            "missing": row.missing(), "not_visible_yet": row.hidden(), "doubled": doubled,
            "deleted_by_topic": is_cut,
        });
        writeln!(out, "{line}")?;
    }
    for row in &audit.loaded {
        let PartitionAccount { sink, place, passed, pending, counted, missing, is_cut } = row;
        let line = json!({
            "sink": sink, "topic": place.topic, "partition": place.partition, "passed": passed,
            "counted": counted, "pending": pending, "missing": missing, "deleted_by_topic": is_cut,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn problems(audit: &TopicAudit) -> Vec<String> {
    let mut problems = Vec::new();
    for row in &audit.sent {
        let (sink, log, stream) = (printable(&row.sink), row.log, printable(&row.stream));
        if row.missing() > 0 {
            problems.push(format!(
                "missing: {} of {} rows of {stream} of log {log}, which sink {sink} sent",
                row.missing(),
                row.sent
            ));
        }
        if let Some(place) = row.open.as_ref().filter(|_| row.hidden() > 0) {
            problems.push(format!(
                "not visible yet: {} of {} rows of {stream} of log {log}, which sink {sink} sent: {} has an \
                 open transaction: wait for its end, or abort it by kafka-transactions.sh",
                row.hidden(),
                row.sent,
                printable(&place.to_string()),
            ));
        }
        if row.doubled > 0 {
            problems.push(format!("doubled: {} rows of {stream} of log {log} by sink {sink}", row.doubled));
        }
    }
    for row in &audit.loaded {
        let (sink, place) = (printable(&row.sink), printable(&row.place.to_string()));
        if row.missing > 0 {
            problems.push(format!("missing: {} offsets of {place} in sink {sink}", row.missing));
        }
        if !row.is_exact() {
            problems.push(format!(
                "not exact: {place} has {} records before the position of sink {sink}, {} accounted for",
                row.passed, row.counted
            ));
        }
    }
    problems
}
