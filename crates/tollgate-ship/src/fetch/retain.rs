//! Deletes segments from the store that every sink has.
//!
//! A segment is deleted when two conditions are true: all sinks have all its records, and it is older than
//! `StoreRetain::age`. Age alone deletes nothing. Several loaders may delete at once, because a deleted
//! segment is never needed again.

use std::time::Duration;

use tollgate_log::{LogId, Sequence};

use crate::answer::{PositionAnswer, TEXT_BYTES_MAX, now_ms};
use crate::listing::end_of;
use crate::name::{NodeName, ObjectName};
use crate::store::{Store, StoreError};

/// Rules for the deletion of segments in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRetain {
    /// The shortest time that a segment stays in the store. `None`: no segment is deleted.
    pub age: Option<Duration>,
    /// The sinks that must have loaded a segment before it is deleted. `None`: all sinks with a position in
    /// this store.
    pub sinks: Option<Vec<String>>,
}

impl Default for StoreRetain {
    fn default() -> Self {
        Self { age: Some(Duration::from_hours(7 * 24)), sinks: None }
    }
}

/// Deletes the segments of one log that are due. Returns the number of deleted segments.
pub(super) fn delete_due(
    store: &dyn Store,
    rules: &StoreRetain,
    log: LogId,
    node: &NodeName,
) -> Result<u64, StoreError> {
    let Some(age) = rules.age else { return Ok(0) };
    let Some(loaded) = loaded_by_all(store, rules, log)?.filter(|loaded| *loaded > Sequence(0)) else {
        return Ok(0);
    };
    let names = store.list(&ObjectName::segments_of_log(node, log), None)?;
    let firsts: Vec<_> = names.iter().filter_map(|name| Some((name, first_of(name)?))).collect();
    let mut deleted = 0;
    for (at, (name, _)) in firsts.iter().enumerate() {
        // The first record of the next segment shows the last record of this segment. After the last segment
        // there is no next one. Its last record is known only when the log has ended: it is the end of the
        // log.
        let next = match firsts.get(at + 1) {
            Some((_, next)) => *next,
            None => match end_of(store, log)? {
                Some(end) => end.last.after(1),
                None => break,
            },
        };
        if next.before() > loaded || !is_older(store, name, age)? {
            break;
        }
        store.remove(name)?;
        deleted += 1;
    }
    // The end object is deleted after all segments. If it stayed in the store, a new loader would ask for the
    // deleted segments.
    if deleted == firsts.len() as u64
        && let Some(end) = end_of(store, log)?
        && end.last <= loaded
    {
        store.remove(&ObjectName::End(log).to_string())?;
    }
    Ok(deleted)
}

fn first_of(name: &str) -> Option<Sequence> {
    match ObjectName::parse(name)? {
        ObjectName::Segment { first, .. } => Some(first),
        _ => None,
    }
}

/// Returns the last record of a log that every sink of the rules has loaded. `None`: at least one sink has no
/// position in the store.
fn loaded_by_all(store: &dyn Store, rules: &StoreRetain, log: LogId) -> Result<Option<Sequence>, StoreError> {
    let sinks = match &rules.sinks {
        Some(sinks) => sinks.clone(),
        None => store.folders(&ObjectName::positions())?,
    };
    let mut loaded = None;
    for sink in sinks {
        let text = store.text(&ObjectName::Position { sink, log }.to_string(), TEXT_BYTES_MAX)?;
        let Some(answer) = text.as_deref().and_then(PositionAnswer::parse) else { return Ok(None) };
        let last = answer.position.last;
        loaded = Some(loaded.map_or(last, |loaded: Sequence| loaded.min(last)));
    }
    Ok(loaded)
}

fn is_older(store: &dyn Store, name: &str, age: Duration) -> Result<bool, StoreError> {
    let Some(head) = store.head(name)? else { return Ok(false) };
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Ok(now_ms().saturating_sub(head.modified_ms) >= age_ms)
}
