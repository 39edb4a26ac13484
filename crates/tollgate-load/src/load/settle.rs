//! Telling the replies that wait until a sink has their records what became of these.
//!
//! Rejects and gaps are read back from the database, and only where replies wait and something is no row: so
//! it is the same whether a commit of this loader brought them, one whose outcome was unknown, or another
//! loader.

use tollgate_log::{Exception, LogId, Mishap, Sequence};

use crate::error::SinkError;
use crate::live::LiveLog;
use crate::sink::Sink;

/// Whether records of a load may be something else than rows and duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// No.
    Rows,
    /// They may.
    Anything,
}

/// Releases the replies that wait for records of a log up to `last`, all of which the sink has.
///
/// # Errors
/// The database does not tell what became of them: the replies wait on.
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

/// What of these records is neither a row nor a duplicate, in the order of the log.
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
