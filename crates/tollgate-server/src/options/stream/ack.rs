//! The ack level that records have to reach before replies are sent.

use std::time::Duration;

use tollgate_log::{Level, SinkPlace};

/// The ack level that the records of a transaction have to reach before its reply is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// A level of the log.
    Log(Level),
    /// A loader of this process has committed the records in a database.
    Loaded {
        /// The sink of the database.
        sink: SinkPlace,
        /// Maximum time that a reply waits for the sink.
        timeout: Duration,
    },
    /// A loader of this process has committed the records in a queue of other machines.
    Queued {
        /// The sink of the queue.
        sink: SinkPlace,
        /// Maximum time that a reply waits for the sink.
        timeout: Duration,
        /// What happens while the queue is away.
        when_away: WhenAway,
    },
}

/// The kind of sink that a reply waits for, with the texts for clients about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedKind {
    Database,
    Queue,
}

impl AwaitedKind {
    /// Returns the text for a request that is refused while the sink is away.
    pub(crate) const fn away(self) -> &'static str {
        match self {
            Self::Database => "the database does not answer: nothing was recorded",
            Self::Queue => "the queue does not answer: nothing was recorded",
        }
    }

    /// Returns the text for a record whose reply has waited too long for the sink.
    pub(crate) const fn late(self) -> &'static str {
        match self {
            Self::Database => {
                "the record of this request is in the log, but not yet in the database: its outcome is unknown"
            }
            Self::Queue => {
                "the record of this request is in the log, but not yet in the queue: its outcome is unknown"
            }
        }
    }

    /// Returns the text about a reject whose reason is internal.
    pub(crate) const fn rejected(self) -> &'static str {
        match self {
            Self::Database => "the database refused this record and kept it as a reject",
            Self::Queue => "the queue refused this record and kept it as a reject",
        }
    }
}

/// What happens to requests while the queue is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenAway {
    /// They are refused before anything is recorded.
    #[default]
    Refused,
    /// Their replies wait for the disk only, and say so. The loader hands the records on later.
    Synced,
}

impl WhenAway {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Refused, Self::Synced];

    /// Returns the name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Synced => "synced",
        }
    }
}

impl Ack {
    /// The name of [`Self::Loaded`] in a configuration.
    pub const LOADED: &'static str = "loaded";
    /// The name of [`Self::Queued`] in a configuration.
    pub const QUEUED: &'static str = "queued";
    /// Default time that a reply waits for a database.
    pub const TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns the index of the sink that a reply waits for, if any.
    pub(crate) fn sink(self) -> Option<usize> {
        match self {
            Self::Log(_) => None,
            Self::Loaded { sink, .. } | Self::Queued { sink, .. } => Some(sink.0),
        }
    }

    /// Returns the sink that a reply waits for, with the maximum time of the wait.
    /// Returns `None` if the reply waits for the log.
    pub fn awaited_mut(&mut self) -> Option<(&mut SinkPlace, &mut Duration)> {
        match self {
            Self::Log(_) => None,
            Self::Loaded { sink, timeout } | Self::Queued { sink, timeout, .. } => Some((sink, timeout)),
        }
    }

    /// Returns the level for a transaction with records of both streams. Records that a sink has committed
    /// are also on disk. If both levels name a sink, the first one counts. Only if both streams lower their
    /// level while the queue is away, the transaction does so too.
    pub(crate) fn strictest(mut self, mut other: Self) -> Self {
        let is_refused = self.is_refused_away() || other.is_refused_away();
        let mut strictest = match (self.awaited_mut(), other.awaited_mut()) {
            (Some((_, timeout)), Some((_, other))) => {
                *timeout = (*timeout).max(*other);
                self
            }
            (Some(_), None) => self,
            (None, Some(_)) => other,
            (None, None) => match (self, other) {
                (Self::Log(own), Self::Log(other)) => Self::Log(own.max(other)),
                _ => self,
            },
        };
        if let Self::Queued { when_away, .. } = &mut strictest
            && is_refused
        {
            *when_away = WhenAway::Refused;
        }
        strictest
    }

    /// Returns whether requests of this level are refused while its sink is away.
    fn is_refused_away(self) -> bool {
        match self {
            Self::Log(_) => false,
            Self::Loaded { .. } => true,
            Self::Queued { when_away, .. } => when_away == WhenAway::Refused,
        }
    }

    /// Returns the name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log(level) => level.name(),
            Self::Loaded { .. } => Self::LOADED,
            Self::Queued { .. } => Self::QUEUED,
        }
    }
}

impl From<Level> for Ack {
    fn from(level: Level) -> Self {
        Self::Log(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_lowers_its_level_only_if_each_stream_of_the_queue_does() {
        let queued = |when_away, seconds| Ack::Queued {
            sink: SinkPlace(0),
            timeout: Duration::from_secs(seconds),
            when_away,
        };
        let (refused, synced) = (queued(WhenAway::Refused, 9), queued(WhenAway::Synced, 9));
        let (later_refused, later_synced) = (queued(WhenAway::Refused, 1), queued(WhenAway::Synced, 1));
        let log = Ack::Log(Level::Received);
        for (first, second, expected) in [
            (synced, later_synced, synced),
            (synced, later_refused, refused),
            (refused, later_synced, refused),
            (log, synced, synced),
            (synced, log, synced),
            (log, refused, refused),
        ] {
            assert_eq!(first.strictest(second), expected, "{first:?} and {second:?}");
        }
    }
}
