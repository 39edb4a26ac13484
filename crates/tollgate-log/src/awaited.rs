//! Records that replies wait for until a sink has them, and the message that says what the sink made of them.
//!
//! [`crate::pending_acks`] holds the batches of such records, sink by sink.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::appended::AppendedRecords;
use crate::id::Sequence;

/// Names a sink by its place among those that a log has known, in the order in which they came; it is given
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinkPlace(pub usize);

/// Whether a sink takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkBreaker {
    /// As far as is known it does.
    Closed,
    /// The last try failed.
    Open,
}

/// What became of a record that is neither a row nor a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    /// It is kept as a reject, for this reason.
    Rejected(String),
    /// It is in a gap.
    Missing,
}

/// Records that a load passed without rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The first.
    pub first: Sequence,
    /// The last.
    pub last: Sequence,
    /// What became of each.
    pub mishap: Mishap,
}

/// Records of a batch that replies wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// Until this sink has them.
    pub(crate) sink: SinkPlace,
    /// Their places in the batch.
    pub(crate) places: Range<u32>,
}

impl Awaited {
    /// Adds records to those of a batch.
    pub(crate) fn add(all: &mut Vec<Self>, sink: SinkPlace, places: Range<u32>) {
        match all.last_mut() {
            Some(last) if last.sink == sink && last.places.end == places.start => {
                last.places.end = places.end;
            }
            _ => all.push(Self { sink, places }),
        }
    }
}

/// Tells a worker that a sink has what its replies waited for, up to some batch.
#[derive(Debug)]
pub struct Settled {
    pub(crate) sink: SinkPlace,
    pub(crate) batch: u64,
    /// Batch and place in it, in their order.
    pub(crate) mishaps: Vec<(u64, u32, Mishap)>,
}

impl Settled {
    /// The sink.
    pub fn sink(&self) -> SinkPlace {
        self.sink
    }

    /// Whether the records of a transaction are among them.
    pub fn covers(&self, records: AppendedRecords) -> bool {
        records.batch <= self.batch
    }

    /// What became of those records of a transaction that are no rows: each with its place among them.
    pub fn mishaps_of(&self, records: AppendedRecords) -> impl Iterator<Item = (usize, &Mishap)> {
        let from = self
            .mishaps
            .partition_point(|(batch, place, _)| (*batch, *place) < (records.batch, records.first));
        let end = (records.batch, records.first + records.count);
        let of_records =
            self.mishaps[from..].iter().take_while(move |(batch, place, _)| (*batch, *place) < end);
        of_records.map(move |(_, place, mishap)| ((place - records.first) as usize, mishap))
    }
}

/// Messages of the loaders that a worker has not taken yet: one for each sink at most.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Vec<Settled>>);

impl Inbox {
    pub(crate) fn take(&self) -> Vec<Settled> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn put(&self, settled: Settled) {
        let mut inbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inbox.iter_mut().find(|known| known.sink == settled.sink) {
            Some(known) => {
                known.batch = settled.batch;
                known.mishaps.extend(settled.mishaps);
            }
            None => inbox.push(settled),
        }
    }
}
