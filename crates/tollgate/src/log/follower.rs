//! Reads all logs of a folder in order, and later continues where it stopped.
//!
//! With [`Reach::Synced`] only synced records are read, so no printed record is ever lost. The running server
//! reports its watermark over its control socket. Without a server, only sealed segments are read. Only the
//! writer of an open segment knows which part is synced. If the writer is dead, the next start seals the part
//! that is intact.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use tollgate_log::{
    Deleted, DiskStorage, LogError, LogId, Position, SegmentState, Sequence, Watermark, log_ids, read_footer,
    segments,
};

use super::format::Printer;
use super::log_order::LogOrder;
use super::log_reader::{Begin, LogReader, START};
use super::output::Output;
use crate::control::ask;
use crate::print::note;

/// Bounds of a chunk: bytes of output, and steps.
const CHUNK_BYTES: u64 = 1 << 20;
const CHUNK_STEPS: usize = 4096;
/// Maximum number of log ids in an error text.
const NAMED_MAX: usize = 5;

/// The end of the part of each log that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Up to the last complete batch. Each log is read once.
    Written,
    /// Up to the last record that is known to be synced. New records are read again and again.
    Synced,
}

/// The records at which a follower begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    /// All records that are kept.
    Kept,
    /// The record with this log and number, and all later records and logs.
    From(LogId, Sequence),
    /// The first batch of each log that was written at this time or later, in microseconds since 1970.
    Since(i64),
    /// The last records of the newest log. The value is their number.
    Last(u64),
    /// The positions at which an earlier run ended.
    Resume(LogPositions),
}

/// The position up to which each log is printed. `None`: the log was not printed.
pub(super) type LogPositions = BTreeMap<LogId, Option<Position>>;

/// Reads the logs of a folder.
pub(super) struct Follower {
    dir: PathBuf,
    reach: Reach,
    /// The only log that is read. `None`: all logs are read.
    only: Option<LogId>,
    order: LogOrder,
    /// The ids of all logs at the last search, sorted.
    ids: Vec<LogId>,
    /// The same ids, sorted by `order`.
    logs: Vec<LogId>,
    progress: BTreeMap<LogId, Progress>,
    is_whole: bool,
}

/// State of one log.
enum Progress {
    /// The log is older than the start, so it is not read.
    Passed,
    Reading(Box<LogReader>),
    /// The log is read to its end, or cannot be read further.
    Ended(Position),
}

/// The last record of a log that may be read now.
#[derive(Clone, Copy)]
struct Limit {
    last: Option<Sequence>,
    /// Whether the log gets no records after `last`.
    is_final: bool,
}

impl Follower {
    /// Opens the logs of a folder.
    ///
    /// # Errors
    /// The folder cannot be read, or the log to begin with is not there.
    pub(super) fn new(dir: &Path, reach: Reach, only: Option<LogId>, start: &Start) -> anyhow::Result<Self> {
        let mut follower = Self {
            dir: dir.to_owned(),
            reach,
            only,
            order: LogOrder::default(),
            ids: Vec::new(),
            logs: Vec::new(),
            progress: BTreeMap::new(),
            is_whole: true,
        };
        follower.list()?;
        if let Some(log) = only {
            follower.expect_log(log)?;
        }
        follower.pass_deleted(start)?;
        let before = match start {
            Start::From(log, from) => follower.before(*log, *from)?,
            _ => Vec::new(),
        };
        for log in follower.logs.clone() {
            let begin = if before.contains(&log) { Ok(None) } else { follower.begin(log, start) };
            match begin {
                Ok(None) => drop(follower.progress.insert(log, Progress::Passed)),
                Ok(Some(begin)) => follower.open(log, begin),
                Err(error) => follower.give_up(log, START, &error.into()),
            }
        }
        Ok(follower)
    }

