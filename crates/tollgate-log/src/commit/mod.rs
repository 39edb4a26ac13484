//! The path of a batch from its appender to the disk, and its threads: writer, syncer and sealer.
//!
//! The threads share [`state::LogState`] under one lock. No thread holds the lock during a disk call. Any
//! error of a thread stops the log permanently ([`pipeline::CommitPipeline::fail`]). Then nothing more is
//! acknowledged, waiting workers learn that the state of their records is unknown, and `on_event` gets the
//! reason. The next start makes a new log.

mod batch_writer;
pub(crate) mod follower;
pub(crate) mod pipeline;
pub(crate) mod queue;
pub(crate) mod seal;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod write;

pub(crate) use batch_writer::BatchWriter;
