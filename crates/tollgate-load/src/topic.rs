//! From the topics of a Kafka cluster to rows, exactly once.
//!
//! A partition is a log whose records are numbered by their offsets: record `n` has the offset `n - 1`. The
//! position of the sink in that log is therefore the offset of the next record. It moves in the transaction
//! that writes the rows, so no consumer group exists, and a second loader cannot load a record again.
//!
//! The headers of a record have its own log and number. In a partition, the numbers of a log grow, except for
//! rows that are marked as late. A record whose number does not grow was written twice, and is a duplicate.
//!
//! Records that the topic deleted before they were loaded are a gap.

mod audit;
mod loader;
mod once;
mod options;
mod places;
mod rows;

pub use audit::{PartitionAccount, SentAccount, TopicAudit, audit_topics};
pub use loader::{TopicLoadCounts, TopicLoader};
pub use options::TopicLoadOptions;
