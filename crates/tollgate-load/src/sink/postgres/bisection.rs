//! Stores the rows of all buffers in the order of the log. Halves each range that the server refuses, until
//! the refused row is alone.
//!
//! One attempt stores one range of the log, with the rows of every buffer in this range. So earlier records
//! are stored first, also if they are of different streams. With `b` bad rows among `n`, the bisection makes
//! about `2 b log2 n` attempts. Each attempt checks deferrable constraints at its end, because a later check
//! would not show which row broke them.

use std::ops::Range;

use tollgate_log::Sequence;

use super::copy_buffer::ClosedCopyBuffer;
use super::error::Failure;
use super::session::Session;

/// A range of rows of one buffer.
pub(super) type BufferRows<'a> = (&'a ClosedCopyBuffer, Range<usize>);

/// Which half of a range is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The earlier half first.
    Forward,
    /// The later half is copied first, because later rows may be the parents of earlier rows.
    Backward,
}

/// Result of one step.
pub(super) enum BisectionStep<'a> {
    Stored(Vec<BufferRows<'a>>),
    /// The server refused this row of a buffer.
    Refused((&'a ClosedCopyBuffer, usize), Refusal),
}

/// The server's error about a row.
pub(super) struct Refusal {
    pub(super) reason: String,
    /// Whether the row lacks a parent. Such a row may fit when more rows are stored.
    pub(super) lacks_parent: bool,
}

/// State of the bisection of rows.
pub(super) struct Bisection<'a> {
    buffers: &'a [ClosedCopyBuffer],
    /// Record numbers of the rows of all buffers, in order.
    order: Vec<Sequence>,
    direction: Direction,
    /// Ranges of `order` that are not tried yet. The last element is tried next.
    open: Vec<Range<usize>>,
}

impl<'a> Bisection<'a> {
    pub(super) fn of(buffers: &'a [ClosedCopyBuffer], direction: Direction) -> Self {
        let mut order: Vec<_> = buffers.iter().flat_map(ClosedCopyBuffer::sequences).collect();
        order.sort();
        let whole = 0..order.len();
        let open = if whole.is_empty() { Vec::new() } else { vec![whole] };
        Self { buffers, order, direction, open }
    }

    /// Continues until rows are stored or one row is refused. Returns `None` after the last row.
    pub(super) fn next(&mut self, session: &mut Session) -> Result<Option<BisectionStep<'a>>, Failure> {
        while let Some(range) = self.open.pop() {
            let parts = self.parts(&range);
            match attempt(session, &parts)? {
                Stored::All => return Ok(Some(BisectionStep::Stored(parts))),
                Stored::Nothing(refusal) => match &*parts {
                    [(buffer, rows)] if rows.len() == 1 => {
                        return Ok(Some(BisectionStep::Refused((buffer, rows.start), refusal)));
                    }
                    _ => self.halve(range),
                },
            }
        }
        Ok(None)
    }

    /// Returns the rows of a range by buffer. The buffer of the first row is first.
    fn parts(&self, range: &Range<usize>) -> Vec<BufferRows<'a>> {
        let ends = self.order[range.start]..=self.order[range.end - 1];
        let part = |buffer: &'a ClosedCopyBuffer| (buffer, buffer.between(&ends));
        let mut parts: Vec<_> = self.buffers.iter().map(part).filter(|(_, rows)| !rows.is_empty()).collect();
        parts.sort_by_key(|(buffer, rows)| buffer.sequence(rows.start));
        parts
    }

    fn halve(&mut self, range: Range<usize>) {
        let middle = range.start + range.len() / 2;
        let (first, last) = (range.start..middle, middle..range.end);
        self.open.extend(match self.direction {
            Direction::Forward => [last, first],
            Direction::Backward => [first, last],
        });
    }
}

enum Stored {
    All,
    /// The server refused the rows because of one of them.
    Nothing(Refusal),
}

/// Copies all rows or none. Constraints have to be deferred again for this attempt, because the previous
/// attempt made them immediate.
fn attempt(session: &mut Session, parts: &[BufferRows<'_>]) -> Result<Stored, Failure> {
    session.run("SAVEPOINT tollgate_rows; SET CONSTRAINTS ALL DEFERRED")?;
    let result = parts
        .iter()
        .try_for_each(|(buffer, rows)| session.copy(buffer.statement(), buffer.copy_data(rows.clone())))
        .and_then(|()| session.run("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT tollgate_rows"));
    let Err(failure) = result else { return Ok(Stored::All) };
    let Some(reason) = failure.row_reason() else { return Err(failure) };
    session.run("ROLLBACK TO SAVEPOINT tollgate_rows; RELEASE SAVEPOINT tollgate_rows")?;
    Ok(Stored::Nothing(Refusal { reason, lacks_parent: failure.lacks_parent() }))
}
