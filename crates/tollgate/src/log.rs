//! `tollgate log`: lists, prints and checks logs. Nothing is changed, and a server that writes is not disturbed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use tollgate_log::{
    Cursor, CursorStep, DiskStorage, LogError, LogId, Record, RecordBatch, RecordBody, SegmentName,
    SegmentState, SegmentVerdict, Sequence, Storage, Value, log_ids, read_footer, scan_segment, segments,
    verify_segment,
};

use crate::config::{Config, FILE_NAME};
use crate::print::{
    base64, note, push_formatted, push_json_float, push_json_string, table, to_stdout, write_table,
};

/// Finds the log folder that a path of the command line means.
fn log_dir(path: &Path) -> anyhow::Result<PathBuf> {
    let is_configured = path.is_file() || path.join(FILE_NAME).is_file();
    let below = path.join("data/log");
    let dir = if is_configured {
        Config::load(path)?.log.dir
    } else if below.is_dir() || path.join("routes").is_dir() {
        below
    } else {
        path.to_owned()
    };
    if !dir.is_dir() {
        bail!("{} is no folder: nothing was recorded yet", dir.display());
    }
    Ok(dir)
}

/// The logs in a folder; says so if there is none.
fn logs_in(dir: &Path) -> Result<Vec<LogId>, LogError> {
    let ids = log_ids(&DiskStorage, dir)?;
    if ids.is_empty() {
        note(&format!("no log in {}", dir.display()));
    }
    Ok(ids)
}

