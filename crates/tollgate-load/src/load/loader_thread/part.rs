//! The part of a log that the next load may have.

use std::time::Instant;

use tollgate_log::{LogId, Sequence};

use super::super::chunk::{ChunkEnd, ChunkError};
use super::super::control::Order;
use super::super::follow::Following;
use super::super::segments::whole_segments;
use super::LoaderThread;
use crate::sink::{LoadExtent, PlannedLoad, Taken};

/// The part of a log that the next load may have.
pub(super) struct Part {
    /// The last record. `None`: the end of the log.
    pub(super) limit: Option<Sequence>,
    pub(super) ends: ChunkEnd,
    /// The streams of the load.
    pub(super) taken: Taken,
}

impl LoaderThread {
    /// Returns the part of a log for the next load, which may be read up to `limit`. `None`: the sink waits
    /// for more segments.
    pub(super) fn part(
        &mut self,
        log: LogId,
        following: &mut Following,
        limit: Option<Sequence>,
        taken: Taken,
    ) -> Result<Option<Part>, ChunkError> {
        let LoadExtent::Segments { bytes, age } = self.sink()?.extent() else {
            return Ok(Some(Part { limit, ends: ChunkEnd::Sizes, taken }));
        };
        self.control.update(|status| status.file_age = age);
        let (dir, position) = (&self.options.dir, following.position);
        let Some(found) = whole_segments(&*self.storage, dir, log, position, bytes)? else { return Ok(None) };
        let since = *following.waiting_since.get_or_insert_with(Instant::now);
        // A log without an end is over: its last segment is damaged, so no segment follows.
        let is_due = found.bytes >= bytes || found.last.is_none() || since.elapsed() >= age;
        // A load that failed is tried again without a wait for more segments, so that the sink fails until it
        // works.
        let may_wait = self.options.tuning.waits_for_segments && self.backoff.is_none();
        if !is_due && may_wait && self.control.order() == Order::Follow {
            return Ok(None);
        }
        let planned = self.sink()?.planned(log, position, &taken)?;
        Ok(Some(match planned {
            Some(PlannedLoad { last, taken }) => Part { limit: Some(last), ends: ChunkEnd::LimitOnly, taken },
            None => Part { limit: found.last.or(limit), ends: ChunkEnd::Limit, taken },
        }))
    }
}
