//! The positions of the sinks, as the store has them. Machines that wrote the logs read them there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_log::{LogId, Position};

use super::options::SinkPositions;
use crate::answer::{PositionAnswer, TEXT_BYTES_MAX};
use crate::name::ObjectName;
use crate::store::{Store, StoreError};

/// The last position of each sink and log that the store has. A missing entry is unknown.
#[derive(Debug, Default)]
pub(super) struct AnsweredPositions(BTreeMap<(String, LogId), (Position, Instant)>);

impl AnsweredPositions {
    /// Writes the position of each sink in the chosen logs to the store. For one sink and log, at least
    /// `every` passes between two writes.
    pub(super) fn write(
        &mut self,
        store: &dyn Store,
        positions: &SinkPositions,
        is_chosen: impl Fn(LogId) -> bool,
        every: Duration,
    ) -> Result<(), StoreError> {
        for (sink, logs) in positions {
            for (log, position) in logs.iter().filter(|(log, _)| is_chosen(**log)) {
                let key = (sink.clone(), *log);
                let known = self.0.get(&key);
                let is_due = known.is_none_or(|(answered, at)| answered != position && at.elapsed() >= every);
                if is_due {
                    store.put_text(&name_of(sink, *log), &PositionAnswer::now(*position).to_text())?;
                    self.0.insert(key, (*position, Instant::now()));
                }
            }
        }
        Ok(())
    }

    /// Returns whether the store has the position of each sink in a log.
    pub(super) fn are_whole(
        &mut self,
        store: &dyn Store,
        positions: &SinkPositions,
        log: LogId,
    ) -> Result<bool, StoreError> {
        for (sink, logs) in positions {
            let Some(position) = logs.get(&log) else { continue };
            let key = (sink.clone(), log);
            if !self.0.contains_key(&key) {
                let text = store.text(&name_of(sink, log), TEXT_BYTES_MAX)?;
                let Some(answer) = text.as_deref().and_then(PositionAnswer::parse) else { return Ok(false) };
                self.0.insert(key.clone(), (answer.position, Instant::now()));
            }
            if self.0.get(&key).is_none_or(|(answered, _)| answered != position) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn name_of(sink: &str, log: LogId) -> String {
    ObjectName::Position { sink: sink.to_owned(), log }.to_string()
}
