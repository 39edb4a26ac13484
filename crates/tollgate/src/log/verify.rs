//! `tollgate log verify`: checks every checksum and digest, the chain through segments and logs, and the
//! loaded positions.
//!
//! The database of a sink stores the position in each log, and the chained checksum of the batch there. If
//! the log was changed after it was loaded, the checksum at this position differs. A change is found even if
//! all checksums and digests in the log were computed again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tollgate_log::{
    AcceptedDamage, BatchEnd, Deleted, DiskStorage, LogError, LogId, Position, SegmentEnd, SegmentName,
    SegmentState, SegmentVerdict, Sequence, Storage, batch_that_ends_at, log_ids, segments, verify_segment,
};

use super::folder::{LogFolder, logs_in, settled};
use crate::config::Config;
use crate::print::{counted, note, to_stdout_marked};
use crate::progress::Progress;

/// Checks every segment of every log.
pub(super) fn run(path: &Path) -> anyhow::Result<ExitCode> {
    let LogFolder { dir, config } = LogFolder::find(path)?;
    // The positions are read before the logs. A position that is read later could be past the records that
    // were read from a log.
    let loaded = config.as_ref().and_then(loaded);
    let ids = logs_in(&dir)?;
    to_stdout_marked(|out| {
        // Sealed segments are read twice: once batch by batch, once for the digest.
        let _progress = Progress::of_logs("verify", &dir, &ids, 2);
        let accepted = AcceptedDamage::read(&DiskStorage, &dir)?;
        let counts = SegmentCounts::default();
        let mut verify = Verify { dir: &dir, accepted, loaded: loaded.as_ref(), counts, out };
        let mut heads = BTreeMap::new();
        for log in &ids {
            heads.extend(verify.log(*log)?.map(|before| (*log, before)));
        }
        verify.heads(&heads)?;
        verify.deleted()?;
        verify.end(ids.len())
    })
}

/// The position in each log.
pub(super) type Positions = BTreeMap<LogId, Position>;

/// Asks the databases of a configuration. Returns the highest position in each log. `None`: there is no
/// database yet, or no database can be read. An unreadable database is reported.
fn loaded(config: &Config) -> Option<Positions> {
    let mut all: Option<Positions> = None;
    for sink in &config.sinks {
        let found = sink.options.positions().unwrap_or_else(|error| {
            note(&format!("cannot compare with the database: {:#}", anyhow::Error::new(error)));
            None
        });
        for (log, position) in found.into_iter().flatten() {
            let furthest = all.get_or_insert_default().entry(log).or_insert(position);
            if furthest.last < position.last {
                *furthest = position;
            }
        }
    }
    all
}

#[derive(Debug, Default)]
pub(super) struct SegmentCounts {
    pub(super) ok: u64,
    pub(super) open: u64,
    pub(super) torn: u64,
    pub(super) bad: u64,
    /// Number of damaged segments whose damage an operator has accepted.
    pub(super) accepted: u64,
    /// Number of logs whose checksum at the loaded position is the same as in the database.
    pub(super) same: u64,
    /// Number of logs that differ from the database, are missing, or cannot be checked.
    pub(super) differ: u64,
}

impl SegmentCounts {
    pub(super) fn summary(&self, logs: usize) -> String {
        let Self { ok, open, torn, bad, accepted, .. } = self;
        let segments = counted(ok + open + torn + bad + accepted, "segment");
        let logs = counted(logs as u64, "log");
        let accepted = if *accepted > 0 { format!(", {accepted} accepted") } else { String::new() };
        format!("{segments} in {logs}: {ok} ok, {open} open, {torn} torn, {bad} bad{accepted}")
    }
}

/// The line that is printed for one segment.
enum SegmentReport {
    Ok(String),
    /// The segment is being written, or it is complete but not sealed yet.
    Open(String),
    /// The segment has a torn tail, which was never acknowledged as synced. The next start cuts the tail off.
    Torn(String),
    Bad(String),
    /// The segment is damaged, and an operator has accepted this damage.
    Accepted(String),
}

/// A segment that was checked.
struct Checked {
    name: SegmentName,
    path: PathBuf,
    /// `None`: the segment could not be read.
    verdict: Option<SegmentVerdict>,
}

/// A check of all logs of a folder.
pub(super) struct Verify<'a> {
    pub(super) dir: &'a Path,
    pub(super) accepted: AcceptedDamage,
    /// `None`: there is no database to compare with.
    pub(super) loaded: Option<&'a Positions>,
    pub(super) counts: SegmentCounts,
    pub(super) out: &'a mut dyn Write,
}

