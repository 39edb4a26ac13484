//! Reports to waiting replies what the sink did with their records.
//!
//! Rejects and gaps are read back from the database, but only if replies wait and some record is no row. So
//! the result is the same for a commit of this loader, a commit with unknown outcome, and a commit of another
//! loader.

use tollgate_log::{Exception, LogId, Mishap, Sequence};

use crate::error::SinkError;
use crate::live::LiveLog;
use crate::sink::Sink;

/// Whether records of a load may be anything else than rows and duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// They are only rows and duplicates.
    Rows,
    /// They may be rejects or in gaps too.
    Anything,
}

/// Releases the replies that wait for records of a log up to `last`. The sink has all of these.
///
/// # Errors
/// The database does not return what became of the records. The replies keep waiting.
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
