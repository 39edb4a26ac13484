//! From log to rows, exactly once.
//!
//! A record goes through the files in this order. `load` follows each log with a cursor and gathers chunks. A
//! `sink` commits each chunk in one transaction: rows, rejects, gaps and the new position. `audit` later
//! compares what the segments have with what the sink reports.
//!
//! Exactly once rests on one rule. The position of a log is in the database, and changes only in the
//! transaction that writes the rows. It changes only if it is still the position that the loader read before.
//! The loader stores nothing else. So a crash, a panic or a second loader at any point costs work, never a
//! row.
//!
//! `query` runs queries of other crates. It shares only the connections with loading.
//!
//! Absent here: HTTP, scripts, any file besides the database. An async runtime exists only inside the
//! connections to PostgreSQL, because their library needs one. For a loader, it runs only while the loader's
//! thread waits for it.

mod audit;
mod clock;
mod error;
mod footer;
mod live;
mod load;
mod query;
mod sink;
mod sqlite_files;
mod sys;

pub use audit::{Audit, AuditRow, audit};
pub use error::{AuditError, FinishError, LoaderStartError, Remedy, SinkError};
pub use live::LiveLog;
pub use load::{
    LoadBacklog, LoadOptions, LoadState, LoadStatus, LoadTuning, LoadWatch, Loader, RefusedLogs, STALLED_MIN,
    SkipError, skip,
};
pub use query::{Asker, QueryAnswer, QueryError, QueryOptions, QueryPool, QueryRow, QuerySource, QueryValue};
pub use sink::{
    DeclaredStreams, ItemRow, LoadFrom, PostgresOptions, PostgresUrl, ReadItem, Retried, STREAM_UNKNOWN,
    Sink, SinkKind, SinkOptions, TableName, Taken, Tally, hide_password,
};
