//! One chunk: batches and gaps of a log that are committed to the sink together.

use std::collections::BTreeMap;

use tollgate_log::{Cursor, CursorStep, LogError, Position, RecordBatch, Sequence};

use super::options::LoadTuning;
use crate::error::SinkError;
use crate::sink::{Sink, Taken};

/// Why a chunk is not loaded: an error of the log or of the sink.
pub(super) enum ChunkError {
    Log(LogError),
    Sink(SinkError),
}

impl From<LogError> for ChunkError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<SinkError> for ChunkError {
    fn from(error: SinkError) -> Self {
        Self::Sink(error)
    }
}

/// Number of tables at which a chunk ends, after the current batch. Each table is checked and locked in the
/// transaction of the chunk.
const TABLES_MAX: usize = 64;

/// Where a chunk ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkEnd {
    /// After the batch that reaches the sizes of the tuning.
    Sizes,
    /// At the limit, or before the first batch that cannot be read.
    Limit,
    /// At the limit. If a batch before it cannot be read, the chunk is an error.
    LimitOnly,
}

/// State of a chunk while it is filled.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) end: Option<Position>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// Wall clock at the write of the last batch, in microseconds since 1970.
    pub(super) stamp_us: Option<i64>,
}

/// Writes batches and gaps into a transaction until the chunk is full or no more records may be read.
///
/// Calls `on_progress` after each batch and each gap. Batches are not copied: the sink reads their records
/// from the window of the cursor. The transaction begins with the first batch or gap.
pub(super) fn fill(
    cursor: &mut Cursor,
    sink: &mut dyn Sink,
    taken: &Taken,
    (expected, limit): (Option<Position>, Option<Sequence>),
    (ends, tuning): (ChunkEnd, &LoadTuning),
    on_progress: &dyn Fn(),
) -> Result<Chunk, ChunkError> {
    let log = cursor.log();
    let mut chunk = Chunk::default();
    while ends != ChunkEnd::Sizes
        || chunk.rows < tuning.chunk_rows_max
            && chunk.bytes < tuning.chunk_bytes_max
            && sink.tables_met() < TABLES_MAX
    {
        let step = match cursor.step(limit) {
            // The batches that were read before the error are loaded first. The next chunk meets the error
            // again, with its first read.
            Err(_) if chunk.end.is_some() && ends != ChunkEnd::LimitOnly => break,
            step => step?,
        };
        on_progress();
        match step {
            CursorStep::CaughtUp => break,
            CursorStep::Batch(mut batch) => {
                if chunk.end.is_none() {
                    sink.begin(log, expected)?;
                }
                leave_out(&mut batch, taken, sink);
                sink.write(&batch)?;
                chunk.rows += batch.first().count_to(batch.end().last);
                chunk.bytes += batch.bytes() as u64;
                chunk.stamp_us = Some(batch.stamp_us());
                chunk.end = Some(batch.end());
            }
            CursorStep::Gap(gap) => {
                if chunk.end.is_none() {
                    sink.begin(log, expected)?;
                }
                tracing::error!(%log, first = %gap.first, last = %gap.last, reason = gap.reason, "records are missing");
                sink.gap(&gap)?;
                chunk.end = Some(Position { last: gap.last, chain: None });
            }
        }
    }
    Ok(chunk)
}

/// Excludes the records of streams that the sink does not take. The sink only counts them.
pub(super) fn leave_out(batch: &mut RecordBatch<'_>, taken: &Taken, sink: &mut dyn Sink) {
    if *taken == Taken::All {
        return;
    }
    let others = batch.schemas().filter(|(_, schema)| !taken.takes(schema.stream()));
    let others: BTreeMap<_, _> = others.collect();
    for (id, count) in batch.leave_out(others.keys().copied().collect()) {
        sink.skipped(others[&id].stream(), count);
    }
}
