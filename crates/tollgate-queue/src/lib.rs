//! Transactions on a Kafka broker.
//!
//! A [`Producer`] writes records of several topics in one transaction: a reader of committed records sees all
//! of them, or none. Its transactional id belongs to one writer. A producer that opens with the id of another
//! one fences it: the broker aborts the open transaction of the older producer, and refuses its later calls.
//!
//! [`Reader`] reads committed records at offsets that its caller keeps.
//!
//! [`Topics`] makes topics, describes them, and reads a compacted topic as a table of keys and values.
//!
//! [`Client`] names the client of Kafka that does this. A build without a feature for a client has only the
//! types.
//!
//! The calls block, because a loader has a thread of its own. The client of Kafka is asynchronous, so each
//! value of this crate has a runtime on the calling thread. The client makes progress only during a call.
//!
//! Absent here: logs, sinks, positions, HTTP.

mod address;
mod client;
mod contract;
mod error;
#[cfg(feature = "krafka")]
mod krafka_client;
#[cfg(feature = "krafka")]
mod krafka_ends;
#[cfg(feature = "krafka")]
mod krafka_errors;
#[cfg(feature = "krafka")]
mod krafka_reader;
#[cfg(feature = "krafka")]
mod krafka_security;
#[cfg(feature = "krafka")]
mod krafka_topics;
#[cfg(feature = "krafka")]
mod krafka_wait;
mod options;
#[cfg(feature = "rdkafka")]
mod rdkafka_client;
mod record;

pub use address::{AddressError, BrokerAddress};
pub use client::Client;
pub use contract::{
    NewTopic, PartitionName, PartitionRange, Producer, ReadTo, Reader, TopicCopies, TopicPartitions, Topics,
};
pub use error::QueueError;
pub use options::{BrokerOptions, Compression, Guarantee, Sasl, Security, Tls};
pub use record::{QueueRecord, ReadRecord};
