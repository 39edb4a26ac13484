//! `tollgate log tail`: follows what a server writes, until SIGINT or SIGTERM.
//!
//! Only what is known to be on disk is shown: it never has to be taken back. How far that is, the running server says
//! over its control socket. Where no server answers, sealed segments are shown and open ones are not: their writer
//! alone knows what is synced, and if it is dead the next start seals what stays of them.

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
    Cursor, CursorStep, DiskStorage, LogError, LogId, Position, SegmentState, Sequence, Watermark, log_ids,
    read_footer, segments,
};

use super::format::Printer;
use super::{Place, is_gone};
use crate::cli::RecordFormat;
use crate::control::ask;
use crate::print::{note, to_stdout};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(100);

/// Prints the last records of the newest log, then all that come.
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
    let Place { dir, config } = Place::find(path)?;
    let mut printer = Printer::new(format, stream, config.as_ref())?;
    to_stdout(|out| {
        let mut tail = Tail::new(&dir, lines)?;
        while !is_ended.load(Ordering::Relaxed) {
            tail.look(&mut printer, out)?;
            out.flush()?;
            thread::sleep(PERIOD);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// How far a log may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The server says that it is synced up to here.
    Synced(Sequence),
    /// Sealed up to here.
    Sealed(Sequence),
}

impl Reach {
    const fn last(self) -> Sequence {
        match self {
            Self::Synced(last) | Self::Sealed(last) => last,
        }
    }
}

/// One log that is followed.
struct Followed {
    position: Option<Position>,
    /// Records before this number are not shown.
    from: Sequence,
    cursor: Option<Cursor>,
    reach: Reach,
}

impl Followed {
    /// Begins at the start of a log.
    const fn showing_from(from: Sequence) -> Self {
        Self { position: None, from, cursor: None, reach: Reach::Sealed(Sequence(0)) }
    }
}

/// Follows all logs of a folder.
pub(super) struct Tail {
    dir: PathBuf,
    /// None: a log that is not shown, because it was old at the beginning.
    logs: BTreeMap<LogId, Option<Followed>>,
}

impl Tail {
    /// Begins `lines` records before the end of the newest log; older ones are not shown.
    pub(super) fn new(dir: &Path, lines: u64) -> anyhow::Result<Self> {
        let mut tail = Self { dir: dir.to_owned(), logs: BTreeMap::new() };
        let ids = log_ids(&DiskStorage, dir)?;
        tail.logs.extend(ids.iter().map(|log| (*log, None)));
        if let Some(newest) = ids.last() {
            let reach = reach(dir, *newest, ask(dir))?;
            let from = Sequence(reach.last().0.saturating_sub(lines)).after(1);
            let mut followed = Followed::showing_from(from);
            followed.position = position_before(dir, *newest, from)?;
            tail.logs.insert(*newest, Some(followed));
        }
        Ok(tail)
    }

    /// Prints what has come since the last look.
    pub(super) fn look(&mut self, printer: &mut Printer, out: &mut dyn Write) -> anyhow::Result<()> {
        let ids = match log_ids(&DiskStorage, &self.dir) {
            Err(error) if is_gone(&error) => Vec::new(),
            ids => ids?,
        };
        let watermark = ask(&self.dir);
        for log in ids {
            let followed =
                self.logs.entry(log).or_insert_with(|| Some(Followed::showing_from(Sequence::FIRST)));
            if let Some(followed) = followed {
                follow(&self.dir, log, followed, watermark, printer, out)
                    .with_context(|| format!("log {log}"))?;
            }
        }
        Ok(())
    }
}

fn follow(
    dir: &Path,
    log: LogId,
    followed: &mut Followed,
    watermark: Option<Watermark>,
    printer: &mut Printer,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let reach = match reach(dir, log, watermark) {
        // Deleted since it was listed.
        Err(error) if is_gone(&error) => return Ok(()),
        reach => reach?,
    };
    if matches!((followed.reach, reach), (Reach::Synced(_), Reach::Sealed(_))) {
        // The writer is gone, and what it left may have been cut and sealed: what was read ahead counts no more.
        followed.cursor = None;
    }
    followed.reach = reach;
    let position = followed.position;
    let cursor =
        followed.cursor.get_or_insert_with(|| Cursor::new(Arc::new(DiskStorage), dir, log, position));
    loop {
        match cursor.step(Some(reach.last()))? {
            CursorStep::CaughtUp => return Ok(()),
            CursorStep::Batch(batch) => {
                followed.position = Some(batch.end());
                printer.print(log, &batch, followed.from, out)?;
            }
            CursorStep::Gap(gap) => {
                followed.position = Some(Position { last: gap.last, chain: None });
                out.flush()?;
                note(&format!("log {log}: records {}-{} are missing: {}", gap.first, gap.last, gap.reason));
            }
        }
    }
}

/// How far a log may be shown: as its server says, or else to the end of what is sealed or set aside.
fn reach(dir: &Path, log: LogId, watermark: Option<Watermark>) -> Result<Reach, LogError> {
    if let Some(watermark) = watermark.filter(|watermark| watermark.log == log) {
        return Ok(Reach::Synced(watermark.synced));
    }
    let segments = segments(&DiskStorage, dir, log)?;
    if let Some((name, _)) = segments.iter().find(|(name, _)| name.state == SegmentState::Open) {
        return Ok(Reach::Sealed(name.first.before()));
    }
    let Some((_, path)) = segments.last() else { return Ok(Reach::Sealed(Sequence(0))) };
    // One without a footer is damaged: the cursor knows where it ends.
    let footer = read_footer(&DiskStorage, path)?;
    Ok(Reach::Sealed(footer.map_or(Sequence(u64::MAX), |footer| footer.last)))
}

/// Where a cursor begins that is to reach a record: before the segment that holds it.
fn position_before(dir: &Path, log: LogId, from: Sequence) -> Result<Option<Position>, LogError> {
    let segments = segments(&DiskStorage, dir, log)?;
    let holding = segments.iter().rev().find(|(name, _)| name.first <= from);
    Ok(holding.map(|(name, _)| Position { last: name.first.before(), chain: None }))
}