impl Verify<'_> {
    /// Checks one log. Returns the id of the previous log, which the segment header names. An unreadable log
    /// is reported and does not end the check of the other logs.
    pub(super) fn log(&mut self, log: LogId) -> anyhow::Result<Option<LogId>> {
        match self.check(log) {
            Err(error) => match error.downcast_ref::<LogError>() {
                None => Err(error),
                Some(cause) => {
                    self.counts.differ += 1;
                    writeln!(self.out, "BAD   {log}  {}", chain(cause))?;
                    Ok(None)
                }
            },
            before => before,
        }
    }

    /// Reports each line of the file `deleted` with a record number that is out of range.
    fn deleted(&mut self) -> anyhow::Result<()> {
        let deleted = match Deleted::read(&DiskStorage, self.dir) {
            Err(error) => {
                self.counts.differ += 1;
                writeln!(self.out, "BAD   {}", chain(&error))?;
                return Ok(());
            }
            Ok(deleted) => deleted,
        };
        for (log, number) in deleted.impossible() {
            self.counts.differ += 1;
            writeln!(
                self.out,
                "BAD   {log}  the file `deleted` names record {number}, a number that no record can have"
            )?;
        }
        Ok(())
    }

    fn check(&mut self, log: LogId) -> anyhow::Result<Option<LogId>> {
        let is_live = is_written(&self.dir.join(log.to_string()));
        let mut before = None;
        let mut segments_checked = Vec::new();
        for (index, (name, path)) in segments(&DiskStorage, self.dir, log)?.into_iter().enumerate() {
            let (name, path) = settled(name, path);
            if index == 0 && name.first == Sequence::FIRST {
                before = Some(SegmentEnd::OF_NOTHING);
            }
            let checked = verify_segment(&DiskStorage, name, &path, before);
            before = checked.as_ref().ok().and_then(SegmentVerdict::end);
            if checked.as_ref().is_err_and(LogError::is_not_found) {
                // The segment was deleted after it was listed.
                continue;
            }
            let report = match judge(name, &checked, is_live) {
                SegmentReport::Bad(text) if self.accepted.covers(&DiskStorage, self.dir, log, name)? => {
                    SegmentReport::Accepted(text)
                }
                report => report,
            };
            self.print_segment(log, name, &path, report)?;
            segments_checked.push(Checked { name, path, verdict: checked.ok() });
        }
        if let Some(position) = self.loaded.and_then(|loaded| loaded.get(&log)) {
            self.compare(*position, &segments_checked)?;
        }
        let headers = segments_checked.iter().filter_map(|one| one.verdict.as_ref()?.scan.header.as_ref());
        Ok(headers.filter_map(|header| header.log_before).next())
    }

    fn print_segment(
        &mut self,
        log: LogId,
        name: SegmentName,
        path: &Path,
        report: SegmentReport,
    ) -> anyhow::Result<()> {
        let (count, line) = match report {
            SegmentReport::Ok(text) => (&mut self.counts.ok, format!("ok    {log}/{name}  {text}")),
            SegmentReport::Open(text) => (&mut self.counts.open, format!("open  {log}/{name}  {text}")),
            SegmentReport::Torn(text) => (&mut self.counts.torn, format!("torn  {} {text}", path.display())),
            SegmentReport::Accepted(text) => {
                (&mut self.counts.accepted, format!("seen  {} {text}", path.display()))
            }
            SegmentReport::Bad(text) => (&mut self.counts.bad, format!("BAD   {} {text}", path.display())),
        };
        *count += 1;
        writeln!(self.out, "{line}")?;
        // A check of many gigabytes lasts long, so each finding is shown at once.
        self.out.flush()?;
        Ok(())
    }

    /// Compares a log with the position in the database.
    fn compare(&mut self, position: Position, segments: &[Checked]) -> anyhow::Result<()> {
        match comparison(position, segments)? {
            Comparison::Same => self.counts.same += 1,
            Comparison::Unknown => {}
            Comparison::Differs { path, offset, reason } => {
                self.counts.differ += 1;
                let first = segments.first().map_or(Sequence::FIRST, |segment| segment.name.first);
                let (path, last) = (path.display(), position.last);
                writeln!(self.out, "BAD   {path} at byte {offset}: records {first}-{last}: {reason}")?;
            }
        }
        Ok(())
    }

    /// Looks for missing logs: a later log names the log as its predecessor, and the folder does not have it.
    ///
    /// A missing log may have been deleted after every record was loaded. If the folder still has older logs
    /// and the database has no position in the missing log, the records of the missing log are lost.
    pub(super) fn heads(&mut self, heads: &BTreeMap<LogId, LogId>) -> anyhow::Result<()> {
        let here = log_ids(&DiskStorage, self.dir)?;
        for (log, before) in heads.iter().filter(|(_, before)| !here.contains(before)) {
            let position = self.loaded.map(|loaded| loaded.get(before));
            let is_between = here.iter().any(|other| other < before);
            let (word, known) = match position {
                None => ("gone", "no database knows how far it was loaded".to_owned()),
                Some(Some(position)) => ("gone", format!("it was loaded up to {}", position.last)),
                Some(None) if is_between => ("BAD ", "the database has no record of it".to_owned()),
                Some(None) => ("gone", "the database has no record of it".to_owned()),
            };
            self.counts.differ += u64::from(word == "BAD ");
            writeln!(self.out, "{word}  {before}  the log before {log} is missing: {known}")?;
        }
        Ok(())
    }

    fn end(self, logs: usize) -> anyhow::Result<ExitCode> {
        let SegmentCounts { same, differ, .. } = self.counts;
        if self.loaded.is_some() {
            writeln!(self.out, "{} equal to the database, {differ} different", counted(same, "log"))?;
        }
        writeln!(self.out, "{}", self.counts.summary(logs))?;
        let is_good = self.counts.bad == 0 && differ == 0;
        Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The result of comparing a log with its position in the database.
enum Comparison {
    Same,
    /// The position cannot be compared, because the log is damaged, has a gap before it, or is deleted there.
    Unknown,
    Differs {
        path: PathBuf,
        offset: u64,
        reason: String,
    },
}

fn comparison(position: Position, segments: &[Checked]) -> Result<Comparison, LogError> {
    let holding = segments.iter().rev().find(|segment| segment.name.first <= position.last);
    let Some(Checked { name, path, verdict: Some(verdict) }) = holding else {
        return Ok(Comparison::Unknown);
    };
    let (path, scan) = (path.clone(), &verdict.scan);
    if scan.failure.is_some() || name.state == SegmentState::Damaged {
        return Ok(Comparison::Unknown);
    }
    let differs = |offset, reason| Ok(Comparison::Differs { path: path.clone(), offset, reason });
    if scan.last < position.last {
        let (loaded, last) = (position.last, scan.last);
        return differs(scan.end, format!("the database has records up to {loaded}, the log ends at {last}"));
    }
    let Some(expected) = position.chain else { return Ok(Comparison::Unknown) };
    match batch_that_ends_at(&DiskStorage, &path, position.last)? {
        Some(BatchEnd { chain, .. }) if chain == expected => Ok(Comparison::Same),
        Some(BatchEnd { offset, chain }) => differs(
            offset,
            format!(
                "changed after they were loaded: the checksum is {chain:08x}, the database has {expected:08x}"
            ),
        ),
        None => {
            differs(0, format!("changed after they were loaded: no batch ends at record {}", position.last))
        }
    }
}

/// Returns whether a process writes the log now. Also returns true if the lock cannot be tried.
fn is_written(folder: &Path) -> bool {
    let lock = folder.join("lock");
    // The lock file is not made here, because this command changes nothing.
    lock.is_file() && !matches!(DiskStorage.try_lock(&lock), Ok(Some(_)))
}

fn judge(name: SegmentName, checked: &Result<SegmentVerdict, LogError>, is_live: bool) -> SegmentReport {
    let SegmentVerdict { scan, problem } = match checked {
        Err(error) => return SegmentReport::Bad(format!(": {}", chain(error))),
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
            SegmentState::Sealed => SegmentReport::Ok(format!("{records}  {digest}")),
            SegmentState::Open => SegmentReport::Open(format!("{records}  {digest}")),
            SegmentState::Damaged => SegmentReport::Bad(format!("{records}: set aside by recovery")),
        };
    };
    let is_unacknowledged = name.state == SegmentState::Open && problem.first > scan.durable;
    if is_unacknowledged && is_live {
        return SegmentReport::Open(format!("{records}  being written"));
    }
    let last = problem.last.map_or_else(|| "?".to_owned(), |last| last.to_string());
    let text = format!("at byte {}: records {}-{last}: {}", problem.offset, problem.first, problem.reason);
    if is_unacknowledged { SegmentReport::Torn(text) } else { SegmentReport::Bad(text) }
}

/// Returns an error with its cause.
fn chain(error: &LogError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
