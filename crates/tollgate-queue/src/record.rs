//! One record for a topic, and one record of a topic.

use std::sync::Arc;

use bytes::Bytes;

/// One record for a topic. Records share what is equal, such as the values of most headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Partition. `None`: the hash of the key decides, as in the clients of Java (murmur2). A record without
    /// a key gets any partition.
    pub partition: Option<i32>,
    /// Key of the record.
    pub key: Option<Bytes>,
    /// Value. `None` deletes the key from a compacted topic.
    pub value: Option<Bytes>,
    /// Headers, in order.
    pub headers: Vec<(&'static str, Bytes)>,
}

impl QueueRecord {
    /// Returns the bytes of key, value and headers.
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }
}

/// One record of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRecord {
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// Offset in the partition.
    pub offset: u64,
    /// Key of the record.
    pub key: Option<Vec<u8>>,
    /// Value. `None` deletes the key from a compacted topic.
    pub value: Option<Vec<u8>>,
    /// Headers, in order.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl ReadRecord {
    /// Returns the value of the first header with this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_slice())
    }
}
