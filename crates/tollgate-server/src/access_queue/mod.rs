//! The lines of the access log on their way from the workers to the thread that writes them.
//!
//! A worker describes each request as a [`line`](mod@line) of bytes in a batch. Batches wait in the
//! [`queue`], which is bounded: lines that do not fit are lost and counted. Exported spans take the same way
//! in a queue of their own. This module formats no text.

mod line;
mod queue;

pub use line::{AccessClient, AccessLine, AccessOutcome, SpanFacts};
pub(crate) use line::{AckCode, LineFacts, push_text, texts_of};
pub use queue::{AccessBatch, AccessQueue, AccessReport, TakenBatches};
