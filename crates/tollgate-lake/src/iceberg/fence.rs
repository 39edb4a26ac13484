//! The fence of a table: properties that name the loads in the table. They change in the commit that brings
//! the rows, so a load is never in the table twice.

use tollgate_log::{LogId, Sequence};

use crate::names::LoadName;
use crate::plan::Plan;

/// The property with the name of the sink that made the table.
pub(super) const SINK: &str = "tollgate.sink";

/// What a table says about a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fence {
    /// The load is not in the table.
    Free,
    /// The load is in the table.
    Passed,
    /// The table has a part of the records, or the same records of another log.
    Other(String),
}

/// A load as the properties of a table have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FencedLoad {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) load: LoadName,
    last: u64,
}

/// The beginning of the keys of all positions. The name of the sink and the log follow.
pub(super) const POSITION: &str = "tollgate.position.";

/// Returns the beginning of the keys of all positions of a sink.
pub(super) fn positions_of(sink: &str) -> String {
    format!("{POSITION}{sink}.")
}

/// Returns the beginning of the keys of all fills of a sink.
pub(super) fn fills_of(sink: &str) -> String {
    format!("tollgate.fill.{sink}.")
}

/// Returns the fill of a key, without the beginning of the key.
pub(super) fn fill_of(key: &str) -> Option<LoadName> {
    let (log, records) = key.split_once('.')?;
    let (first, last) = records.split_once('-')?;
    let number = |text: &str| text.parse().ok().map(Sequence);
    Some(LoadName::Fill { log: log.parse().ok()?, first: number(first)?, last: number(last)? })
}

/// Returns the last record in the value of a position.
pub(super) fn last_of(value: &str) -> Option<u64> {
    value.split(':').next()?.parse().ok()
}

impl FencedLoad {
    pub(super) fn new(sink: &str, load: LoadName, plan: &Plan) -> Self {
        let chain = plan.chain.map_or_else(String::new, |chain| format!(":{chain}"));
        let position = |log: LogId| format!("{}{log}", positions_of(sink));
        let (key, value, last) = match load {
            LoadName::Next { log, .. } => (position(log), format!("{}{chain}", plan.last), plan.last),
            LoadName::Fill { log, first, last } => {
                (format!("{}{log}.{first}-{last}", fills_of(sink)), last.to_string(), last.0)
            }
            LoadName::Retry { number } => (format!("tollgate.retry.{sink}"), number.to_string(), number),
        };
        Self { key, value, load, last }
    }

    /// Compares the load with the property that a table has.
    pub(super) fn check(&self, found: Option<&str>) -> Fence {
        let Some(found) = found else { return Fence::Free };
        let Some(number) = last_of(found) else { return Fence::Other(found.to_owned()) };
        match self.load {
            LoadName::Next { first, .. } if number < first.0 => Fence::Free,
            LoadName::Next { .. } if number > self.last || found == self.value => Fence::Passed,
            LoadName::Fill { .. } if number == self.last => Fence::Passed,
            LoadName::Retry { .. } if number < self.last => Fence::Free,
            LoadName::Retry { .. } => Fence::Passed,
            LoadName::Next { .. } | LoadName::Fill { .. } => Fence::Other(found.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_log::Position;

    use super::*;
    use crate::plan::Streams;

    #[test]
    fn the_key_of_a_fill_names_the_fill() {
        let plan = Plan::new(Position { last: Sequence(20), chain: Some(7) }, Streams::All);
        let fill = LoadName::Fill { log: LogId::random(), first: Sequence(3), last: Sequence(5) };
        let key = FencedLoad::new("lake", fill, &plan).key;
        assert_eq!(fill_of(key.strip_prefix(&fills_of("lake")).unwrap()), Some(fill));
        for other in
            ["", "x.1-2", "01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b.1", "01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b"]
        {
            assert_eq!(fill_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_load_is_free_passed_or_of_another_log() {
        let log = LogId::random();
        let plan = Plan::new(Position { last: Sequence(20), chain: Some(7) }, Streams::All);
        let next = LoadName::Next { log, first: Sequence(11) };
        let other = |text: &str| Fence::Other(text.to_owned());
        let cases = [
            (next, None, Fence::Free),
            (next, Some("10:1"), Fence::Free),
            (next, Some("3"), Fence::Free),
            (next, Some("20:7"), Fence::Passed),
            (next, Some("21:9"), Fence::Passed),
            // Another chain, or another end: two loaders decided otherwise.
            (next, Some("20:8"), other("20:8")),
            (next, Some("11:7"), other("11:7")),
            (next, Some("19:7"), other("19:7")),
            (next, Some("x"), other("x")),
            (LoadName::Fill { log, first: Sequence(3), last: Sequence(5) }, None, Fence::Free),
            (LoadName::Fill { log, first: Sequence(3), last: Sequence(5) }, Some("5"), Fence::Passed),
            (LoadName::Fill { log, first: Sequence(3), last: Sequence(5) }, Some("x"), other("x")),
            (LoadName::Retry { number: 4 }, Some("3"), Fence::Free),
            (LoadName::Retry { number: 4 }, Some("4"), Fence::Passed),
            (LoadName::Retry { number: 4 }, Some("5"), Fence::Passed),
        ];
        for (load, found, expected) in cases {
            assert_eq!(FencedLoad::new("lake", load, &plan).check(found), expected, "{load:?} {found:?}");
        }
    }
}
