//! The contract of a sink's leases: which loader fetches which log from a store.
//!
//! Leases only spread the work of several loaders. Exactly-once loading does not depend on them: the position
//! in the database decides which load counts. A loader without a lease may load a log, and a loader may lose
//! a lease at any moment.
//!
//! Only the clock of the database decides whether a lease is live. A lease is live until its time `until`,
//! and if `until` is at most `LEASE_AHEAD_MAX` ahead. A later `until` means that the clock of the database
//! was set back.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate_log::LogId;

use crate::error::SinkError;

/// Duration of a lease after its last renewal.
pub(crate) const LEASE_TIME: Duration = Duration::from_secs(30);
/// The farthest time ahead at which a live lease may end.
pub(super) const LEASE_AHEAD_MAX: Duration = Duration::from_secs(60);
/// Age of an ended lease after which its row is deleted.
pub(super) const LEASE_KEPT: Duration = Duration::from_hours(24);

/// What a lease is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeaseName {
    /// The lease shows that the loader with this id is alive.
    Loader(String),
    /// The holder fetches and loads this log.
    Log(LogId),
    /// The holder deletes segments from the store.
    Retain,
}

const LOADER: &str = "loader ";
const LOG: &str = "log ";
const RETAIN: &str = "retain";

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loader(id) => write!(f, "{LOADER}{id}"),
            Self::Log(log) => write!(f, "{LOG}{log}"),
            Self::Retain => f.write_str(RETAIN),
        }
    }
}

impl FromStr for LeaseName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == RETAIN {
            return Ok(Self::Retain);
        }
        if let Some(id) = text.strip_prefix(LOADER) {
            return Ok(Self::Loader(id.to_owned()));
        }
        text.strip_prefix(LOG).and_then(|log| log.parse().ok()).map(Self::Log).ok_or(())
    }
}

/// The loaders that share leases, and the loader itself among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseScope {
    /// The store that the loaders fetch from. Loaders of different stores have separate leases.
    pub(crate) store: String,
    /// Id of this loader. No two running loaders have the same id.
    pub(crate) holder: String,
}

/// A lease that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveLease {
    pub(crate) name: LeaseName,
    /// Id of the loader that has the lease.
    pub(crate) holder: String,
    /// Time until the lease ends.
    pub(crate) left: Duration,
}

/// The leases of one sink and one store.
///
/// The table belongs to the bookkeeping of the sink, which the loader of the sink creates. The leases have
/// their own connection, because a load may use the connection of the sink for a long time.
pub(crate) trait LeaseTable: Send {
    /// Takes each of these leases that is not live, and renews the leases that the loader has already.
    /// Returns the leases among them that the loader has now, for [`LEASE_TIME`].
    ///
    /// # Errors
    /// The database fails. It is unknown whether the leases were taken.
    fn take(&mut self, names: &BTreeSet<LeaseName>) -> Result<BTreeSet<LeaseName>, SinkError>;

    /// Ends leases of the loader. Ignores leases that it does not have.
    ///
    /// # Errors
    /// The database fails.
    fn release(&mut self, names: &BTreeSet<LeaseName>) -> Result<(), SinkError>;

    /// Returns the live leases of all loaders.
    ///
    /// # Errors
    /// The database fails.
    fn live(&mut self) -> Result<Vec<LiveLease>, SinkError>;
}

/// Returns the time until a lease ends, from the seconds that a database returned.
pub(super) fn left_of(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_lease_is_read_as_it_was_written() {
        let log = LogId::random();
        for name in [LeaseName::Loader("db 1/7".to_owned()), LeaseName::Log(log), LeaseName::Retain] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for text in ["", "log", "log x", "loader", "retained"] {
            assert_eq!(text.parse::<LeaseName>(), Err(()), "{text:?}");
        }
    }
}
