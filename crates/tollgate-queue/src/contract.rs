//! The contract of a client of Kafka: a producer, a reader, and the calls about topics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::error::QueueError;
use crate::record::{QueueRecord, ReadRecord};

/// A producer. It has at most one open transaction.
///
/// After an error other than `TooLarge`, the producer is dropped. The caller opens another one, and reads in
/// the topics what is committed.
pub trait Producer: Send {
    /// Returns whether a connection ended since the last commit. The cluster may have restarted then, and may
    /// have lost the end of the last transaction.
    fn has_lost_connection(&mut self) -> bool;

    /// Begins a transaction.
    ///
    /// # Errors
    /// The producer is unusable.
    fn begin(&mut self) -> Result<(), QueueError>;

    /// Sends records, and waits until the broker has them.
    ///
    /// # Errors
    /// `TooLarge` names the records that the broker refuses for their size. The caller then aborts the
    /// transaction. Without transactions, the other records are visible. If another record failed too, the
    /// error is the one of that record.
    fn send(&mut self, records: &[&QueueRecord]) -> Result<(), QueueError>;

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

    /// Writes the end of the last transaction of a transactional id again, in the `known` topics and in the
    /// ones that `may_have` accepts, if the cluster completed the transaction and lost its end. A topic that
    /// only `may_have` accepts is left out if the user may not see it, or if it has no leader. Returns
    /// whether the transaction may still be open, or the id is unknown.
    ///
    /// The caller opens the next producer of the id only afterwards, because the coordinator then forgets
    /// the result.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user. The open transaction is not the last one of the id.
    fn end_lost(
        &mut self,
        id: &str,
        known: &BTreeSet<String>,
        may_have: &dyn Fn(&str) -> bool,
    ) -> Result<bool, QueueError>;

    /// Reads the committed records of a compacted topic: the last value of each key.
    ///
    /// # Errors
    /// The broker does not answer, refuses the user, or a transaction stays open for too long.
    fn table(&mut self, topic: &str, to: ReadTo<'_>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, QueueError>;

    /// Reads the committed records of one partition of a compacted topic, as [`Self::table`] does to
    /// [`ReadTo::End`]. Only the keys that `is_kept` accepts are in memory.
    ///
    /// # Errors
    /// The broker does not answer, refuses the user, or a transaction stays open for too long.
    fn table_of(
        &mut self,
        topic: &str,
        partition: i32,
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, QueueError>;
}

/// A reader of committed records. It has no consumer group, so the caller keeps the offsets.
///
/// After an error, the reader is dropped.
pub trait Reader: Send {
    /// Returns the partitions of a topic. `None`: the topic does not exist.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    fn partitions(&mut self, topic: &str) -> Result<Option<TopicPartitions>, QueueError>;

    /// Returns the offset after the last record of each of these partitions. Records of open transactions
    /// count, although they cannot be read.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    fn written_ends(&mut self, topic: &str, partitions: &[i32]) -> Result<BTreeMap<i32, u64>, QueueError>;

    /// Begins to read these partitions, each at an offset. The earlier partitions are not read any more.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    fn start(&mut self, places: &[(PartitionName, u64)]) -> Result<(), QueueError>;

    /// Returns the next records, each partition in the order of its offsets. Waits for at most `wait`.
    ///
    /// # Errors
    /// The broker does not answer, refuses the user, or has no record at the offset any more.
    fn poll(&mut self, wait: Duration) -> Result<Vec<ReadRecord>, QueueError>;

    /// Returns the offset of the next read. It may be after markers, which are no records. `None`: the
    /// partition is not read, or nothing was polled yet.
    fn next_offset(&mut self, place: &PartitionName) -> Option<u64>;
}

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionName {
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// The partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPartitions {
    /// Id of the topic. A topic that was deleted and made again has another one. Zeros: the broker has none.
    pub id: [u8; 16],
    /// The partitions, in order.
    pub partitions: Vec<PartitionRange>,
}

/// The offsets of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRange {
    /// Number of the partition.
    pub partition: i32,
    /// Offset of the first record that the broker has.
    pub first: u64,
    /// Offset after the last record that can be read: before the first open transaction.
    pub end: u64,
}

/// Where the read of a topic ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTo<'a> {
    /// Before the first transaction that is open. Records that were committed after its first record are
    /// missing.
    Stable,
    /// At the end of the topic at the call. The read waits for the transactions that are open.
    End,
    /// At the end of these partitions at the call. The read waits for the transactions that are open there.
    /// The other partitions are read as for [`Self::Stable`].
    EndOf(&'a [i32]),
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
