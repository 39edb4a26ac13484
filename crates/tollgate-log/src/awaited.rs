//! Records whose replies wait until a sink has them, and the message that reports the result of each record.
//!
//! [`crate::pending_acks`] holds the batches of such records, by sink.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::appended::AppendedRecords;
use crate::id::Sequence;

/// Place of a sink in the order in which the sinks of a log were added. No place is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinkPlace(pub usize);

/// Whether a sink accepts records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkBreaker {
    /// The sink is not known to fail.
    Closed,
    /// The last attempt to load into the sink failed.
    Open,
}

/// Result of a record that is neither a row nor a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mishap {
    /// The sink stored the record as a reject, for this reason.
    Rejected(String),
    /// The record is in a gap.
    Missing,
}

/// A range of records that a load passed without making rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The first record.
    pub first: Sequence,
    /// The last record.
    pub last: Sequence,
    /// Result of each record of the range.
    pub mishap: Mishap,
}

/// A range of records in a batch whose replies wait for a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The sink that their replies wait for.
    pub(crate) sink: SinkPlace,
    /// Places of the records in the batch.
    pub(crate) places: Range<u32>,
}

impl Awaited {
    /// Adds records to the list of a batch. Merges adjacent places into one range.
    pub(crate) fn add(all: &mut Vec<Self>, sink: SinkPlace, places: Range<u32>) {
        match all.last_mut() {
            Some(last) if last.sink == sink && last.places.end == places.start => {
                last.places.end = places.end;
            }
            _ => all.push(Self { sink, places }),
        }
    }
}

/// Message to a worker: a sink has the records of the worker's batches up to `batch`.
#[derive(Debug)]
pub struct Settled {
    pub(crate) sink: SinkPlace,
    pub(crate) batch: u64,
    /// The results of records without rows, with the batch number and the place in the batch. The list is
    /// sorted by both.
    pub(crate) mishaps: Vec<(u64, u32, Mishap)>,
}

impl Settled {
    /// Returns the sink.
    pub fn sink(&self) -> SinkPlace {
        self.sink
    }

    /// Returns whether the sink has the records of a transaction.
    pub fn covers(&self, records: AppendedRecords) -> bool {
        records.batch <= self.batch
    }

    /// Returns the result of each record of a transaction that became no row, with its place in the
    /// transaction.
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

/// Messages of loaders that a worker has not taken yet, at most one for each sink.
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
