//! The record log: append, group commit, segments, recovery, cursors.
//!
//! A record goes through the files in this order: [`schema`] says what a stream's rows look like, [`record`] encodes
//! one, [`append`] gathers those of one pass of a worker into a batch, [`commit`] runs the threads that write, sync
//! and seal through [`segment_writer`], [`batch`] and [`segment`] are the bytes, [`digest`] what seals them. [`mod@recover`] mends what a dead run
//! left, [`mod@repair`] does it by hand, [`cursor`] reads a log in order, [`verify`] checks a whole one,
//! [`inspect`] takes one file apart for a person. [`retain`] deletes what every sink has, as [`shelf`] decides, [`mod@deleted`] remembers that, and
//! [`room`] refuses records before the disk is full, [`backlog`] knows how old the queue for it is; [`meter`] tells how it all does; [`awaited`] tells replies when a sink has their records. [`storage`] is the file system, as a trait.
//!
//! The contract is `docs/log-format.md`. Absent here: HTTP, scripts, sinks, any async runtime.

mod append;
mod appended;
mod awaited;
mod backlog;
mod batch;
mod commit;
mod cursor;
mod deleted;
mod descriptors;
mod desk;
mod digest;
mod error;
mod event;
mod id;
mod inspect;
mod log;
mod meter;
mod options;
mod reader;
mod record;
mod recover;
mod repair;
mod retain;
mod room;
mod scan;
mod schema;
mod seal;
mod segment;
mod segment_writer;
mod shelf;
mod status;
mod storage;
mod verify;
mod worker_batch;

pub use append::{Appender, Transaction};
pub use appended::{AppendError, Level, Ticket};
pub use awaited::{Breaker, Exception, Mishap, Settled, SinkPlace};
pub use backlog::QueueState;
pub use batch::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, BatchHeader, BatchKind};
pub use commit::follower::Follower;
pub use commit::state::Watermark;
pub use cursor::{Cursor, CursorStep, Gap, Position, RecordBatch};
pub use deleted::Deleted;
pub use error::{FormatError, LogError, join_chain};
pub use event::{DeleteReason, LogEvent};
pub use id::{LogId, Sequence};
pub use inspect::{BatchPart, FooterPart, Inspector, Part, RecordContent, RecordPart};
pub use log::Log;
pub use options::{LogOptions, OpenError, WorkerWrites};
pub use record::{Record, RecordBody, RowEncoder, Value, ValueError};
pub use recover::{LogRecovery, RecoveryReport, recover};
pub use repair::{RepairError, RepairMode, RepairReport, SegmentRepair, Treatment, repair};
pub use room::{RoomState, reserve_bytes};
pub use scan::{Failure, SegmentScan, scan_segment};
pub use schema::{
    BATCH_SCHEMAS_MAX, Column, ColumnOrigin, ColumnType, SCHEMAS_MAX, Schema, SchemaError, SchemaId,
    TooManySchemas,
};
pub use segment::{
    Digest, DigestAlgorithm, SEGMENT_HEADER_BYTES, SegmentFooter, SegmentHeader, SegmentName, SegmentState,
    StreamCount, read_footer,
};
pub use segment_writer::{ClosedSegment, Handover, SegmentWriter, SyncWork};
pub use status::{LogStatus, LogWatch};
pub use storage::{
    DiskStorage, FILE_MODE, FOLDER_MODE, Space, Storage, StorageFile, StorageLock, make_folder,
};
pub use verify::{
    BatchEnd, SegmentEnd, SegmentProblem, SegmentVerdict, batch_that_ends_at, log_ids, segments,
    verify_segment,
};