    /// Returns the record at which the reading of a log begins. `None`: the log is not read.
    fn begin(&self, log: LogId, start: &Start) -> Result<Option<Begin>, LogError> {
        if self.only.is_some_and(|only| only != log) {
            return Ok(None);
        }
        Ok(match start {
            Start::From(first, from) if *first == log => Some(Begin::At(*from)),
            Start::Kept | Start::From(..) => Some(Begin::Kept),
            Start::Since(us) => Some(Begin::Since(*us)),
            Start::Last(count) if self.logs.last() == Some(&log) => {
                let (end, _) = end_of(&self.dir, log, ask(&self.dir).ok())?;
                let segments = segments(&DiskStorage, &self.dir, log)?;
                let [oldest, newest] = [segments.first(), segments.last()]
                    .map(|one| one.map_or(Sequence::FIRST, |(name, _)| name.first));
                let from = Sequence(end.0.saturating_sub(*count)).after(1);
                // If the log is damaged, its end is not known.
                Some(Begin::At(if from.is_possible() { from.max(oldest) } else { newest }))
            }
            Start::Last(_) => None,
            Start::Resume(positions) => match positions.get(&log) {
                Some(position) => position.map(Begin::After),
                None => Some(Begin::At(Sequence::FIRST)),
            },
        })
    }

    /// Returns the logs before `log`, with which the follower begins. If `log` is deleted, prints a note
    /// about the missing records from `from` on.
    ///
    /// # Errors The log never existed in this folder.
    fn before(&mut self, log: LogId, from: Sequence) -> anyhow::Result<Vec<LogId>> {
        if !self.logs.contains(&log) {
            let deleted = Deleted::read(&DiskStorage, &self.dir)?;
            match deleted.iter().find(|(known, _)| *known == log) {
                None => self.expect_log(log)?,
                Some((_, end)) if from <= end => self.miss(log, from, end),
                Some(_) => {}
            }
        }
        Ok(self.order.before(log, &self.ids))
    }

    fn miss(&mut self, log: LogId, first: Sequence, last: Sequence) {
        note(&format!("log {log}: records {first}-{last} are missing: they were deleted, not printed"));
        self.is_whole = false;
    }

    /// Marks the logs that retention deleted completely as passed. If the follower continues an earlier run,
    /// prints a note about each of these logs with records that were not printed.
    fn pass_deleted(&mut self, start: &Start) -> anyhow::Result<()> {
        let deleted = Deleted::read(&DiskStorage, &self.dir)?;
        let gone: BTreeMap<_, _> = deleted.iter().filter(|(log, _)| !self.ids.contains(log)).collect();
        let Start::Resume(positions) = start else {
            self.progress.extend(gone.into_keys().map(|log| (log, Progress::Passed)));
            return Ok(());
        };
        for log in positions.keys().filter(|log| !self.ids.contains(log) && !gone.contains_key(log)) {
            note(&format!("log {log} is not in {} any more", self.dir.display()));
        }
        for (log, end) in gone {
            let position = match positions.get(&log) {
                Some(None) => {
                    self.progress.insert(log, Progress::Passed);
                    continue;
                }
                Some(Some(position)) => *position,
                None => START,
            };
            let position = if position.last < end {
                self.miss(log, position.last.after(1), end);
                Position { last: end, chain: None }
            } else {
                position
            };
            self.progress.insert(log, Progress::Ended(position));
        }
        Ok(())
    }

    /// # Errors
    /// The log is not there. The error names the logs that are.
    fn expect_log(&self, log: LogId) -> anyhow::Result<()> {
        if self.logs.contains(&log) {
            return Ok(());
        }
        let dir = self.dir.display();
        let newest: Vec<_> = self.logs.iter().rev().take(NAMED_MAX).map(ToString::to_string).collect();
        match self.logs.len() {
            0 => bail!("no log {log} in {dir}: no log is there"),
            1 => bail!("no log {log} in {dir}: the only log there is {}", newest.join(", ")),
            count if count > NAMED_MAX => {
                bail!("no log {log} in {dir}: the newest of {count} logs there are {}", newest.join(", "))
            }
            _ => bail!("no log {log} in {dir}: the logs there are {}", newest.join(", ")),
        }
    }

    /// Lists the logs.
    fn list(&mut self) -> anyhow::Result<()> {
        let ids = match log_ids(&DiskStorage, &self.dir) {
            Err(error) if error.is_not_found() => return Ok(()),
            ids => ids?,
        };
        if ids != self.ids || !self.order.is_complete(&ids) {
            self.logs = self.order.of(&self.dir, &ids)?;
            self.ids = ids;
        }
        Ok(())
    }

    fn open(&mut self, log: LogId, begin: Begin) {
        match LogReader::open(&self.dir, log, begin) {
            Ok(reader) => drop(self.progress.insert(log, Progress::Reading(Box::new(reader)))),
            Err(error) => {
                let position = if let Begin::After(position) = begin { position } else { START };
                self.give_up(log, position, &error.into());
            }
        }
    }

