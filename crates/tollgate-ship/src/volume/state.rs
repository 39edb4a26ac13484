//! The state file of a volume, `tollgate-volume`: a text with an id, a generation, a state, and a list of the
//! files that were put there.
//!
//! | state | entered by | means |
//! | --- | --- | --- |
//! | `empty` | `ship init`, or the web machine after it deleted the listed files | the volume may be filled |
//! | `filling` | the web machine | segments are being copied |
//! | `full` | the web machine, by size, age or command | all is synced, and the volume may be moved |
//! | `loading` | the host that loads | that host took the volume over |
//! | `done` | the host that loads | the file `loaded` holds the answers for the web machine |
//! | `cleaning` | the web machine | the answers are read, and the listed files are being deleted |
//!
//! The last line is a checksum, because one wrong bit could delete a file or a local copy.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::identity::SegmentIdentity;
use crate::name::{NodeName, ObjectName};

/// Name of the state file in the root of a volume.
pub(super) const STATE_FILE: &str = "tollgate-volume";
/// First line of a state file of this version.
const HEAD: &str = "tollgate-volume 1";
/// Maximum bytes of a state file that is read.
pub(super) const STATE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of segments on a volume. Each segment rewrites the state file, so the list is bounded.
pub(super) const SEGMENTS_MAX: usize = 50_000;

/// Names a volume: 128 random bits, as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(u128);

impl VolumeId {
    /// Makes a new id. Returns `None` if the system has no random bytes.
    pub fn random() -> Option<Self> {
        let (high, low) = (getrandom::u64().ok()?, getrandom::u64().ok()?);
        Some(Self(u128::from(high) << 64 | u128::from(low)))
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for VolumeId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let id = Self(u128::from_str_radix(text, 16).map_err(|_| ())?);
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// The state of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VolumeState {
    /// It may be filled.
    Empty,
    /// Segments are being copied to it.
    Filling,
    /// It may be moved.
    Full,
    /// A host loads from it.
    Loading,
    /// It may be moved back.
    Done,
    /// Its listed files are being deleted.
    Cleaning,
}

impl VolumeState {
    /// All states, in the order of a volume's way.
    pub const ALL: [Self; 6] =
        [Self::Empty, Self::Filling, Self::Full, Self::Loading, Self::Done, Self::Cleaning];

    /// Returns the name in the state file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Filling => "filling",
            Self::Full => "full",
            Self::Loading => "loading",
            Self::Done => "done",
            Self::Cleaning => "cleaning",
        }
    }
}

impl fmt::Display for VolumeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The machine that makes a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeSide {
    /// The machine that writes logs.
    Web,
    /// The host that loads.
    Database,
}

/// A transition between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    /// The first segment is about to be copied.
    Fill,
    /// All is synced.
    Close,
    /// A host begins to load.
    TakeOver,
    /// A host loads what another host has begun or finished, because its operator ordered it.
    TakeFromHost,
    /// The host has loaded what it can.
    Finish,
    /// The web machine has read the answers.
    Return,
    /// The listed files are deleted.
    Clean,
}

/// All transitions: from which states to which one, and which side makes it.
pub(super) const TRANSITIONS: [(Transition, &[VolumeState], VolumeState, VolumeSide); 7] = [
    (Transition::Fill, &[VolumeState::Empty], VolumeState::Filling, VolumeSide::Web),
    (Transition::Close, &[VolumeState::Filling], VolumeState::Full, VolumeSide::Web),
    (Transition::TakeOver, &[VolumeState::Full], VolumeState::Loading, VolumeSide::Database),
    (
        Transition::TakeFromHost,
        &[VolumeState::Loading, VolumeState::Done],
        VolumeState::Loading,
        VolumeSide::Database,
    ),
    (Transition::Finish, &[VolumeState::Loading], VolumeState::Done, VolumeSide::Database),
    // A volume whose answers are in a report comes back as it was when it became read-only.
    (
        Transition::Return,
        &[VolumeState::Done, VolumeState::Full, VolumeState::Loading],
        VolumeState::Cleaning,
        VolumeSide::Web,
    ),
    (Transition::Clean, &[VolumeState::Cleaning], VolumeState::Empty, VolumeSide::Web),
];

/// A file that the state file lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listed {
    Segment { bytes: u64, identity: SegmentIdentity },
    Text,
}

/// The content of a state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeFile {
    pub(super) id: VolumeId,
    /// How often the volume began to be filled anew. It makes an old copy of a disk recognizable.
    pub(super) generation: u64,
    pub(super) state: VolumeState,
    /// When the state was entered, in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// The machine that fills it. `None`: any machine may.
    pub(super) node: Option<NodeName>,
    /// The host that loads, or has loaded.
    pub(super) host: Option<NodeName>,
    /// The files that were put there, by the names of their objects.
    pub(super) listed: BTreeMap<String, Listed>,
}

