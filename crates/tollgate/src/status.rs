//! `tollgate status`: how each sink does, as its loader says, in the server's process or in another one.

use std::io::Write;
use std::path::Path;
use std::process::{self, ExitCode};

use anyhow::bail;
use serde_json::{Map, Value, json};
use tollgate_load::LoadStatus;

use crate::cli::StatusFormat;
use crate::config::Config;
use crate::control::ask_status;
use crate::log::log_folder;
use crate::print::{note, printable, table, to_stdout, write_table};
use crate::progress::size;

const HEADER: [&str; 9] =
    ["sink", "state", "lag", "segments", "bytes", "rows", "rejects", "duplicates", "missing"];
/// What is told of an error, and of how many logs that stopped: a report is one line.
const ERROR_BYTES_MAX: usize = 1 << 10;
const LOGS_MAX: usize = 8;

/// What a loader says of its sink. Counters count from the start of its process.
pub(crate) fn report(sink: &str, status: &LoadStatus) -> Value {
    let stopped = status.stopped_logs.iter().take(LOGS_MAX);
    let stopped_logs: Map<_, _> =
        stopped.map(|(log, reason)| (log.to_string(), Value::from(shortened(reason)))).collect();
    json!({
        "sink": sink,
        "process": process::id(),
        "state": status.state.name(),
        "lag_seconds": status.lag.as_secs_f64(),
        "lag_bytes": status.backlog.bytes,
        "lag_segments": status.backlog.segments,
        "rows": status.rows,
        "rejects": status.rejects,
        "duplicates": status.duplicates,
        "missing": status.missing,
        "filled": status.filled,
        "commits": status.commits,
        "bytes": status.bytes,
        "backoff_seconds": status.backoff.as_secs_f64(),
        "restarts": status.restarts,
        "last_error": status.last_error.as_deref().map(shortened),
        "stopped_logs": stopped_logs,
    })
}

/// What a server says of a sink that nobody loads.
pub(crate) fn absent(sink: &str) -> Value {
    json!({ "sink": sink, "state": "no loader" })
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(ERROR_BYTES_MAX)]
}

/// Asks the server of a configuration, or of a log folder, and prints what it says.
pub(crate) fn run(path: &Path, format: StatusFormat) -> anyhow::Result<ExitCode> {
    let dir = log_folder(path);
    let Some(lines) = ask_status(&dir) else {
        // Without a sound configuration the folder is only a guess.
        Config::load(path)?;
        bail!("no server answers at {}/control.sock", dir.display());
    };
    if !lines.lines().any(|line| line.contains("\"sink\":")) {
        note("the server waits for no sink: it was started with --no-load");
    }
    to_stdout(|out| {
        match format {
            StatusFormat::Json => out.write_all(lines.as_bytes())?,
            StatusFormat::Table => {
                let told = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
                let (reports, others): (Vec<_>, _) =
                    told.into_iter().partition(|report| report.get("sink").is_some());
                write_reports(&reports, out)?;
                others.iter().try_for_each(|serving| write_serving(serving, out))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn write_reports(reports: &[Value], out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = table(&HEADER);
    for report in reports {
        table.add_row(cells(report));
    }
    write_table(out, &mut table)?;
    for report in reports {
        let sink = text(&report["sink"]);
        if !report["last_error"].is_null() && report["state"] != "caught up" {
            writeln!(out, "sink {sink}: {}", text(&report["last_error"]))?;
        }
        for (log, reason) in report["stopped_logs"].as_object().into_iter().flatten() {
            writeln!(out, "sink {sink}: log {} is stopped: {}", printable(log), text(reason))?;
        }
    }
    Ok(())
}

/// Which configuration serves, and the apps in it.
fn write_serving(serving: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    let [version, loaded_at, digest] = ["version", "loaded_at", "digest"].map(|name| text(&serving[name]));
    writeln!(out, "serving version {version}, loaded at {loaded_at}, digest {digest}")?;
    for app in serving["apps"].as_array().into_iter().flatten() {
        let [host, path, dir] = ["host", "path", "dir"].map(|name| text(&app[name]));
        writeln!(out, "  app {host}{path}  ({dir})")?;
    }
    Ok(())
}

fn cells(report: &Value) -> [String; 9] {
    let count = |name: &str| text(&report[name]);
    let lag = report["lag_seconds"].as_f64().map_or_else(String::new, |seconds| format!("{seconds:.1} s"));
    let bytes = report["lag_bytes"].as_u64().map_or_else(String::new, size);
    let state = match report["backoff_seconds"].as_f64() {
        Some(seconds) if seconds > 0.0 => format!("{}, each {seconds:.1} s", text(&report["state"])),
        _ => text(&report["state"]),
    };
    let [segments, rows, rejects] = ["lag_segments", "rows", "rejects"].map(count);
    let [duplicates, missing] = ["duplicates", "missing"].map(count);
    [text(&report["sink"]), state, lag, segments, bytes, rows, rejects, duplicates, missing]
}

/// A value without quotes and without what steers a terminal.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tollgate_load::LoadState;

    #[test]
    fn a_sink_is_a_line_and_what_holds_it_up_another() {
        let status = LoadStatus {
            state: LoadState::Retrying,
            rows: 7,
            lag: Duration::from_millis(61_250),
            backoff: Duration::from_secs(30),
            last_error: Some(format!("{}\u{1b}", "x".repeat(ERROR_BYTES_MAX - 1))),
            ..LoadStatus::default()
        };
        let mut out = Vec::new();
        write_reports(&[report("main", &status), absent("other")], &mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "sink   state                  lag     segments  bytes  rows  rejects  duplicates  missing",
                "main   retrying, each 30.0 s  61.2 s  0         0 B    7     0        0           0",
                "other  no loader",
            ]
        );
        assert_eq!(lines[3], format!("sink main: {}\\u{{1b}}", "x".repeat(ERROR_BYTES_MAX - 1)));
    }
}
