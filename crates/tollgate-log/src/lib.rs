//! The record log: append, group commit, segments, recovery, cursors.
//!
//! A record passes through the files in this order:
//!
//! | file | task |
//! | --- | --- |
//! | [`schema`], [`record`] | the columns of a stream, and the bytes of a record |
//! | [`append`], [`appended`] | gathers the records of one pass of a worker into a batch; returns the records, or the refusal |
//! | [`worker_batch`] | the batch that a worker hands over, and which of its batches are written and synced |
//! | [`commit`] | queues batches, and runs the threads that write, sync and seal |
//! | [`segment_writer`], [`batch`], [`segment`] | writes batches into segments; the bytes of both |
//! | [`seal`], [`digest`] | seals a closed segment with a digest of its bytes |
//! | [`awaited`], [`pending_acks`] | releases replies that wait until a sink has their records |
//! | [`cursor`], [`scan`] | reads a log in order; scans a whole segment |
//! | [`mod@retain`], [`segment_list`], [`mod@deleted`] | deletes segments that every sink has, and remembers that |
//!
//! Outside this path: [`mod@log`] opens a log and starts its threads. [`mod@recover`] recovers the logs of
//! dead runs, and [`mod@repair`] repairs logs by command. [`verify`] checks a whole log, [`inspect`] shows
//! one file to a person, and [`accepted`] notes damage that an operator accepted. [`room`] refuses records
//! before the disk is full. [`queue_age`] measures how long batches wait for the disk. [`duty`] divides the
//! logs between two processes during an upgrade. [`meter`] and [`status`] count and report. [`storage`] is a
//! trait for the file system.
//!
//! The contract is `docs/reference/log-format.md`. Absent here: HTTP, scripts, sinks, any async runtime.

mod accepted;
mod append;
mod appended;
mod array_buffer;
mod awaited;
mod batch;
mod column_type;
mod commit;
mod cursor;
mod deleted;
mod descriptors;
mod digest;
mod duty;
mod error;
mod event;
mod id;
mod inspect;
mod log;
mod meter;
mod note_file;
mod options;
mod pending_acks;
mod queue_age;
mod reader;
mod record;
mod recover;
mod repair;
mod retain;
mod room;
mod row_body;
mod scan;
mod schema;
mod seal;
mod segment;
mod segment_list;
mod segment_writer;
mod status;
mod storage;
mod value;
mod verify;
mod worker_batch;

pub use accepted::AcceptedDamage;
pub use append::{Appender, Transaction};
pub use appended::{AppendError, AppendedRecords, Level};
pub use array_buffer::{ArrayBuffer, ElementError, OwnedArray};
pub use awaited::{Exception, Mishap, Settled, SinkBreaker, SinkPlace};
pub use batch::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, BatchHeader, BatchKind};
pub use column_type::{ColumnType, ElementType};
pub use commit::follower::Follower;
pub use commit::state::Watermark;
pub use cursor::{Cursor, CursorStep, Gap, MadeBatch, Position, RecordBatch};
pub use deleted::Deleted;
pub use error::{FormatError, LogError, join_chain};
pub use event::{DeleteReason, LogEvent};
pub use id::{LogId, Sequence};
pub use inspect::{BatchPart, FooterPart, Inspector, RecordContent, RecordPart, SegmentPart};
pub use log::{Log, LogPredecessor};
pub use options::{LogOptions, OpenError, WorkerWrites};
pub use queue_age::QueueState;
pub use record::{Record, RecordBody, RowEncoder, ValueError};
pub use recover::{LogRecovery, RecoveryReport, recover};
pub use repair::{RepairError, RepairMode, RepairReport, SegmentRepair, Treatment, repair};
pub use room::{RoomState, reserve_bytes};
pub use row_body::{decode_row_body, encode_row_body};
pub use scan::{Failure, SegmentScan, scan_segment, segment_header};
pub use schema::{
    BATCH_SCHEMAS_MAX, Column, ColumnOrigin, SCHEMAS_MAX, Schema, SchemaError, SchemaId, TooManySchemas,
};
pub use segment::{
    Digest, FORMAT_VERSION, SEGMENT_HEADER_BYTES, SegmentDigestAlgorithm, SegmentFooter, SegmentHeader,
    SegmentName, SegmentState, StreamCount, read_footer,
};
pub use segment_writer::{ClosedSegment, Handover, SegmentWriter, SyncWork};
pub use status::{LogStatus, LogWatch};
pub use storage::{
    DiskStorage, FILE_MODE, FOLDER_MODE, Space, Storage, StorageFile, StorageLock, make_folder, rename_new,
};
pub use value::{ARRAY_ELEMENTS_MAX, Array, Elements, Value};
pub use verify::{
    BatchEnd, DigestedSegment, SegmentEnd, SegmentProblem, SegmentVerdict, batch_that_ends_at, check_digest,
    log_ids, segments, verify_segment,
};