impl VolumeFile {
    /// Makes the state file of a new volume.
    pub(super) fn new(id: VolumeId, at_ms: u64) -> Self {
        let (state, listed) = (VolumeState::Empty, BTreeMap::new());
        Self { id, generation: 1, state, at_ms, node: None, host: None, listed }
    }

    /// Returns the state file after a transition. `None`: the state does not allow it, or this side may not
    /// make it.
    ///
    /// [`Transition::Clean`] raises the generation, because only then nothing on the volume counts any more.
    pub(super) fn after(&self, side: VolumeSide, transition: Transition, at_ms: u64) -> Option<Self> {
        let (_, from, to, by) = *TRANSITIONS.iter().find(|(found, ..)| *found == transition)?;
        if by != side || !from.contains(&self.state) {
            return None;
        }
        let mut after = Self { state: to, at_ms, ..self.clone() };
        if transition == Transition::Clean {
            after = Self { generation: self.generation.saturating_add(1), ..Self::new(self.id, at_ms) };
        }
        Some(after)
    }

    /// Returns id and generation: two state files with the same ones have the same segments.
    pub(super) fn key(&self) -> (VolumeId, u64) {
        (self.id, self.generation)
    }

    /// Returns the segments with their sizes and identities.
    pub(super) fn segments(&self) -> impl Iterator<Item = (&String, u64, &SegmentIdentity)> {
        self.listed.iter().filter_map(|(name, listed)| match listed {
            Listed::Segment { bytes, identity } => Some((name, *bytes, identity)),
            Listed::Text => None,
        })
    }

    /// Returns size and identity of a segment.
    pub(super) fn segment(&self, name: &str) -> Option<(u64, &SegmentIdentity)> {
        match self.listed.get(name)? {
            Listed::Segment { bytes, identity } => Some((*bytes, identity)),
            Listed::Text => None,
        }
    }

    /// Returns the bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.segments().map(|(_, bytes, _)| bytes).sum()
    }

    /// Returns the text of the file.
    pub(super) fn to_text(&self) -> String {
        let Self { id, generation, state, at_ms, .. } = self;
        let mut text = format!("{HEAD}\nid {id}\ngeneration {generation}\nstate {state}\nat_ms {at_ms}\n");
        for (key, value) in [("node", &self.node), ("host", &self.host)] {
            if let Some(value) = value {
                text.push_str(&format!("{key} {value}\n"));
            }
        }
        for (name, listed) in &self.listed {
            match listed {
                Listed::Segment { bytes, identity } => {
                    text.push_str(&format!("segment {name} {bytes} {identity}\n"));
                }
                Listed::Text => text.push_str(&format!("text {name}\n")),
            }
        }
        summed(text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Returns the reason, for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = unsummed(text, HEAD)?;
        let mut listed = BTreeMap::new();
        let (mut node, mut host) = (None, None);
        let id = value(lines.next(), "id").and_then(|id| id.parse().ok()).ok_or("it has no id")?;
        let generation = number(lines.next(), "generation").ok_or("it has no generation")?;
        let state = value(lines.next(), "state").and_then(state_of).ok_or("it has no known state")?;
        let at_ms = number(lines.next(), "at_ms").ok_or("it has no time")?;
        for line in lines {
            let known = match line.split_once(' ') {
                Some(("node", name)) => NodeName::parse(name).map(|name| node = Some(name)),
                Some(("host", name)) => NodeName::parse(name).map(|name| host = Some(name)),
                Some((kind, rest)) => listed_of(kind, rest).map(|(name, entry)| {
                    listed.insert(name, entry);
                }),
                None => None,
            };
            known.ok_or_else(|| format!("it has an unknown line {line:?}"))?;
        }
        Ok(Self { id, generation, state, at_ms, node, host, listed })
    }
}

fn state_of(text: &str) -> Option<VolumeState> {
    VolumeState::ALL.into_iter().find(|state| state.name() == text)
}

/// Parses the entry of a file. Only names of objects are taken, so no name leads out of the volume.
fn listed_of(kind: &str, rest: &str) -> Option<(String, Listed)> {
    let mut parts = rest.split(' ');
    let name = parts.next()?;
    let listed = match (kind, ObjectName::parse(name)?) {
        ("segment", ObjectName::Segment { .. }) => {
            let bytes = parts.next()?.parse().ok()?;
            let identity = SegmentIdentity::from_store(parts.next()?);
            identity.end()?;
            Listed::Segment { bytes, identity }
        }
        ("text", ObjectName::End(_) | ObjectName::Want { .. }) => Listed::Text,
        _ => return None,
    };
    parts.next().is_none().then(|| (name.to_owned(), listed))
}

