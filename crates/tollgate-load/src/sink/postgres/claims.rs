//! Decides which rows of a chunk with keys are loaded: for each key, the first row that the database accepts.
//!
//! The rows of a chunk are copied together, so the keys are decided in rounds that keep the order of the log.
//! In each round, the first row of each undecided key claims the key. Rows that get their key are copied. If
//! the database refuses such a row, its key is deleted, and the next row claims the key in another round. So
//! there is at most one round more than there are refused rows.

use std::collections::{BTreeMap, HashSet, VecDeque};

use tollgate_log::{LogId, Sequence};

use super::copy_buffer::ClosedCopyBuffer;
use super::error::Failure;
use super::keys::{Claim, PostgresKeys, StreamKey};
use super::session::Session;

/// A row that claims a key.
struct Claimant {
    buffer: usize,
    row: usize,
    sequence: Sequence,
    window_ms: u64,
}

/// Rows with keys that are not decided yet.
pub(super) struct Claims {
    /// For each key, the rows that claim it, in the order of the log. No list is empty.
    open: BTreeMap<StreamKey, VecDeque<Claimant>>,
    /// Number of duplicates by stream.
    duplicates: BTreeMap<String, u64>,
}

impl Claims {
    pub(super) fn of(buffers: &[ClosedCopyBuffer]) -> Self {
        let mut open: BTreeMap<StreamKey, VecDeque<Claimant>> = BTreeMap::new();
        for (index, buffer) in buffers.iter().enumerate() {
            let Some((_, window)) = buffer.schema.key() else { continue };
            let window_ms = crate::sink::key::millis(window);
            for keyed in buffer.keyed() {
                let (row, sequence) = (keyed.row, buffer.sequence(keyed.row));
                let claimants = open.entry((buffer.schema.stream().to_owned(), keyed.key.clone()));
                claimants.or_default().push_back(Claimant { buffer: index, row, sequence, window_ms });
            }
        }
        // A stream whose columns changed has a buffer for each of its schemas.
        for claimants in open.values_mut() {
            claimants.make_contiguous().sort_by_key(|claimant| claimant.sequence);
        }
        Self { open, duplicates: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the number of duplicates by stream.
    pub(super) fn duplicates(&self) -> &BTreeMap<String, u64> {
        &self.duplicates
    }

    /// Claims each key for its first row. Adds the rows that got their key to the rows of their buffers.
    pub(super) fn claim(
        &mut self,
        session: &mut Session,
        keys: &mut PostgresKeys,
        log: LogId,
        rows: &mut [Vec<usize>],
    ) -> Result<(), Failure> {
        let asking = self.open.iter().filter_map(|(key, claimants)| {
            let Claimant { sequence, window_ms, .. } = *claimants.front()?;
            Some(Claim { key, sequence, window_ms })
        });
        let granted = keys.claim(session, log, &asking.collect::<Vec<_>>())?;
        let mut denied = Vec::new();
        for (key, claimants) in &self.open {
            match claimants.front() {
                Some(first) if granted.contains(&first.sequence) => rows[first.buffer].push(first.row),
                _ => denied.push(key.clone()),
            }
        }
        rows.iter_mut().for_each(|rows| rows.sort_unstable());
        self.deny(session, keys, log, &denied)
    }

    /// Counts rows as duplicates if another record has their key. If the record with the key is in this chunk
    /// too (a position was moved back), that record claims the key in the next round.
    fn deny(
        &mut self,
        session: &mut Session,
        keys: &PostgresKeys,
        log: LogId,
        denied: &[StreamKey],
    ) -> Result<(), Failure> {
        if denied.is_empty() {
            return Ok(());
        }
        let holders = keys.holders(session, log, &denied.iter().collect::<Vec<_>>())?;
        for key in denied {
            let holder = holders.get(key);
            let Some(mut claimants) = self.open.remove(key) else { continue };
            let at = claimants.iter().position(|claimant| Some(&claimant.sequence) == holder);
            let duplicates = claimants.drain(..at.unwrap_or(claimants.len())).count();
            self.count_duplicates(&key.0, duplicates);
            if !claimants.is_empty() {
                self.open.insert(key.clone(), claimants);
            }
        }
        Ok(())
    }

    /// Ends a round. A loaded row keeps its key. The key of a refused row is deleted, so that the next row
    /// can claim it.
    pub(super) fn settle(
        &mut self,
        session: &mut Session,
        keys: &PostgresKeys,
        copied: &HashSet<Sequence>,
        refused: &HashSet<Sequence>,
    ) -> Result<(), Failure> {
        let mut given_back = Vec::new();
        for (key, mut claimants) in std::mem::take(&mut self.open) {
            let first = claimants.front().map(|claimant| claimant.sequence).unwrap_or_default();
            if refused.contains(&first) {
                claimants.pop_front();
                given_back.push(key.clone());
            } else if copied.contains(&first) {
                self.count_duplicates(&key.0, claimants.len() - 1);
                claimants.clear();
            }
            if !claimants.is_empty() {
                self.open.insert(key, claimants);
            }
        }
        match given_back.is_empty() {
            true => Ok(()),
            false => keys.give_back(session, &given_back.iter().collect::<Vec<_>>()),
        }
    }

    fn count_duplicates(&mut self, stream: &str, count: usize) {
        if count > 0 {
            *self.duplicates.entry(stream.to_owned()).or_default() += count as u64;
        }
    }
}