/// Lists the segments of every log.
pub(crate) fn ls(path: &Path) -> anyhow::Result<ExitCode> {
    let dir = log_dir(path)?;
    let mut table = table(&["log", "segment", "state", "sequence", "records", "bytes", "digest"]);
    for log in logs_in(&dir)? {
        for (name, path) in segments(&DiskStorage, &dir, log)? {
            let (name, path) = settled(name, path);
            let content = match Content::of(name, &path) {
                // Deleted since it was listed.
                Err(error) if error.is_not_found() => continue,
                content => content.with_context(|| path.display().to_string())?,
            };
            let (segment, state, bytes) =
                (format!("{:020}", name.first.0), name.state.to_string(), content.bytes);
            let (sequence, records) = (content.sequence(), content.records.to_string());
            table.add_row([
                log.to_string(),
                segment,
                state,
                sequence,
                records,
                bytes.to_string(),
                content.digest,
            ]);
        }
    }
    to_stdout(|out| {
        write_table(out, &mut table)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The sealer may have renamed a segment since it was listed.
fn settled(name: SegmentName, path: PathBuf) -> (SegmentName, PathBuf) {
    let sealed = name.with_state(SegmentState::Sealed);
    match path.parent().map(|folder| sealed.path(folder)) {
        Some(renamed) if name.state == SegmentState::Open && !path.exists() && renamed.exists() => {
            (sealed, renamed)
        }
        _ => (name, path),
    }
}

/// What a listing shows of a segment.
struct Content {
    first: Sequence,
    last: Sequence,
    records: u64,
    bytes: u64,
    digest: String,
}

impl Content {
    /// Reads the footer of a sealed segment, and all of another one.
    fn of(name: SegmentName, path: &Path) -> Result<Self, LogError> {
        let sealed = match name.state {
            SegmentState::Sealed => read_footer(&DiskStorage, path)?,
            SegmentState::Open | SegmentState::Damaged => None,
        };
        if let Some(footer) = sealed {
            let bytes = path.metadata().map_err(LogError::io("read the size of", path))?.len();
            let digest = footer.digest.to_string();
            return Ok(Self { first: name.first, last: footer.last, records: footer.records, bytes, digest });
        }
        let scan = scan_segment(&DiskStorage, path)?;
        let digest = scan.footer.as_ref().map_or_else(|| "-".to_owned(), |footer| footer.digest.to_string());
        let (last, records) = (scan.last, scan.records());
        Ok(Self { first: name.first, last, records, bytes: scan.file_bytes, digest })
    }

    fn sequence(&self) -> String {
        if self.records == 0 { "-".to_owned() } else { format!("{}..{}", self.first, self.last) }
    }
}

/// Prints the records of every log, or of one, as JSON lines.
pub(crate) fn cat(path: &Path, stream: Option<&str>, only: Option<LogId>) -> anyhow::Result<ExitCode> {
    let dir = log_dir(path)?;
    let ids = match only {
        Some(log) if !dir.join(log.to_string()).is_dir() => bail!("no log {log} in {}", dir.display()),
        Some(log) => vec![log],
        None => logs_in(&dir)?,
    };
    to_stdout(|out| {
        let mut is_whole = true;
        for log in ids {
            is_whole &= cat_log(&dir, log, stream, out).with_context(|| format!("log {log}"))?;
        }
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Prints one log to its present end; returns whether nothing was missing.
fn cat_log(dir: &Path, log: LogId, stream: Option<&str>, out: &mut dyn Write) -> anyhow::Result<bool> {
    let mut cursor = Cursor::over_kept(Arc::new(DiskStorage), dir, log);
    let mut is_whole = true;
    loop {
        match cursor.step(None)? {
            CursorStep::CaughtUp => return Ok(is_whole),
            CursorStep::Batch(batch) => is_whole &= cat_batch(&batch, log, stream, out)?,
            CursorStep::Gap(gap) => {
                is_whole = false;
                out.flush()?;
                note(&format!("log {log}: records {}-{} are missing: {}", gap.first, gap.last, gap.reason));
            }
        }
    }
}

fn cat_batch(
    batch: &RecordBatch<'_>,
    log: LogId,
    stream: Option<&str>,
    out: &mut dyn Write,
) -> std::io::Result<bool> {
    let mut line = String::new();
    let mut is_whole = true;
    for record in batch.records() {
        match record {
            Ok(record) if stream.is_none_or(|stream| record.schema.stream() == stream) => {
                line.clear();
                push_record(&mut line, log, &record);
                writeln!(out, "{line}")?;
            }
            Ok(_) => {}
            Err(error) => {
                is_whole = false;
                note(&format!("log {log}: a record from {} on cannot be read: {error}", batch.first()));
            }
        }
    }
    Ok(is_whole)
}

/// Appends one record as a JSON object: who it is, then its columns, or why it was rejected.
fn push_record(out: &mut String, log: LogId, record: &Record<'_>) {
    push_formatted(out, format_args!("{{\"log\":\"{log}\",\"sequence\":{},\"stream\":", record.sequence));
    push_json_string(out, record.schema.stream());
    match &record.body {
        RecordBody::Row(values) => {
            for (column, value) in record.schema.columns().iter().zip(values) {
                out.push(',');
                push_json_string(out, &column.name);
                out.push(':');
                push_value(out, *value);
            }
        }
        RecordBody::Reject { reason, item } => {
            out.push_str(",\"reject\":");
            push_json_string(out, reason);
            match std::str::from_utf8(item) {
                Ok(text) => {
                    out.push_str(",\"item\":");
                    push_json_string(out, text);
                }
                Err(_) => push_formatted(out, format_args!(",\"item_base64\":\"{}\"", base64(item))),
            }
        }
    }
    out.push('}');
}

fn push_value(out: &mut String, value: Value<'_>) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => push_formatted(out, format_args!("{value}")),
        Value::Int(number) => push_formatted(out, format_args!("{number}")),
        Value::Float(number) => push_json_float(out, number),
        Value::Text(text) => push_json_string(out, text),
        Value::Bytes(bytes) => push_formatted(out, format_args!("\"{}\"", base64(bytes))),
        Value::Timestamp(us) => match jiff::Timestamp::from_microsecond(us) {
            Ok(time) => push_formatted(out, format_args!("\"{time}\"")),
            // Beyond the year 9999 RFC 3339 has no name for it.
            Err(_) => push_formatted(out, format_args!("{us}")),
        },
        // A line end in JSON text is blank between tokens: one in a string is written as an escape.
        Value::Json(text) => out.push_str(&text.replace(['\n', '\r'], " ")),
        // A log id is a UUID, written as one.
        Value::Uuid(bytes) => push_formatted(out, format_args!("\"{}\"", LogId::from_bytes(bytes))),
        Value::Inet(address) => push_formatted(out, format_args!("\"{address}\"")),
    }
}

/// Checks every segment of every log.
pub(crate) fn verify(path: &Path) -> anyhow::Result<ExitCode> {
    let dir = log_dir(path)?;
    let ids = logs_in(&dir)?;
    to_stdout(|out| {
        let mut counts = Counts::default();
        for log in &ids {
            verify_log(&dir, *log, &mut counts, out)?;
        }
        writeln!(out, "{}", counts.summary(ids.len()))?;
        Ok(if counts.bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

#[derive(Debug, Default)]
struct Counts {
    ok: u64,
    open: u64,
    torn: u64,
    bad: u64,
}

impl Counts {
    fn summary(&self, logs: usize) -> String {
        let Self { ok, open, torn, bad } = self;
        format!(
            "{} segments in {logs} logs: {ok} ok, {open} open, {torn} torn, {bad} bad",
            ok + open + torn + bad
        )
    }
}

/// What a check of one segment comes to.
enum Verdict {
    Ok(String),
    /// It is written right now, or whole and not sealed yet.
    Open(String),
    /// Its end was never acknowledged as synced; the next start cuts it.
    Torn(String),
    Bad(String),
}

fn verify_log(dir: &Path, log: LogId, counts: &mut Counts, out: &mut dyn Write) -> anyhow::Result<()> {
    let is_live = is_written(&dir.join(log.to_string()));
    let mut before = None;
    for (index, (name, path)) in segments(&DiskStorage, dir, log)?.into_iter().enumerate() {
        let (name, path) = settled(name, path);
        if index == 0 && name.first == Sequence::FIRST {
            before = Some((Sequence::FIRST, 0));
        }
        let checked = verify_segment(&DiskStorage, name, &path, before);
        if matches!(&checked, Err(error) if error.is_not_found()) {
            // Deleted since it was listed.
            before = None;
            continue;
        }
        before = checked.as_ref().ok().and_then(end_of);
        let line = match judge(name, checked, is_live) {
            Verdict::Ok(text) => {
                counts.ok += 1;
                format!("ok    {log}/{name}  {text}")
            }
            Verdict::Open(text) => {
                counts.open += 1;
                format!("open  {log}/{name}  {text}")
            }
            Verdict::Torn(text) => {
                counts.torn += 1;
                format!("torn  {} {text}", path.display())
            }
            Verdict::Bad(text) => {
                counts.bad += 1;
                format!("BAD   {} {text}", path.display())
            }
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Whether a process writes the log now. Where that cannot be told it may be.
fn is_written(folder: &Path) -> bool {
    let lock = folder.join("lock");
    // The lock file is not made here: nothing is changed.
    lock.is_file() && !matches!(DiskStorage.try_lock(&lock), Ok(Some(_)))
}

/// What the next segment has to continue, where that is known.
fn end_of(checked: &SegmentVerdict) -> Option<(Sequence, u32)> {
    checked.problem.is_none().then(|| (checked.scan.last.after(1), checked.scan.chain))
}

fn judge(name: SegmentName, checked: Result<SegmentVerdict, LogError>, is_live: bool) -> Verdict {
    let SegmentVerdict { scan, problem } = match checked {
        Err(error) => return Verdict::Bad(format!(": {:#}", anyhow::Error::new(error))),
        Ok(checked) => checked,
    };
    let records = match scan.records() {
        0 => "no records".to_owned(),
        _ => format!("records {}-{}", name.first, scan.last),
    };
    let Some(problem) = problem else {
        let digest =
            scan.footer.as_ref().map_or_else(|| "not sealed".to_owned(), |footer| footer.digest.to_string());
        return match name.state {
            SegmentState::Sealed => Verdict::Ok(format!("{records}  {digest}")),
            SegmentState::Open => Verdict::Open(format!("{records}  {digest}")),
            SegmentState::Damaged => Verdict::Bad(format!("{records}: set aside by recovery")),
        };
    };
    let is_unacknowledged = name.state == SegmentState::Open && problem.first > scan.durable;
    if is_unacknowledged && is_live {
        return Verdict::Open(format!("{records}  being written"));
    }
    let last = problem.last.map_or_else(|| "?".to_owned(), |last| last.to_string());
    let text = format!("at byte {}: records {}-{last}: {}", problem.offset, problem.first, problem.reason);
    if is_unacknowledged { Verdict::Torn(text) } else { Verdict::Bad(text) }
}

#[cfg(test)]
mod tests;
