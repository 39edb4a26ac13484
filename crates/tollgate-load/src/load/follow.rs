//! One log as the loader sees it: its position, the last record that may be read, and its errors.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{
    Cursor, CursorStep, LogError, LogId, Position, SegmentName, SegmentState, Sequence, Storage, segments,
};

use crate::footer::read_footer;

/// The end of the part of a log that may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadableEnd {
    /// No record may be read.
    Nothing,
    /// The records up to this one may be read.
    UpTo(Sequence),
    /// The records up to this record may be read. The later records are in an open segment, and it is unknown
    /// which of them are synced.
    Sealed(Sequence),
    /// All records may be read, because no process writes the log.
    End,
}

impl ReadableEnd {
    pub(super) const fn limit(self) -> Option<Sequence> {
        match self {
            Self::Nothing => Some(Sequence(0)),
            Self::UpTo(last) | Self::Sealed(last) => Some(last),
            Self::End => None,
        }
    }
}

/// Returns the end of the readable part of a log of another process. This part has the sealed and damaged
/// segments. A missing log has no records to read.
///
/// An open segment is not read. An open segment belongs to another process, and only that process knows which
/// records are synced. Or the segment waits for recovery.
pub(super) fn reach_of_sealed(
    storage: &dyn Storage,
    dir: &Path,
    log: LogId,
) -> Result<ReadableEnd, LogError> {
    let segments = segments(storage, dir, log)?;
    if let Some((name, _)) = segments.iter().find(|(name, _)| name.state == SegmentState::Open) {
        return Ok(ReadableEnd::Sealed(name.first.before()));
    }
    match segments.last() {
        None => Ok(ReadableEnd::Nothing),
        // The recovery of a start set this segment aside, so the run of the log has ended. Later segments may
        // have been loaded and deleted.
        Some((name, _)) if name.state == SegmentState::Damaged => Ok(ReadableEnd::End),
        // The writer of the log may open another segment at any moment. So the reader stops at the end of
        // this segment.
        Some((_, path)) => match read_footer(storage, path) {
            Ok(footer) => Ok(footer.map_or(ReadableEnd::End, |footer| ReadableEnd::UpTo(footer.last))),
            // The records before this segment are read first. Then the cursor reports the error.
            Err(error) if is_lasting(&error) => Ok(ReadableEnd::End),
            Err(error) => Err(error),
        },
    }
}

/// Returns the position after the last record that may be read now. Returns `None` if no record may be read.
pub(super) fn end_of_log(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    reach: ReadableEnd,
) -> Result<Option<Position>, LogError> {
    if let Some(last) = reach.limit() {
        return Ok((last > Sequence(0)).then_some(Position { last, chain: None }));
    }
    let segments = segments(&**storage, dir, log)?;
    let Some((newest, _)) = segments.last() else { return Ok(None) };
    let before = Position { last: newest.first.before(), chain: None };
    let (mut end, mut cursor) = (before, Cursor::new(storage.clone(), dir, log, Some(before)));
    loop {
        end = match cursor.step(None)? {
            CursorStep::Batch(batch) => batch.end(),
            CursorStep::Gap(gap) => Position { last: gap.last, chain: None },
            CursorStep::CaughtUp => return Ok((end.last > Sequence(0)).then_some(end)),
        };
    }
}

/// Returns whether the position belongs to this log, as far as its sealed segments show.
///
/// A diverged copy of the log has other records under the same numbers. No sink has these records.
pub(super) fn is_log_of_position(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    log: LogId,
    position: Position,
) -> Result<bool, LogError> {
    let Some(chain) = position.chain else { return Ok(true) };
    let segments = segments(&**storage, dir, log)?;
    let Some((_, path)) = segments.iter().rev().find(|(name, _)| name.first <= position.last) else {
        return Ok(true);
    };
    match read_footer(&**storage, path)? {
        Some(footer) if footer.last == position.last && footer.chain == chain => Ok(true),
        Some(footer) if footer.last < position.last => Ok(false),
        // The position is inside the segment, or before a batch of schemas whose records were lost in a
        // crash. The cursor compares the chain of the position before it reads the next batch.
        _ => Ok(Cursor::new(storage.clone(), dir, log, Some(position)).step(None).is_ok()),
    }
}

