//! One log as the loader sees it: where it stands, how far it may read, what stopped it.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_log::{
    Cursor, CursorStep, LogError, LogId, Position, SegmentName, SegmentState, Sequence, Storage, segments,
};

use crate::footer::read_footer;

/// How far a log may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadableEnd {
    /// Nothing of it may be.
    Nothing,
    /// Up to this record.
    UpTo(Sequence),
    /// Up to this record: what lies behind is in a segment that is open, and nobody tells how far it is
    /// synced.
    Sealed(Sequence),
    /// To its end: nobody writes it.
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

/// How far a log that is not this process's may be read: what is sealed, or set aside. Nothing, if it is
/// gone.
///
/// An open segment belongs to another process, which alone knows what is synced, or waits for recovery.
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
        // Set aside by a start: the run is over. What lay behind it may be loaded and deleted.
        Some((name, _)) if name.state == SegmentState::Damaged => Ok(ReadableEnd::End),
        // Its writer may open another segment at any moment: stop at the end of this one.
        Some((_, path)) => match read_footer(storage, path) {
            Ok(footer) => Ok(footer.map_or(ReadableEnd::End, |footer| ReadableEnd::UpTo(footer.last))),
            // What lies before it is read, and then the cursor names it.
            Err(error) if is_lasting(&error) => Ok(ReadableEnd::End),
            Err(error) => Err(error),
        },
    }
}

/// Where a log ends now, as far as it may be read. None: nothing of it may be.
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

/// Whether the log here is the one that the position was made with, as far as its sealed segments tell.
///
/// A copy of the log that went another way has other records under the same numbers: nobody has those.
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
        // The position is inside, or before schemas whose records a crash took: the cursor compares before it
        // reads on.
        _ => Ok(Cursor::new(storage.clone(), dir, log, Some(position)).step(None).is_ok()),
    }
}

/// What is known of a log between two looks.
#[derive(Default)]
pub(super) struct Following {
    pub(super) cursor: Option<Cursor>,
    /// The position in the sink, as of the last look or commit.
    pub(super) position: Option<Position>,
    pub(super) are_tables_looked_at: bool,
    pub(super) is_stopped: bool,
    pub(super) is_old_copy_warned: bool,
    pub(super) gaps: Gaps,
    pause: Pause,
}

/// What is known of the gaps that the sink has of a log.
#[derive(Default)]
pub(super) enum Gaps {
    /// There may be some.
    #[default]
    Unknown,
    /// There are none: nothing is to be looked at.
    None,
    /// None can be filled from the segments that there were.
    Unfilled(Vec<SegmentName>),
}

/// Whether a log waits for its next look.
#[derive(Default)]
enum Pause {
    #[default]
    None,
    /// It could not be read: the moment of the next try, and how long that one waits.
    Retry(Instant, Duration),
    /// Another loader has it, and had at that moment.
    Left(Instant),
}

impl Following {
    /// Forgets what was read ahead of the sink.
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

    /// Whether it could not be read.
    pub(super) fn is_failing(&self) -> bool {
        !self.is_stopped && matches!(self.pause, Pause::Retry(..))
    }

    /// Whether it is loaded, as far as it goes.
    pub(super) fn is_well(&self) -> bool {
        !self.is_stopped && !self.is_failing()
    }

    /// Whether another loader had it at the last look.
    pub(super) fn is_left(&self) -> bool {
        matches!(self.pause, Pause::Left(_))
    }

    /// Leaves the log to another loader for a while, with the position that this one brought it to.
    pub(super) fn leave(&mut self, position: Option<Position>, pause: Duration) {
        self.position = position;
        self.gaps = Gaps::Unknown;
        self.pause = Pause::Left(Instant::now() + pause);
        self.reset();
    }

    /// Puts the next look off, twice as long as the last time.
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

/// Whether somebody has to act before a log can be read. Disks come back; damage, later versions and files
/// that are no regular ones stay. The next batch tells what is behind a damaged end.
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
