//! The way of a batch from its appender to the disk, and the threads on it: writer, syncer and sealer.
//!
//! The threads share [`state::LogState`] under one lock, which no thread holds over a call of the disk. Any
//! error of a thread stops the log permanently ([`pipeline::CommitPipeline::fail`]): nothing more is
//! acknowledged, waiting workers learn that their records are in an unknown state, and `on_event` gets the
//! reason. A later start makes a new log.

mod batch_writer;
pub(crate) mod follower;
pub(crate) mod pipeline;
pub(crate) mod queue;
pub(crate) mod seal;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod write;

pub(crate) use batch_writer::BatchWriter;
