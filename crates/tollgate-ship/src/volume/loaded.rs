//! The answers of the host that loads: the file `loaded` on a volume, or a report file.
//!
//! One line a position: sink, log, last record, chain of checksums. One line a segment that is asked for
//! again. The last line is a checksum, because local copies are deleted by these positions.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_log::{LogId, Position, Sequence};

use super::state::{VolumeId, summed, unsummed};
use crate::answer::PositionAnswer;
use crate::name::NodeName;

/// Name of the file on a volume.
pub(super) const LOADED_FILE: &str = "loaded";
/// First line of a file of this version.
const HEAD: &str = "tollgate-loaded 1";

/// The answers of the host that loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loaded {
    pub(super) id: VolumeId,
    pub(super) generation: u64,
    /// The machine that filled the volume.
    pub(super) node: NodeName,
    /// The host that loaded it.
    pub(super) host: NodeName,
    pub(super) positions: BTreeMap<(String, LogId), PositionAnswer>,
    /// First records of the segments that are asked for again.
    pub(super) wanted: BTreeSet<(LogId, Sequence)>,
}

impl Loaded {
    /// Returns the text of the file.
    pub(super) fn to_text(&self) -> String {
        let Self { id, generation, node, host, .. } = self;
        let mut text = format!("{HEAD}\nid {id}\ngeneration {generation}\nnode {node}\nhost {host}\n");
        for ((sink, log), answer) in &self.positions {
            let chain = answer.position.chain.map_or("-".to_owned(), |chain| chain.to_string());
            let (last, at_ms) = (answer.position.last.0, answer.at_ms);
            text.push_str(&format!("position {sink} {log} {last} {chain} {at_ms}\n"));
        }
        for (log, first) in &self.wanted {
            text.push_str(&format!("want {log} {}\n", first.0));
        }
        summed(text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the reason, for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = unsummed(text, HEAD)?;
        let mut next = |key: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.ok_or_else(|| format!("it has no {key}"))
        };
        let id = next("id")?.parse().map_err(|()| "it has no valid id")?;
        let generation = next("generation")?.parse().map_err(|_| "it has no valid generation")?;
        let node = NodeName::parse(next("node")?).ok_or("it has no valid node")?;
        let host = NodeName::parse(next("host")?).ok_or("it has no valid host")?;
        let (mut positions, mut wanted) = (BTreeMap::new(), BTreeSet::new());
        for line in lines {
            let parts: Vec<_> = line.split(' ').collect();
            let unknown = || format!("it has an unknown line {line:?}");
            match parts[..] {
                ["position", sink, log, last, chain, at_ms] => {
                    let (log, answer) = position_of(log, last, chain, at_ms).ok_or_else(unknown)?;
                    positions.insert((sink.to_owned(), log), answer);
                }
                ["want", log, first] => {
                    wanted.insert(want_of(log, first).ok_or_else(unknown)?);
                }
                _ => return Err(unknown()),
            }
        }
        Ok(Self { id, generation, node, host, positions, wanted })
    }
}

fn position_of(log: &str, last: &str, chain: &str, at_ms: &str) -> Option<(LogId, PositionAnswer)> {
    let last = Sequence(last.parse().ok()?);
    let chain = if chain == "-" { None } else { Some(chain.parse().ok()?) };
    let answer = PositionAnswer { position: Position { last, chain }, at_ms: at_ms.parse().ok()? };
    (last <= Sequence::MAX).then_some((log.parse().ok()?, answer))
}

fn want_of(log: &str, first: &str) -> Option<(LogId, Sequence)> {
    let first = Sequence(first.parse().ok()?);
    Some((log.parse().ok()?, first)).filter(|_| first.is_possible())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written_and_no_wrong_byte_is_taken() {
        let (log, name) = (LogId::random(), |name| NodeName::encode(name).unwrap());
        let answer =
            |last, chain| PositionAnswer { position: Position { last: Sequence(last), chain }, at_ms: 9 };
        let loaded = Loaded {
            id: VolumeId::random().unwrap(),
            generation: 3,
            node: name("web 1"),
            host: name("db"),
            positions: [("a", answer(7, Some(1))), ("b", answer(0, None))]
                .map(|(sink, answer)| ((sink.to_owned(), log), answer))
                .into(),
            wanted: [(log, Sequence(8))].into(),
        };
        let text = loaded.to_text();
        assert_eq!(Loaded::parse(&text), Ok(loaded));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Loaded::parse(&String::from_utf8(bytes).unwrap()).is_err(), "byte {at}");
            assert!(Loaded::parse(&text[..at]).is_err(), "cut at {at}");
        }
    }
}
