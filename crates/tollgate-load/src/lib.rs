//! From log to rows, exactly once.
//!
//! A record goes through the files in this order: `load` follows each log with a cursor and gathers chunks, a
//! `sink` commits each chunk, that is rows, rejects, gaps and the new position, in one transaction. `audit`
//! compares afterwards what the segments hold with what the sink says it has.
//!
//! Exactly once rests on one thing: the position of a log lies in the database and changes in the transaction
//! that brings the rows, and only if it still is what the loader read before. Nothing else is remembered, so
//! a crash, a panic or a second loader at any point costs work, never a row.
//!
//! `query` asks databases for others, and has nothing to do with loading but the connections.
//!
//! Absent here: HTTP, scripts, any file of our own beside the database. An async runtime exists inside the
//! connection to PostgreSQL alone, whose library wants one; nothing runs on it while the loader's thread does
//! not wait for it.

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
    LoadBacklog, LoadOptions, LoadState, LoadStatus, LoadTuning, LoadWatch, Loader, STALLED_MIN, SkipError,
    skip,
};
pub use query::{Asker, QueryAnswer, QueryError, QueryOptions, QueryPool, QueryRow, QuerySource, QueryValue};
pub use sink::{
    ItemRow, LoadFrom, PostgresOptions, PostgresUrl, ReadItem, Retried, STREAM_UNKNOWN, Sink, SinkKind,
    SinkOptions, TableName, Taken, Tally, hide_password,
};
