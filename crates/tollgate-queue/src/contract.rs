//! The contract of a client of Kafka: a producer, and the calls about topics.

use std::collections::BTreeMap;

use crate::error::QueueError;
use crate::record::QueueRecord;

/// A producer. It has at most one open transaction.
///
/// After an error other than `TooLarge`, the producer is dropped. The caller opens another one, and reads in
/// the topics what is committed.
pub trait Producer: Send {
    /// Begins a transaction.
    ///
    /// # Errors
    /// The producer is unusable.
    fn begin(&mut self) -> Result<(), QueueError>;

    /// Sends records, and waits until the broker has them.
    ///
    /// # Errors
    /// `TooLarge` names the records that the broker refuses for their size. The caller then aborts the
    /// transaction. Without transactions, the other records are visible.
    fn send(&mut self, records: &[QueueRecord]) -> Result<(), QueueError>;

    /// Commits the transaction. `Ok` means that all in-sync replicas have it.
    ///
    /// # Errors
    /// `Unknown` if the transaction may be committed.
    fn commit(&mut self) -> Result<(), QueueError>;

    /// Aborts the transaction.
    ///
    /// # Errors
    /// The producer is unusable. The broker aborts the transaction when the next producer of the id opens.
    fn abort(&mut self) -> Result<(), QueueError>;
}

/// The topics of a cluster.
pub trait Topics: Send {
    /// Makes topics. Leaves a topic that exists as it is.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user or an option.
    fn create(&mut self, topics: &[NewTopic]) -> Result<(), QueueError>;

    /// Returns how many copies a topic has. `None`: the topic does not exist.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    fn copies(&mut self, topic: &str) -> Result<Option<TopicCopies>, QueueError>;

    /// Reads the committed records of a compacted topic: the last value of each key.
    ///
    /// # Errors
    /// The broker does not answer, refuses the user, or a transaction stays open for too long.
    fn table(&mut self, topic: &str, to: ReadTo) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, QueueError>;
}

/// Where the read of a topic ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTo {
    /// Before the first transaction that is open. Records that were committed after its first record are
    /// missing.
    Stable,
    /// At the end of the topic at the call. The read waits for the transactions that are open.
    End,
}

/// A topic to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Name of the topic.
    pub name: String,
    /// Number of partitions.
    pub partitions: i32,
    /// Number of copies. `None`: the broker decides.
    pub replication: Option<i16>,
    /// Other settings of the topic.
    pub settings: Vec<(&'static str, String)>,
}

/// How many copies of the records of a topic there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicCopies {
    /// Number of partitions.
    pub partitions: usize,
    /// Number of replicas of the partition that has fewest.
    pub replicas: usize,
    /// `min.insync.replicas`: the number of replicas that have a record when the broker confirms it.
    pub min_insync: u32,
}