    /// Stops the reading of a log, for example of a log of a later version. The other logs are still read.
    fn give_up(&mut self, log: LogId, position: Position, error: &anyhow::Error) {
        self.is_whole = false;
        let what = if self.reach == Reach::Synced { " cannot be followed any further" } else { "" };
        note(&format!("log {log}{what}: {error:#}"));
        self.progress.insert(log, Progress::Ended(position));
    }

    /// Returns whether no record was missing so far and every log could be read.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the position up to which each log is printed.
    pub(super) fn positions(&self) -> LogPositions {
        let position = |progress: &Progress| match progress {
            Progress::Passed => None,
            Progress::Reading(reader) => Some(reader.position()),
            Progress::Ended(position) => Some(*position),
        };
        self.progress.iter().map(|(log, progress)| (*log, position(progress))).collect()
    }

    /// Prints new records, at most one chunk. Returns whether more records may exist.
    ///
    /// # Errors
    /// The folder cannot be read, or the output cannot be written.
    pub(super) fn look(&mut self, printer: &mut Printer, out: &mut Output<'_>) -> anyhow::Result<bool> {
        let end = out.bytes() + CHUNK_BYTES;
        let mut steps = 0;
        self.list()?;
        let watermark = if self.reach == Reach::Synced { ask(&self.dir).ok() } else { None };
        for log in self.logs.clone() {
            if !self.progress.contains_key(&log) && self.only.is_none() {
                self.open(log, Begin::At(Sequence::FIRST));
            }
            let Some(limit) = self.limit(log, watermark)? else { continue };
            while self.step(log, limit, printer, out)? {
                steps += 1;
                if steps == CHUNK_STEPS || out.bytes() >= end {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the last record of a log that may be read now. `None`: the log is not read.
    fn limit(&mut self, log: LogId, watermark: Option<Watermark>) -> anyhow::Result<Option<Limit>> {
        let Some(Progress::Reading(reader)) = self.progress.get(&log) else { return Ok(None) };
        if self.reach == Reach::Written {
            return Ok(Some(Limit { last: None, is_final: true }));
        }
        match end_of(&self.dir, log, watermark) {
            Ok((last, is_sealed)) => {
                let is_final = is_sealed && self.order.has_successor(log);
                Ok(Some(Limit { last: Some(last), is_final }))
            }
            // The log was deleted after it was listed.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                let position = reader.position();
                self.give_up(log, position, &error.into());
                Ok(None)
            }
        }
    }

    /// Prints the next batch of a log. Returns false if there is no batch up to the limit.
    fn step(
        &mut self,
        log: LogId,
        limit: Limit,
        printer: &mut Printer,
        out: &mut dyn Write,
    ) -> anyhow::Result<bool> {
        let Some(Progress::Reading(reader)) = self.progress.get_mut(&log) else { return Ok(false) };
        match reader.step(limit.last, printer, out) {
            Ok(Some(is_whole)) => {
                self.is_whole &= is_whole;
                Ok(true)
            }
            Ok(None) => {
                printer.know(reader.streams());
                if limit.is_final {
                    let position = reader.position();
                    self.progress.insert(log, Progress::Ended(position));
                }
                Ok(false)
            }
            Err(error) if error.is::<LogError>() => {
                let position = reader.position();
                out.flush()?;
                self.give_up(log, position, &error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the last record of a log that may be read, and whether all its segments are sealed.
///
/// This record is the watermark of the server that writes the log. Without a server, it is the last record
/// before the first open segment.
fn end_of(dir: &Path, log: LogId, watermark: Option<Watermark>) -> Result<(Sequence, bool), LogError> {
    if let Some(watermark) = watermark.filter(|watermark| watermark.log == log) {
        return Ok((watermark.synced, false));
    }
    let segments = segments(&DiskStorage, dir, log)?;
    if let Some((name, _)) = segments.iter().find(|(name, _)| name.state == SegmentState::Open) {
        return Ok((name.first.before(), false));
    }
    let Some((_, path)) = segments.last() else { return Ok((Sequence(0), false)) };
    // A segment without a footer is damaged. The cursor finds its end.
    Ok((read_footer(&DiskStorage, path)?.map_or(Sequence(u64::MAX), |footer| footer.last), true))
}
