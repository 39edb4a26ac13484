//! What an audit found in a store or a log, besides the counts.

use std::fmt;

use tollgate_log::{LogId, Sequence};
use tollgate_ship::NodeName;

use crate::print::printable;

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuditKind {
    /// A segment is missing, although later records exist.
    Hole,
    /// A segment in the store is damaged.
    Damaged,
    /// A later version of this program wrote a segment.
    LaterVersion,
    /// Two machines wrote one log.
    Fork,
    /// Another program wrote an object.
    ForeignName,
    /// The counts of a log do not add up.
    NotExact,
    /// A log cannot be read.
    NotCounted,
}

impl AuditKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Hole => "hole",
            Self::Damaged => "damaged segment",
            Self::LaterVersion => "later version",
            Self::Fork => "fork",
            Self::ForeignName => "foreign name",
            Self::NotExact => "not exact",
            Self::NotCounted => "not counted",
        }
    }

    /// Returns whether the account is wrong or incomplete. The other kinds are shown only, because the counts
    /// contain their records.
    pub(super) const fn is_failure(self) -> bool {
        matches!(self, Self::NotExact | Self::NotCounted)
    }
}

/// A finding, with the records that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuditFinding {
    pub(super) kind: AuditKind,
    pub(super) node: Option<NodeName>,
    pub(super) log: Option<LogId>,
    /// The first record. `None`: the finding concerns a whole log or name.
    pub(super) first: Option<Sequence>,
    /// The last record. `None`: it is unknown.
    pub(super) last: Option<Sequence>,
    pub(super) reason: String,
}

/// Writes the finding on one line.
impl fmt::Display for AuditFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.kind.name())?;
        match (self.first, self.last) {
            (Some(first), Some(last)) => write!(f, "records {first}-{last}")?,
            (Some(first), None) => write!(f, "records from {first}")?,
            _ => {}
        }
        if self.first.is_some() && self.log.is_some() {
            f.write_str(" of ")?;
        }
        if let Some(log) = self.log {
            write!(f, "log {log}")?;
        }
        if let Some(node) = &self.node {
            write!(f, " of {node}")?;
        }
        let colon = if self.log.is_some() { ": " } else { "" };
        write!(f, "{colon}{}", printable(&self.reason))
    }
}
