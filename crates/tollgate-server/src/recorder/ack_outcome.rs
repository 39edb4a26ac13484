//! Outcome of the wait of a reply for its records.

use crate::observe::Unconfirmed;

/// Outcome of the wait of a reply for its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AckOutcome {
    /// The records have reached the ack level of their stream.
    Kept,
    /// The log failed before the records reached this level. It is unknown whether the records survive.
    Lost,
    /// The log has the records. The database did not have them in time.
    Late,
    /// The records were damaged in the log before the database had them.
    Missing,
    /// The database has the records, but not all of them as rows.
    Rejected,
}

impl AckOutcome {
    /// Returns the counter of a reply whose records did not get their level. `Kept` has none.
    pub(crate) fn unconfirmed(self) -> Option<Unconfirmed> {
        match self {
            Self::Kept => None,
            Self::Lost => Some(Unconfirmed::Lost),
            Self::Late => Some(Unconfirmed::Late),
            Self::Missing => Some(Unconfirmed::Missing),
            Self::Rejected => Some(Unconfirmed::Rejected),
        }
    }
}