/// State of a log between two visits of the loader.
#[derive(Default)]
pub(super) struct Following {
    pub(super) cursor: Option<Cursor>,
    /// The position in the sink at the last visit or commit.
    pub(super) position: Option<Position>,
    pub(super) are_tables_looked_at: bool,
    pub(super) is_stopped: bool,
    /// Since when sealed segments wait for more of them, for a sink that loads whole segments.
    pub(super) waiting_since: Option<Instant>,
    /// Whether the sink has left records for a later load, because it waits for the end of their segment or
    /// for more segments.
    pub(super) is_gathering: bool,
    pub(super) is_old_copy_warned: bool,
    pub(super) gaps: Gaps,
    pause: Pause,
}

/// Knowledge about the gaps of a log in the sink.
#[derive(Default)]
pub(super) enum Gaps {
    /// The log may have gaps.
    #[default]
    Unknown,
    /// The log has no gaps to check.
    None,
    /// None of the gaps can be filled from these segments. The gaps are checked again when the segments
    /// change.
    Unfilled(Vec<SegmentName>),
}

/// Whether a log waits for its next visit.
#[derive(Default)]
enum Pause {
    #[default]
    None,
    /// The log could not be read. Has the time of the next try, and the wait before it.
    Retry(Instant, Duration),
    /// Another loader is loading the log. Has the time of the next visit.
    Left(Instant),
}

impl Following {
    /// Drops the cursor, which may be ahead of the sink.
    pub(super) fn reset(&mut self) {
        self.cursor = None;
    }

    pub(super) fn cursor_at(&mut self, storage: &Arc<dyn Storage>, dir: &Path, log: LogId) -> &mut Cursor {
        let position = self.position;
        self.cursor.get_or_insert_with(|| Cursor::new(storage.clone(), dir, log, position))
    }

    pub(super) fn is_due(&self) -> bool {
        let is_over = match self.pause {
            Pause::None => true,
            Pause::Retry(at, _) | Pause::Left(at) => at <= Instant::now(),
        };
        !self.is_stopped && is_over
    }

    /// Returns whether the log could not be read.
    pub(super) fn is_failing(&self) -> bool {
        !self.is_stopped && matches!(self.pause, Pause::Retry(..))
    }

    /// Returns whether no error delays or stops the load of the log.
    pub(super) fn is_well(&self) -> bool {
        !self.is_stopped && !self.is_failing()
    }

    /// Returns whether another loader was loading the log at the last visit.
    pub(super) fn is_left(&self) -> bool {
        matches!(self.pause, Pause::Left(_))
    }

    /// Leaves the log to another loader for `pause`. `position` is the position of that loader.
    pub(super) fn leave(&mut self, position: Option<Position>, pause: Duration) {
        self.position = position;
        self.gaps = Gaps::Unknown;
        self.pause = Pause::Left(Instant::now() + pause);
        self.reset();
    }

    /// Delays the next visit. Each delay in a row is twice as long.
    pub(super) fn put_off(&mut self, min: Duration, max: Duration) {
        let wait = match self.pause {
            Pause::Retry(_, wait) => (wait * 2).min(max),
            Pause::None | Pause::Left(_) => min,
        };
        self.pause = Pause::Retry(Instant::now() + wait, wait);
        self.reset();
    }

    pub(super) fn went_well(&mut self) {
        self.pause = Pause::None;
    }
}

/// Returns whether a log stays unreadable until an operator acts. The function returns true for damage, later
/// versions and special files. An error of a disk may end without an operator. After a damaged end of an open
/// segment, the log may still write an intact batch.
pub(super) fn is_lasting(error: &LogError) -> bool {
    match error {
        LogError::Damaged { .. } => true,
        LogError::DamagedEnd { .. } => false,
        LogError::Io { source, .. } => matches!(
            source.kind(),
            ErrorKind::InvalidInput | ErrorKind::NotADirectory | ErrorKind::IsADirectory
        ),
    }
}
