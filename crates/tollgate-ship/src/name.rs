//! The names of objects. This file makes and parses all names in the store.
//!
//! | name | content |
//! | --- | --- |
//! | `v1/seg/NODE/LOG/FIRST.seg` | a sealed segment, byte for byte |
//! | `v1/node/NODE` | the last report of a machine |
//! | `v1/end/LOG` | the last record of a log that has ended |
//! | `v1/pos/SINK/LOG` | the position of a sink in a log |
//! | `v1/want/LOG/FIRST` | the request of a loader to store a segment again |
//! | `v1/probe/RANDOM` | an object of a check of the store, 16 hexadecimal digits; the check deletes it |
//!
//! `NODE` is before `LOG`, so that the store can restrict a machine to its own prefix. `FIRST` is the number
//! of the first record, in 20 digits. A reader therefore knows the name of the next segment of a log: the
//! number is the last record plus one.

use std::fmt;

use tollgate_log::{LogId, Sequence};

/// Version of the layout of names.
const VERSION: &str = "v1";
/// Number of digits of a sequence number in a name.
const SEQUENCE_DIGITS: usize = 20;

/// The name of a machine as a part of an object name: percent-encoded (RFC 3986 section 2.1).
///
/// Letters, digits, `_`, `-` and `.` are not encoded. The names `.` and `..` are encoded, because they have a
/// meaning in a file system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

impl NodeName {
    /// Encodes the name of a machine. Returns `None` for the empty name.
    pub fn encode(node: &str) -> Option<Self> {
        let is_special = node == "." || node == "..";
        let mut text = String::with_capacity(node.len());
        for byte in node.bytes() {
            if is_plain(byte) && !is_special {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        (!text.is_empty()).then_some(Self(text))
    }

    /// Parses a part of an object name. Returns `None` for a text that [`Self::encode`] never returns.
    pub fn parse(text: &str) -> Option<Self> {
        let name = Self(text.to_owned());
        (Self::encode(&name.decode()?)?.0 == text).then_some(name)
    }

    /// Returns the name of the machine. Returns `None` if the text is no percent-encoded UTF-8.
    pub fn decode(&self) -> Option<String> {
        let (mut bytes, mut rest) = (Vec::with_capacity(self.0.len()), self.0.as_bytes());
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            if *byte != b'%' {
                bytes.push(*byte);
                continue;
            }
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = rest.get(2..)?;
        }
        String::from_utf8(bytes).ok()
    }

    /// Returns the encoded name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a part of a name can be the name of a sink: letters, digits and `_`.
fn is_sink(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectName {
    /// A sealed segment.
    Segment {
        /// The machine that wrote the segment.
        node: NodeName,
        /// Log of the segment.
        log: LogId,
        /// Number of the first record of the segment.
        first: Sequence,
    },
    /// The last report of a machine.
    Node(NodeName),
    /// The last record of a log that has ended.
    End(LogId),
    /// The position of a sink in a log.
    Position {
        /// The name of the sink.
        sink: String,
        /// Id of the log.
        log: LogId,
    },
    /// A request of a loader to store a segment again.
    Want {
        /// Log of the segment.
        log: LogId,
        /// Number of the first record of the segment.
        first: Sequence,
    },
    /// An object of a check of the store.
    Probe(u64),
}

impl ObjectName {
    /// Parses the name of an object, which must not have the prefix of the store. Returns `None` for any
    /// other name.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        if parts.next()? != VERSION {
            return None;
        }
        let name = match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
            ("seg", node, Some(log), Some(file)) => Self::Segment {
                node: NodeName::parse(node)?,
                log: log_of(log)?,
                first: sequence_of(file.strip_suffix(".seg")?)?,
            },
            ("node", node, None, None) => Self::Node(NodeName::parse(node)?),
            ("end", log, None, None) => Self::End(log_of(log)?),
            ("pos", sink, Some(log), None) if is_sink(sink) => {
                Self::Position { sink: sink.to_owned(), log: log_of(log)? }
            }
            ("want", log, Some(first), None) => Self::Want { log: log_of(log)?, first: sequence_of(first)? },
            ("probe", random, None, None) => Self::Probe(u64::from_str_radix(random, 16).ok()?),
            _ => return None,
        };
        // Only one spelling of a name is accepted, because another spelling would be another object.
        (parts.next().is_none() && name.to_string() == text).then_some(name)
    }

    /// Returns the prefix of all names.
    pub fn all() -> String {
        format!("{VERSION}/")
    }

    /// Returns the prefix of all segments.
    pub fn segments() -> String {
        format!("{VERSION}/seg/")
    }

    /// Returns the prefix of the segments of one machine.
    pub fn segments_of_node(node: &NodeName) -> String {
        format!("{VERSION}/seg/{node}/")
    }

