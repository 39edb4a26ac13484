//! Why requests, or whole connections, are not taken on; and which records were not confirmed.

use tollgate_log::AppendError;

/// Why a request or a connection is not taken on. Nothing of it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The worker is behind.
    Behind,
    /// Too much is in flight.
    Memory,
    /// There are as many connections as may be.
    Connections,
    /// No descriptor is left: accepting pauses, and connections wait.
    Descriptors,
    /// One client has as many as it may have.
    ClientConnections,
    /// Too much, or too old a record, waits for the disk.
    LogQueue,
    /// The disk of the log is nearly full.
    Disk,
    /// The log failed.
    LogStopped,
    /// The records are larger than a transaction may be.
    TooLarge,
    /// The database is away that the reply would wait for.
    Database,
    /// The scripts keep too much memory, and are not replaced yet.
    ScriptMemory,
    /// More scripts come than the worker can run.
    ScriptQueue,
    /// A body cannot be spooled.
    Spool,
    /// As many requests of the route run as may.
    Concurrency,
    /// Too many requests of a client, of a key or of the route came.
    Rate,
}

impl Refusal {
    pub(crate) const ALL: [Self; 15] = [
        Self::Behind,
        Self::Memory,
        Self::Connections,
        Self::Descriptors,
        Self::ClientConnections,
        Self::LogQueue,
        Self::Disk,
        Self::LogStopped,
        Self::TooLarge,
        Self::Database,
        Self::ScriptMemory,
        Self::ScriptQueue,
        Self::Spool,
        Self::Concurrency,
        Self::Rate,
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
            Self::LogStopped => "log_stopped",
            Self::TooLarge => "too_large",
            Self::Database => "database",
            Self::ScriptMemory => "script_memory",
            Self::ScriptQueue => "script_queue",
            Self::Spool => "spool",
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
        }
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Self {
        match error {
            AppendError::TooLarge { .. } => Self::TooLarge,
            AppendError::Busy { .. } | AppendError::Slow { .. } => Self::LogQueue,
            AppendError::NoRoom => Self::Disk,
            AppendError::Stopped(_) => Self::LogStopped,
        }
    }
}

/// Why a reply took the place of another: its records are not where they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unconfirmed {
    /// The log failed before they were written.
    Lost,
    /// They are in the log, and the database did not have them in time.
    Late,
    /// They were damaged in the log before the database had them.
    Missing,
    /// The database has them, but not all as rows.
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
