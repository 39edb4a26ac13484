//! What became of the records that a reply waited for.

use crate::observe::Unconfirmed;

/// What became of the records that a reply waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They are where they should be.
    Kept,
    /// The log failed before: whether they survive is unknown.
    Lost,
    /// They are in the log, and the database did not have them in time.
    Late,
    /// They were damaged in the log before the database had them.
    Missing,
    /// The database has them, but not all as rows.
    Rejected,
}

impl Verdict {
    /// Returns what is counted of a reply whose records are not where they should be.
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