    /// Returns the prefix of the segments of one log.
    pub fn segments_of_log(node: &NodeName, log: LogId) -> String {
        format!("{VERSION}/seg/{node}/{log}/")
    }

    /// Returns the prefix of the requests for segments of one log.
    pub fn wanted_of(log: LogId) -> String {
        format!("{VERSION}/want/{log}/")
    }

    /// Returns the prefix of the objects that have the last records of ended logs.
    pub fn ends() -> String {
        format!("{VERSION}/end/")
    }

    /// Returns the prefix of the positions of all sinks.
    pub fn positions() -> String {
        format!("{VERSION}/pos/")
    }

    /// Returns the prefix of the reports of all machines.
    pub fn nodes() -> String {
        format!("{VERSION}/node/")
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment { node, log, first } => write!(f, "{VERSION}/seg/{node}/{log}/{:020}.seg", first.0),
            Self::Node(node) => write!(f, "{VERSION}/node/{node}"),
            Self::End(log) => write!(f, "{VERSION}/end/{log}"),
            Self::Position { sink, log } => write!(f, "{VERSION}/pos/{sink}/{log}"),
            Self::Want { log, first } => write!(f, "{VERSION}/want/{log}/{:020}", first.0),
            Self::Probe(random) => write!(f, "{VERSION}/probe/{random:016x}"),
        }
    }
}

fn log_of(text: &str) -> Option<LogId> {
    text.parse().ok()
}

fn sequence_of(text: &str) -> Option<Sequence> {
    let is_number = text.len() == SEQUENCE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().map(Sequence).filter(|sequence| is_number && sequence.is_possible())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOG: &str = "01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b";

    fn segment(node: &str, first: u64) -> ObjectName {
        let (node, log) = (NodeName::encode(node).unwrap(), LOG.parse().unwrap());
        ObjectName::Segment { node, log, first: Sequence(first) }
    }

    #[test]
    fn a_segment_is_named_by_machine_log_and_first_record() {
        let name = segment("web-1.example", 42);
        assert_eq!(name.to_string(), format!("v1/seg/web-1.example/{LOG}/00000000000000000042.seg"));
        assert_eq!(ObjectName::parse(&name.to_string()), Some(name));
    }

    #[test]
    fn names_that_a_file_system_reads_otherwise_are_encoded() {
        for (node, encoded) in
            [(".", "%2E"), ("..", "%2E%2E"), ("a/b", "a%2Fb"), ("ü%", "%C3%BC%25"), ("a b", "a%20b")]
        {
            let name = NodeName::encode(node).unwrap();
            assert_eq!((name.as_str(), name.decode().as_deref()), (encoded, Some(node)));
        }
        assert_eq!(NodeName::encode(""), None);
    }

    #[test]
    fn a_second_spelling_of_a_name_is_no_name() {
        for name in [
            format!("v1/seg/%61/{LOG}/00000000000000000042.seg"),
            format!("v1/seg/a%2fb/{LOG}/00000000000000000042.seg"),
            format!("v1/seg/../{LOG}/00000000000000000042.seg"),
            format!("v1/seg/a/{}/00000000000000000042.seg", LOG.to_uppercase()),
            format!("v1/seg/a/{LOG}/42.seg"),
            format!("v1/seg/a/{LOG}/00000000000000000000.seg"),
            format!("v1/seg/a/{LOG}/99999999999999999999.seg"),
            format!("v1/seg/a/{LOG}/00000000000000000042.seg/x"),
            format!("v2/seg/a/{LOG}/00000000000000000042.seg"),
            format!("v1/seg/a//{LOG}/00000000000000000042.seg"),
            format!("v1/pos/../{LOG}"),
            format!("v1/pos//{LOG}"),
        ] {
            assert_eq!(ObjectName::parse(&name), None, "{name}");
        }
    }

    #[test]
    fn an_object_of_a_check_has_sixteen_digits() {
        let name = "v1/probe/00000000000000ff";
        assert_eq!(ObjectName::parse(name), Some(ObjectName::Probe(255)));
        for other in [
            "v1/probe/ff",
            "v1/probe/00000000000000FF",
            "v1/probe/+0000000000000ff",
            "v1/probe/0/00000000000000ff",
        ] {
            assert_eq!(ObjectName::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn every_machine_has_a_name_of_its_own(one in "\\PC{1,48}", other in "\\PC{1,48}") {
            let (first, second) = (NodeName::encode(&one).unwrap(), NodeName::encode(&other).unwrap());
            prop_assert_eq!(first == second, one == other);
            prop_assert_eq!(first.decode(), Some(one));
            prop_assert!(!first.as_str().contains('/') && first.as_str() != "." && first.as_str() != "..");
        }
    }
}
