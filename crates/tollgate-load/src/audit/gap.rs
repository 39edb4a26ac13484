//! The gaps of a sink, for people.

use tollgate_log::{LogId, Sequence};

use crate::error::SinkError;
use crate::load::is_given_up;
use crate::sink::{LogCounts, SinkOptions};

/// Records that a sink passed without loading them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkGap {
    /// Log of the records.
    pub log: LogId,
    /// The first record.
    pub first: Sequence,
    /// The last record.
    pub last: Sequence,
    /// Why the records were not loaded.
    pub reason: String,
    /// Whether an operator gave up the records by command.
    pub is_given_up: bool,
}

/// Reads the gaps of a sink, without changing the database. A missing database has none.
///
/// # Errors
/// The database exists and cannot be read.
pub fn sink_gaps(sink: &SinkOptions) -> Result<Vec<SinkGap>, SinkError> {
    Ok(sink.counts()?.iter().flat_map(gaps_of).collect())
}

/// Returns the gaps of one log.
pub(super) fn gaps_of(counts: &LogCounts) -> impl Iterator<Item = SinkGap> {
    counts.gaps.iter().map(|gap| SinkGap {
        log: counts.log,
        first: gap.first,
        last: gap.last,
        reason: gap.reason.clone(),
        is_given_up: is_given_up(&gap.reason),
    })
}