fn value<'text>(line: Option<&'text str>, key: &str) -> Option<&'text str> {
    line?.strip_prefix(key)?.strip_prefix(' ')
}

fn number(line: Option<&str>, key: &str) -> Option<u64> {
    value(line, key)?.parse().ok()
}

/// Appends the line with the checksum of a text.
pub(super) fn summed(mut text: String) -> String {
    let sum = sum_of(&text);
    text.push_str(&format!("sum {sum}\n"));
    text
}

/// Checks the checksum and the first line of a text. Returns the lines between.
pub(super) fn unsummed<'text>(text: &'text str, head: &str) -> Result<std::str::Lines<'text>, String> {
    let cut = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).ok_or("it is cut short")?;
    let (body, sum) = text.split_at(cut + 1);
    if sum != format!("sum {}\n", sum_of(body)) {
        return Err("its checksum is wrong, or it is cut short".to_owned());
    }
    let mut lines = body.lines();
    match lines.next() {
        Some(found) if found == head => Ok(lines),
        found => Err(format!("its first line is {:?}, expected {head:?}", found.unwrap_or_default())),
    }
}

fn sum_of(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_log::{LogId, Sequence};

    use super::*;

    fn file() -> VolumeFile {
        let mut file = VolumeFile::new(VolumeId::random().unwrap(), 7);
        let (node, log) = (NodeName::encode("web 1").unwrap(), LogId::random());
        let segment = ObjectName::Segment { node: node.clone(), log, first: Sequence(3) };
        let identity = SegmentIdentity::from_store("9-0000002a-100-ab");
        file.listed.insert(segment.to_string(), Listed::Segment { bytes: 100, identity });
        file.listed.insert(ObjectName::End(log).to_string(), Listed::Text);
        (file.node, file.host) = (Some(node), NodeName::encode("db/1"));
        file
    }

    #[test]
    fn a_state_file_is_read_as_it_was_written() {
        for state in VolumeState::ALL {
            let file = VolumeFile { state, ..file() };
            assert_eq!(VolumeFile::parse(&file.to_text()), Ok(file));
        }
    }

    #[test]
    fn a_state_file_with_a_wrong_byte_or_a_missing_end_is_refused() {
        let text = file().to_text();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let flipped = String::from_utf8(bytes).unwrap();
            assert!(VolumeFile::parse(&flipped).is_err(), "byte {at}");
            assert!(VolumeFile::parse(&text[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_name_that_leads_out_of_the_volume_is_refused() {
        for line in ["text ../../etc/passwd", "segment v1/seg/../x/1.seg 1 9-0000002a-1-ab", "text loaded"] {
            let text = file().to_text();
            let body = text.split("sum ").next().unwrap();
            let error = VolumeFile::parse(&summed(format!("{body}{line}\n"))).unwrap_err();
            assert!(error.contains("unknown line"), "{error}");
        }
    }

    /// Each transition is allowed from its states alone, and nothing else leads to another state.
    #[test]
    fn a_state_changes_only_by_the_table_of_transitions() {
        use VolumeSide::{Database, Web};
        use VolumeState::{Cleaning, Done, Empty, Filling, Full, Loading};
        let expected = [
            (Transition::Fill, Web, vec![(Empty, Filling)]),
            (Transition::Close, Web, vec![(Filling, Full)]),
            (Transition::TakeOver, Database, vec![(Full, Loading)]),
            (Transition::TakeFromHost, Database, vec![(Loading, Loading), (Done, Loading)]),
            (Transition::Finish, Database, vec![(Loading, Done)]),
            (Transition::Return, Web, vec![(Full, Cleaning), (Loading, Cleaning), (Done, Cleaning)]),
            (Transition::Clean, Web, vec![(Cleaning, Empty)]),
        ];
        for (transition, by, pairs) in expected {
            for side in [Web, Database] {
                let from_all = VolumeState::ALL.into_iter().filter_map(|from| {
                    let after = VolumeFile { state: from, ..file() }.after(side, transition, 8)?;
                    Some((from, after.state))
                });
                let allowed = if side == by { pairs.clone() } else { Vec::new() };
                assert_eq!(from_all.collect::<Vec<_>>(), allowed, "{transition:?} by {side:?}");
            }
        }
    }

    #[test]
    fn a_cleaned_volume_has_the_next_generation_and_an_empty_list() {
        let cleaned = VolumeFile { state: VolumeState::Cleaning, ..file() };
        let empty = cleaned.after(VolumeSide::Web, Transition::Clean, 9).unwrap();
        assert_eq!((empty.id, empty.generation, empty.at_ms), (cleaned.id, 2, 9));
        assert!(empty.listed.is_empty() && empty.node.is_none() && empty.host.is_none());
    }
}
