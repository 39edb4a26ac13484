//! Reasons of refused requests and connections, and of records that were not confirmed.

use tollgate_log::AppendError;

/// Reason why a request or a connection was refused. Nothing was recorded for the refused request or
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The run queue of the worker is too old.
    Behind,
    /// Connections hold too much memory.
    Memory,
    /// The maximum number of connections is reached.
    Connections,
    /// No descriptor is free. Accepting pauses, and connections wait.
    Descriptors,
    /// One client has its maximum number of connections.
    ClientConnections,
    /// Too many records wait for the disk, or the oldest of them waits too long.
    LogQueue,
    /// The disk of the log is nearly full.
    Disk,
    /// The folder of the log is gone.
    LogGone,
    /// The log failed.
    LogStopped,
    /// The records exceed the size of a transaction.
    TooLarge,
    /// The reply would wait for a sink that is unavailable: a database or a queue.
    Sink,
    /// The scripts hold too much memory, and their VM is not replaced yet.
    ScriptMemory,
    /// More scripts arrive than the worker can run.
    ScriptQueue,
    /// A body cannot be spooled.
    Spool,
    /// The maximum number of requests of the route already runs.
    Concurrency,
    /// The rate of a client, a key or the route is exceeded.
    Rate,
    /// The client has sent too many wrong credentials.
    FailedLogins,
    /// Too many passwords wait to be checked.
    PasswordQueue,
    /// The keys of JSON Web Tokens are not there yet.
    TokenKeys,
}

impl Refusal {
    pub(crate) const ALL: [Self; 19] = [
        Self::Behind,
        Self::Memory,
        Self::Connections,
        Self::Descriptors,
        Self::ClientConnections,
        Self::LogQueue,
        Self::Disk,
        Self::LogGone,
        Self::LogStopped,
        Self::TooLarge,
        Self::Sink,
        Self::ScriptMemory,
        Self::ScriptQueue,
        Self::Spool,
        Self::Concurrency,
        Self::Rate,
        Self::FailedLogins,
        Self::PasswordQueue,
        Self::TokenKeys,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Memory => "memory",
            Self::Connections => "connections",
            Self::Descriptors => "descriptors",
            Self::ClientConnections => "client_connections",
            Self::LogQueue => "log_queue",
            Self::Disk => "disk",
            Self::LogGone => "log_gone",
            Self::LogStopped => "log_stopped",
            Self::TooLarge => "too_large",
            Self::Sink => "sink",
            Self::ScriptMemory => "script_memory",
            Self::ScriptQueue => "script_queue",
            Self::Spool => "spool",
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::FailedLogins => "failed_logins",
            Self::PasswordQueue => "password_queue",
            Self::TokenKeys => "token_keys",
        }
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Self {
        match error {
            AppendError::TooLarge { .. } => Self::TooLarge,
            AppendError::Busy { .. } | AppendError::Slow { .. } => Self::LogQueue,
            AppendError::NoRoom => Self::Disk,
            AppendError::Gone => Self::LogGone,
            AppendError::Stopped(_) => Self::LogStopped,
        }
    }
}

/// Reason why the records of a reply did not reach their ack level. Another reply replaced such a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unconfirmed {
    /// The log failed before the records were written.
    Lost,
    /// The log has the records, but the database did not have them in time.
    Late,
    /// The records were damaged in the log before the database had them.
    Missing,
    /// The database has the records, but not all of them as rows.
    Rejected,
}

impl Unconfirmed {
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::Lost, "lost"),
        (Self::Late, "late"),
        (Self::Missing, "missing"),
        (Self::Rejected, "rejected"),
    ];
}
