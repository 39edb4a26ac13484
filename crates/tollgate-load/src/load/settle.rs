//! Releases waiting replies with the results of their records in the sink.
//!
//! Rejects and gaps are read from the database, but only if replies wait and a record may be no row. The
//! result is therefore the same for a commit of this loader, a commit with unknown outcome, and a commit of
//! another loader.

use tollgate_log::{Exception, LogId, Mishap, Sequence};

use crate::error::SinkError;
use crate::live::LiveLog;
use crate::sink::Sink;

/// Results that the records of a load may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// All records are rows or duplicates.
    Rows,
    /// Records may also be rejects or in gaps.
    Anything,
}

/// Releases the replies that wait for records of a log up to `last`. The sink has all of these records.
///
/// # Errors
/// The rejects and gaps cannot be read from the database. The replies continue to wait.
pub(super) fn settle(
    live: &dyn LiveLog,
    sink: &mut dyn Sink,
    log: LogId,
    last: Sequence,
    brought: Brought,
) -> Result<(), SinkError> {
    let Some(first) = live.awaited_from(log, last) else { return Ok(()) };
    let exceptions = match brought {
        Brought::Rows => Vec::new(),
        Brought::Anything => exceptions(sink, log, first, last)?,
    };
    live.settle(log, last, &exceptions);
    Ok(())
}

/// Returns the records that are neither rows nor duplicates, in the order of the log.
fn exceptions(
    sink: &mut dyn Sink,
    log: LogId,
    first: Sequence,
    last: Sequence,
) -> Result<Vec<Exception>, SinkError> {
    let rejects = sink.rejects(log, first, last)?.into_iter();
    let rejects = rejects.map(|(sequence, reason)| Exception {
        first: sequence,
        last: sequence,
        mishap: Mishap::Rejected(reason),
    });
    let gaps = sink.gaps(log)?.into_iter().filter(|gap| gap.last >= first && gap.first <= last);
    let gaps = gaps.map(|gap| Exception { first: gap.first, last: gap.last, mishap: Mishap::Missing });
    let mut all: Vec<_> = rejects.chain(gaps).collect();
    all.sort_by_key(|exception| exception.first);
    Ok(all)
}
