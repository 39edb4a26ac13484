//! `tollgate log tail`: follows the records that a server writes, until SIGINT or SIGTERM.
//!
//! Only synced records are shown, so no shown record is ever lost. The running server reports its watermark
//! over its control socket. Without a server, only sealed segments are shown. Only the writer of an open
//! segment knows which part is synced. If the writer is dead, the next start seals the part that is intact.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tollgate_log::{
    Cursor, CursorStep, DiskStorage, Gap, LogError, LogId, Position, SegmentState, Sequence, Watermark,
    log_ids, read_footer, segments,
};

use super::folder::LogFolder;
use super::format::Printer;
use crate::cli::RecordFormat;
use crate::control::ask;
use crate::print::{note, to_stdout};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(100);

/// Prints the last records of the newest log, then all new records.
pub(super) fn run(
    path: &Path,
    stream: Option<&str>,
    format: RecordFormat,
    lines: u64,
) -> anyhow::Result<ExitCode> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, is_ended.clone()).context("cannot listen for signals")?;
    }
    let LogFolder { dir, config } = LogFolder::find(path)?;
    let mut printer = Printer::new(format, stream, config.as_ref())?;
    to_stdout(|out| {
        let mut tail = Tail::new(&dir, lines)?;
        printer.begin(out)?;
        while !is_ended.load(Ordering::Relaxed) {
            tail.look(&mut printer, out)?;
            out.flush()?;
            thread::sleep(PERIOD);
        }
        printer.finish();
        Ok(ExitCode::SUCCESS)
    })
}

/// A log that is followed.
struct Followed {
    cursor: Cursor,
    /// Records before this number are not shown.
    from: Sequence,
}

impl Followed {
    /// Follows a log from a record on. The cursor begins before the segment of this record.
    fn from(dir: &Path, log: LogId, from: Sequence) -> Result<Self, LogError> {
        let segments = segments(&DiskStorage, dir, log)?;
        let holding = segments.iter().rev().find(|(name, _)| name.first <= from);
        let position = holding.map(|(name, _)| Position { last: name.first.before(), chain: None });
        Ok(Self { cursor: Cursor::over_kept(Arc::new(DiskStorage), dir, log, position), from })
    }

    /// Follows a log from its beginning.
    fn whole(dir: &Path, log: LogId) -> Self {
        Self { cursor: Cursor::over_kept(Arc::new(DiskStorage), dir, log, None), from: Sequence::FIRST }
    }

    /// Prints the records from the last look up to `reach`.
    fn print(&mut self, reach: Sequence, printer: &mut Printer, out: &mut dyn Write) -> anyhow::Result<()> {
        let log = self.cursor.log();
        loop {
            let step = match self.cursor.step(Some(reach)) {
                // The next batch shows which records the damage destroyed.
                Err(LogError::DamagedEnd { .. }) => return Ok(()),
                step => step?,
            };
            match step {
                CursorStep::CaughtUp => return Ok(()),
                CursorStep::Batch(batch) => {
                    printer.print(log, &batch, self.from, out)?;
                }
                CursorStep::Gap(Gap { first, last, reason }) => {
                    out.flush()?;
                    note(&format!("log {log}: records {first}-{last} are missing: {reason}"));
                }
            }
        }
    }
}

/// Follows all logs of a folder.
pub(super) struct Tail {
    dir: PathBuf,
    /// `None`: the log is not shown, because it was old at the start of the command.
    logs: BTreeMap<LogId, Option<Followed>>,
}

impl Tail {
    /// Begins `lines` records before the end of the newest log. Older records are not shown.
    pub(super) fn new(dir: &Path, lines: u64) -> anyhow::Result<Self> {
        let mut tail = Self { dir: dir.to_owned(), logs: BTreeMap::new() };
        let ids = log_ids(&DiskStorage, dir)?;
        tail.logs.extend(ids.iter().map(|log| (*log, None)));
        if let Some(newest) = ids.last() {
            let reach = reach(dir, *newest, ask(dir))?;
            let from = Sequence(reach.0.saturating_sub(lines)).after(1);
            tail.logs.insert(*newest, Some(Followed::from(dir, *newest, from)?));
        }
        Ok(tail)
    }

    /// Prints the records since the last look.
    pub(super) fn look(&mut self, printer: &mut Printer, out: &mut dyn Write) -> anyhow::Result<()> {
        let ids = match log_ids(&DiskStorage, &self.dir) {
            Err(error) if error.is_not_found() => Vec::new(),
            ids => ids?,
        };
        let watermark = ask(&self.dir);
        for log in ids {
            let followed = self.logs.entry(log).or_insert_with(|| Some(Followed::whole(&self.dir, log)));
            let Some(one) = followed else { continue };
            let result = match reach(&self.dir, log, watermark) {
                // The log was deleted after it was listed.
                Err(error) if error.is_not_found() => continue,
                reach => reach.map_err(anyhow::Error::new),
            };
            match result.and_then(|reach| one.print(reach, printer, out)) {
                // The log may have a later version, for example. The other logs are followed nevertheless.
                Err(error) if error.is::<LogError>() => {
                    out.flush()?;
                    note(&format!("log {log} cannot be followed any further: {error:#}"));
                    *followed = None;
                }
                result => result?,
            }
        }
        Ok(())
    }
}

/// Returns the last record of a log that may be shown: the watermark of its server. Without a server, it is
/// the last record before the first open segment.
fn reach(dir: &Path, log: LogId, watermark: Option<Watermark>) -> Result<Sequence, LogError> {
    if let Some(watermark) = watermark.filter(|watermark| watermark.log == log) {
        return Ok(watermark.synced);
    }
    let segments = segments(&DiskStorage, dir, log)?;
    if let Some((name, _)) = segments.iter().find(|(name, _)| name.state == SegmentState::Open) {
        return Ok(name.first.before());
    }
    let Some((_, path)) = segments.last() else { return Ok(Sequence(0)) };
    // A segment without a footer is damaged. The cursor finds its end.
    Ok(read_footer(&DiskStorage, path)?.map_or(Sequence(u64::MAX), |footer| footer.last))
}
