//! The path of a batch from its appender to the disk, and its threads: writer, syncer and sealer.
//!
//! The threads share [`state::LogState`] under one lock. No thread holds the lock during a disk call. Any
//! error of a thread stops the log permanently ([`pipeline::CommitPipeline::fail`]). The log then
//! acknowledges no more records, and `on_event` gets the reason. Waiting workers get the result that the
//! state of their records is unknown. The next start makes a new log.

mod batch_writer;
pub(crate) mod follower;
pub(crate) mod pipeline;
pub(crate) mod queue;
pub(crate) mod seal;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod write;

pub(crate) use batch_writer::BatchWriter;
