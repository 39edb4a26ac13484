//! From log to rows, exactly once.
//!
//! A record passes through the files in this order. `load` follows each log with a cursor and gathers chunks.
//! A `sink` commits each chunk in one transaction: rows, rejects, gaps and the new position. `audit` later
//! compares the records in the segments with the counts that the sink reports.
//!
//! Loading exactly once needs one rule. The position of a log is in the database, and changes only in the
//! transaction that writes the rows. If the position in the database is no longer the one that the loader
//! read, the transaction is rolled back. The loader has no other state on disk. So after a crash, a panic or
//! a race with a second loader, work is repeated, but no row is lost or loaded twice.
//!
//! `lease` spreads the logs of a store over several loaders. The rule does not depend on it.
//!
//! `topic` loads the topics that a Kafka sink wrote into a database.
//!
//! `query` runs queries of other crates. Loading and queries share only the code for connections.
//!
//! Absent here: HTTP, scripts, any file besides the database. An async runtime exists only inside the
//! connections to PostgreSQL, because their library needs one. The runtime of a loader runs only while the
//! loader's thread waits for a call.

mod audit;
mod clock;
mod error;
mod footer;
mod lease;
mod live;
mod load;
mod query;
mod sink;
mod sqlite_files;
mod sys;
mod topic;

pub use audit::{
    Audit, AuditRow, LogAccount, Place, RecordCounter, RecordsByStream, SinkAccount, SinkGap, StreamRecords,
    audit, sink_gaps,
};
pub use error::{AuditError, FinishError, LoaderStartError, Remedy, SinkError};
pub use lease::{LeaseKeeper, LeaseOptions, LeaseStartError, LeaseStatus, LeaseWatch, LogOffer};
pub use live::LiveLog;
pub use load::{
    LoadBacklog, LoadOptions, LoadState, LoadStatus, LoadTuning, LoadWatch, Loader, RefusedLogs, STALLED_MIN,
    SkipError, WAITING_MIN, skip,
};
pub use query::{
    Asker, QueryAnswer, QueryError, QueryOptions, QueryPool, QueryRow, QuerySource, QueryValue, ReadAnswer,
    ReadColumn, ReadError, ReadKind, read_postgres,
};
pub use tollgate_lake::{OWN_FOLDER, Partition};

pub use sink::{
    CatalogPlace, ClientCredentials, DeclaredStreams, Duplicates, IcebergOptions, ItemRow, KafkaOptions,
    LakePlace, LoadExtent, LoadFrom, LostTable, ParquetOptions, PlannedLoad, PostgresOptions, PostgresUrl,
    ReadItem, RestAuth, RestOptions, Retried, RowFormat, STREAM_UNKNOWN, SigV4, Sink, SinkKind, SinkOptions,
    StreamTallies, TableName, Taken, Tally, TopicReport, hide_password, topic_reports,
};
pub use topic::{
    PartitionAccount, SentAccount, TopicAudit, TopicLoadCounts, TopicLoadOptions, TopicLoader, audit_topics,
};
