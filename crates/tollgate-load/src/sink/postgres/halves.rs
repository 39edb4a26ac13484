//! Rows of all lanes in the order of the log, halved until those that the server refuses stand alone.
//!
//! A part of that order goes in as one: of each lane the rows that lie in it. So what comes first is there first, also
//! among streams, and with `b` bad among `n` rows it takes about `2 b log2 n` attempts. Constraints that can wait are
//! asked for at the end of each: later it is too late to tell whose fault it is.

use std::ops::Range;

use tollgate_log::Sequence;

use super::error::Failure;
use super::lane::ClosedLane;
use super::session::Session;

/// Rows of one lane.
pub(super) type Part<'a> = (&'a ClosedLane, Range<usize>);

/// Which half is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// The order of the log.
    Forward,
    /// What comes last may be the parents of what comes before.
    Backward,
}

/// What became of rows.
pub(super) enum Settled<'a> {
    Stored(Vec<Part<'a>>),
    /// One row of a lane.
    Refused((&'a ClosedLane, usize), Refusal),
}

/// What the server says of a row.
pub(super) struct Refusal {
    pub(super) reason: String,
    /// It may fit when more rows are there.
    pub(super) lacks_parent: bool,
}

/// Rows on their way into the tables.
pub(super) struct Halves<'a> {
    lanes: &'a [ClosedLane],
    /// The rows of all lanes.
    order: Vec<Sequence>,
    direction: Direction,
    /// Ranges of `order` that are not tried yet, the next one last.
    open: Vec<Range<usize>>,
}

impl<'a> Halves<'a> {
    pub(super) fn of(lanes: &'a [ClosedLane], direction: Direction) -> Self {
        let mut order: Vec<_> = lanes.iter().flat_map(ClosedLane::sequences).collect();
        order.sort();
        let whole = 0..order.len();
        let open = if whole.is_empty() { Vec::new() } else { vec![whole] };
        Self { lanes, order, direction, open }
    }

    /// Goes on until rows are stored or one is refused; none at the end.
    pub(super) fn next(&mut self, session: &mut Session) -> Result<Option<Settled<'a>>, Failure> {
        while let Some(range) = self.open.pop() {
            let parts = self.parts(&range);
            match attempt(session, &parts)? {
                Stored::All => return Ok(Some(Settled::Stored(parts))),
                Stored::Nothing(refusal) => match &*parts {
                    [(lane, rows)] if rows.len() == 1 => {
                        return Ok(Some(Settled::Refused((lane, rows.start), refusal)));
                    }
                    _ => self.halve(range),
                },
            }
        }
        Ok(None)
    }

    /// The rows of a range, the lane of the first one first.
    fn parts(&self, range: &Range<usize>) -> Vec<Part<'a>> {
        let ends = self.order[range.start]..=self.order[range.end - 1];
        let part = |lane: &'a ClosedLane| (lane, lane.between(&ends));
        let mut parts: Vec<_> = self.lanes.iter().map(part).filter(|(_, rows)| !rows.is_empty()).collect();
        parts.sort_by_key(|(lane, rows)| lane.sequence(rows.start));
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
    /// A row is to blame.
    Nothing(Refusal),
}

/// Copies rows, all or none. Constraints wait until all are there: the attempt before had them wait no more.
fn attempt(session: &mut Session, parts: &[Part<'_>]) -> Result<Stored, Failure> {
    session.run("SAVEPOINT tollgate_rows; SET CONSTRAINTS ALL DEFERRED")?;
    let result = parts
        .iter()
        .try_for_each(|(lane, rows)| session.copy(lane.statement(), lane.copy_data(rows.clone())))
        .and_then(|()| session.run("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT tollgate_rows"));
    let Err(failure) = result else { return Ok(Stored::All) };
    let Some(reason) = failure.row_reason() else { return Err(failure) };
    session.run("ROLLBACK TO SAVEPOINT tollgate_rows; RELEASE SAVEPOINT tollgate_rows")?;
    Ok(Stored::Nothing(Refusal { reason, lacks_parent: failure.lacks_parent() }))
}
