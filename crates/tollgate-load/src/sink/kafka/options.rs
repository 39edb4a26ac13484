//! Options of a Kafka sink.

use tollgate_queue::{BrokerAddress, BrokerOptions};

use super::entry::{POSITIONS, REJECTS};
use super::format::RowFormat;
use crate::sink::duplicates::Duplicates;

/// The part of a topic's name that stands for the stream.
pub(super) const STREAM: &str = "{stream}";

/// Maximum bytes of a topic's name.
const TOPIC_BYTES_MAX: usize = 249;
/// Topics that Kafka makes for itself.
const OF_BROKERS: [&str; 4] =
    ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"];

/// Options of a Kafka sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaOptions {
    /// The brokers, and how they are reached.
    pub broker: BrokerOptions,
    /// Name of the topic of a stream. `{stream}` stands for the name of the stream.
    pub topic: String,
    /// Whether the sink makes topics that do not exist.
    pub makes_topics: bool,
    /// Number of partitions of a topic that the sink makes.
    pub partitions: u32,
    /// Number of copies of a topic that the sink makes. 0: the broker decides.
    pub replication: u16,
    /// Whether rows and position are committed in one transaction. If not, rows may appear twice after a
    /// crash, and again with each retry of a load.
    pub exactly_once: bool,
    /// How the value of a row is written.
    pub format: RowFormat,
    /// What the sink does with rows that have the key of an earlier row.
    pub duplicates: Duplicates,
}

impl KafkaOptions {
    /// Returns the default options for these brokers.
    pub fn new(brokers: impl Into<String>) -> Self {
        Self {
            broker: BrokerOptions::new(brokers),
            topic: STREAM.to_owned(),
            makes_topics: true,
            partitions: 1,
            replication: 0,
            exactly_once: true,
            format: RowFormat::Json,
            duplicates: Duplicates::Refuse,
        }
    }

    /// Returns the number of partitions for the broker.
    pub(super) fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions).unwrap_or(i32::MAX)
    }

    /// Returns the option that makes `new` another place for the positions. The positions are in the cluster,
    /// so a sink may change its topic.
    pub(crate) fn moved_by(&self, new: &Self) -> Option<&'static str> {
        let is_same = BrokerAddress::have_common(&self.broker.brokers, &new.broker.brokers);
        (!is_same).then_some("other brokers")
    }

    /// Returns the topic of a stream.
    pub(crate) fn topic_of(&self, stream: &str) -> String {
        self.topic.replace(STREAM, stream)
    }

    /// Returns why the rows of a stream cannot have their topic. `None`: they can.
    pub fn topic_fault(&self, stream: &str) -> Option<String> {
        let topic = self.topic_of(stream);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match &*topic {
            _ if OF_BROKERS.contains(&&*topic) => {
                Some(format!("{topic:?}, which the brokers need for themselves"))
            }
            POSITIONS | REJECTS => Some(format!("{topic:?}, which the sink needs for itself")),
            "" | "." | ".." => Some(format!("{topic:?}, which no topic may be named")),
            _ if topic.len() > TOPIC_BYTES_MAX => {
                Some(format!("{topic:?} of {} bytes, limit {TOPIC_BYTES_MAX} bytes", topic.len()))
            }
            _ if !topic.bytes().all(is_allowed) => {
                Some(format!("{topic:?}, allowed are letters, digits, `.`, `_` and `-`"))
            }
            _ => None,
        }
    }

    /// Returns whether a topic has the name of one of a stream.
    pub(super) fn may_have(&self, topic: &str) -> bool {
        let (before, after) = self.topic.split_once(STREAM).unwrap_or((&self.topic, ""));
        topic.len() >= before.len() + after.len() && topic.starts_with(before) && topic.ends_with(after)
    }
}
