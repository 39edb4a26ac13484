//! Lists what a store has: the logs of all machines, the segments of a log, and the positions of sinks.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Position, Sequence};

use crate::answer::{EndAnswer, NodeAnswer, PositionAnswer, TEXT_BYTES_MAX, WantAnswer};
use crate::name::{NodeName, ObjectName};
use crate::store::{LISTED_MAX, Store, StoreError};

/// Returns the logs with segments in a store, each with the machine that wrote it. Two machines may have
/// copies of one log.
///
/// # Errors
/// The store does not answer.
pub fn shipped_logs(store: &dyn Store) -> Result<Vec<(NodeName, LogId)>, StoreError> {
    let mut logs = Vec::new();
    for folder in store.folders(&ObjectName::segments())? {
        let Some(node) = NodeName::parse(&folder) else { continue };
        for folder in store.folders(&ObjectName::segments_of_node(&node))? {
            // A folder with another spelling of an id was not made by Tollgate.
            let log = folder.parse().ok().filter(|log: &LogId| log.to_string() == folder);
            logs.extend(log.map(|log| (node.clone(), log)));
        }
    }
    Ok(logs)
}

/// Returns the logs that have ended, as their machines noted in a store.
///
/// # Errors
/// The store does not answer.
pub fn ended_logs(store: &dyn Store) -> Result<Vec<LogId>, StoreError> {
    names_with(store, &ObjectName::ends(), None, |name| match name {
        ObjectName::End(log) => Some(log),
        _ => None,
    })
}

/// Returns the end of a log. `None`: the log has not ended, or its end was deleted.
///
/// # Errors
/// The store does not answer.
pub fn end_of(store: &dyn Store, log: LogId) -> Result<Option<EndAnswer>, StoreError> {
    let text = store.text(&ObjectName::End(log).to_string(), TEXT_BYTES_MAX)?;
    Ok(text.as_deref().and_then(EndAnswer::parse))
}

/// Returns the last record of a log that its machine reported as shipped. `None`: the machine writes another
/// log by now, or reported none.
///
/// # Errors
/// The store does not answer.
pub fn reported_of(store: &dyn Store, node: &NodeName, log: LogId) -> Result<Option<Sequence>, StoreError> {
    let text = store.text(&ObjectName::Node(node.clone()).to_string(), TEXT_BYTES_MAX)?;
    let report = text.as_deref().and_then(NodeAnswer::parse).filter(|report| report.log == Some(log));
    Ok(report.and_then(|report| report.shipped))
}

/// Returns the first records of the segments of a log, in order. `after`: returns only numbers above this
/// one.
///
/// # Errors
/// The store does not answer.
pub fn segments_of(
    store: &dyn Store,
    node: &NodeName,
    log: LogId,
    after: Option<Sequence>,
) -> Result<Vec<Sequence>, StoreError> {
    let name = |first| ObjectName::Segment { node: node.clone(), log, first }.to_string();
    let after = after.filter(|first| first.is_possible()).map(name);
    names_with(store, &ObjectName::segments_of_log(node, log), after, |name| match name {
        ObjectName::Segment { first, .. } => Some(first),
        _ => None,
    })
}

/// Returns the position of each sink that answered about a log, by the name of the sink.
///
/// # Errors
/// The store does not answer.
pub fn positions_of(store: &dyn Store, log: LogId) -> Result<BTreeMap<String, Position>, StoreError> {
    let mut positions = BTreeMap::new();
    for sink in store.folders(&ObjectName::positions())? {
        let name = ObjectName::Position { sink: sink.clone(), log }.to_string();
        // The folder may have a name that no sink has.
        if ObjectName::parse(&name).is_some()
            && let Some(text) = store.text(&name, TEXT_BYTES_MAX)?
            && let Some(answer) = PositionAnswer::parse(&text)
        {
            positions.insert(sink, answer.position);
        }
    }
    Ok(positions)
}

/// Returns the state of a request for a segment. `None`: no loader asked for it.
///
/// # Errors
/// The store does not answer.
pub fn want_of(store: &dyn Store, log: LogId, first: Sequence) -> Result<Option<WantAnswer>, StoreError> {
    let text = store.text(&ObjectName::Want { log, first }.to_string(), TEXT_BYTES_MAX)?;
    Ok(text.as_deref().and_then(WantAnswer::parse))
}

/// Lists all names with a prefix after the name `after`, and returns the part of each that `part` finds.
fn names_with<T>(
    store: &dyn Store,
    prefix: &str,
    mut after: Option<String>,
    part: impl Fn(ObjectName) -> Option<T>,
) -> Result<Vec<T>, StoreError> {
    let mut parts = Vec::new();
    loop {
        let names = store.list(prefix, after.as_deref())?;
        parts.extend(names.iter().filter_map(|name| ObjectName::parse(name).and_then(&part)));
        if names.len() < LISTED_MAX {
            return Ok(parts);
        }
        after = names.last().cloned();
    }
}
