//! The short texts by which machines communicate through the store. Each line has the form `KEY VALUE`.
//!
//! A reader ignores unknown keys, so that a later version may add keys.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_log::{LogId, Position, Sequence};

use crate::name::NodeName;

/// Maximum bytes of a text. A larger text is not read.
pub(crate) const TEXT_BYTES_MAX: u64 = 64 << 10;

/// Position of a sink in a log, which a loader wrote to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionAnswer {
    /// Position of the sink in the log.
    pub position: Position,
    /// Time when the text was written, in milliseconds since 1970.
    pub at_ms: u64,
}

impl PositionAnswer {
    /// Returns an answer with the current time.
    pub fn now(position: Position) -> Self {
        Self { position, at_ms: now_ms() }
    }

    /// Returns the text for the store.
    pub fn to_text(&self) -> String {
        let chain = self.position.chain.map(|chain| format!("chain {chain}\n")).unwrap_or_default();
        format!("last {}\n{chain}at_ms {}\n", self.position.last.0, self.at_ms)
    }

    /// Parses a text. Returns `None` if a required key is missing or has an impossible value.
    pub fn parse(text: &str) -> Option<Self> {
        let last = Sequence(number(text, "last")?);
        let chain = number(text, "chain").and_then(|chain| u32::try_from(chain).ok());
        let position = Position { last, chain };
        (last <= Sequence::MAX).then_some(Self { position, at_ms: number(text, "at_ms")? })
    }
}

/// The end of a log that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndAnswer {
    /// The machine that wrote the log. With it, the names of the log's segments are known even if the store
    /// lost all of them.
    pub node: NodeName,
    /// The last record of the log.
    pub last: Sequence,
}

impl EndAnswer {
    /// Returns the text for the store.
    pub fn to_text(&self) -> String {
        format!("node {}\nlast {}\n", self.node, self.last.0)
    }

    /// Parses a text. Returns `None` if a key is missing or has an impossible value.
    pub fn parse(text: &str) -> Option<Self> {
        let (node, last) = (NodeName::parse(value(text, "node")?)?, Sequence(number(text, "last")?));
        (last <= Sequence::MAX).then_some(Self { node, last })
    }
}

/// The last report of a machine, which it writes to the store at an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The log that the machine writes. `None`: the machine only ships segments.
    pub log: Option<LogId>,
    /// The last record of that log up to which the store has all records. `None`: it has none, or an earlier
    /// version wrote the text.
    pub shipped: Option<Sequence>,
    /// Time when the text was written, in milliseconds since 1970.
    pub at_ms: u64,
    /// Interval between two reports, in milliseconds.
    pub every_ms: u64,
    /// Number of sealed segments on the machine that the store lacks.
    pub unshipped_segments: u64,
    /// Bytes of these segments.
    pub unshipped_bytes: u64,
}

impl NodeAnswer {
    /// Returns the text for the store.
    pub fn to_text(&self) -> String {
        let log = self.log.map(|log| format!("log {log}\n")).unwrap_or_default();
        let shipped = self.shipped.map(|last| format!("shipped {}\n", last.0)).unwrap_or_default();
        let Self { at_ms, every_ms, unshipped_segments, unshipped_bytes, .. } = self;
        format!(
            "{log}{shipped}at_ms {at_ms}\nevery_ms {every_ms}\nunshipped_segments {unshipped_segments}\n\
             unshipped_bytes {unshipped_bytes}\n"
        )
    }

    /// Parses a text. Returns `None` if a required key is missing or has an impossible value.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self {
            log: value(text, "log").and_then(|log| log.parse().ok()),
            shipped: number(text, "shipped").map(Sequence).filter(|last| last.is_possible()),
            at_ms: number(text, "at_ms")?,
            every_ms: number(text, "every_ms")?,
            unshipped_segments: number(text, "unshipped_segments")?,
            unshipped_bytes: number(text, "unshipped_bytes")?,
        })
    }
}

/// State of a request for a segment: the text of the object `v1/want/LOG/FIRST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantAnswer {
    /// A loader asks for the segment.
    Wanted,
    /// The machine that wrote the segment has deleted it.
    Gone,
}

impl WantAnswer {
    /// Returns the text for the store.
    pub const fn to_text(self) -> &'static str {
        match self {
            Self::Wanted => "wanted\n",
            Self::Gone => "gone\n",
        }
    }

    /// Parses a text.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Wanted, Self::Gone].into_iter().find(|answer| answer.to_text() == text)
    }
}

fn value<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

fn number(text: &str, key: &str) -> Option<u64> {
    value(text, key)?.parse().ok()
}

/// Returns the current time in milliseconds since 1970. The time is for people and for alarms, and no
/// deletion depends on it.
#[expect(clippy::disallowed_methods, reason = "other machines read this time")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_were_written() {
        for chain in [None, Some(0), Some(u32::MAX)] {
            let answer = PositionAnswer { position: Position { last: Sequence(7), chain }, at_ms: 9 };
            assert_eq!(PositionAnswer::parse(&answer.to_text()), Some(answer));
        }
        for log in [None, Some(LogId::random())] {
            let shipped = log.map(|_| Sequence(5));
            let answer =
                NodeAnswer { log, shipped, at_ms: 1, every_ms: 2, unshipped_segments: 3, unshipped_bytes: 4 };
            assert_eq!(NodeAnswer::parse(&answer.to_text()), Some(answer));
        }
        let answer = EndAnswer { node: NodeName::encode("a b").unwrap(), last: Sequence(5) };
        assert_eq!(EndAnswer::parse(&answer.to_text()), Some(answer));
        for answer in [WantAnswer::Wanted, WantAnswer::Gone] {
            assert_eq!(WantAnswer::parse(answer.to_text()), Some(answer));
        }
    }

    #[test]
    fn a_text_with_an_impossible_number_is_no_answer() {
        for text in ["", "last", "last x\nat_ms 1\n", "last -1\nat_ms 1\n", "lastly 1\nat_ms 1\n"] {
            assert_eq!(PositionAnswer::parse(text), None, "{text:?}");
        }
        assert_eq!(PositionAnswer::parse(&format!("last {}\nat_ms 1\n", u64::MAX)), None);
        assert_eq!(EndAnswer::parse(&format!("node a\nlast {}\n", u64::MAX)), None);
        assert_eq!(EndAnswer::parse("node ../a\nlast 1\n"), None);
    }

    #[test]
    fn keys_of_a_later_version_are_ignored() {
        let answer = PositionAnswer::parse("new 1\nlast 7\nat_ms 9\nother x y\n").unwrap();
        assert_eq!(answer.position, Position { last: Sequence(7), chain: None });
    }
}
