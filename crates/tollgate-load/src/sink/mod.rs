//! Sinks, the databases into which rows are loaded: the contract of a sink, code that all sinks share,
//! SQLite, PostgreSQL and Kafka.

mod accounts;
mod after;
mod contract;
mod declared;
mod item;
mod json;
mod kafka;
mod key;
mod leases;
mod options;
mod postgres;
mod refusals;
mod reject;
mod rename;
mod sqlite;
mod streams;
mod tally;
mod write_rules;

pub(crate) use accounts::LogCounts;
pub use contract::Sink;
pub(crate) use contract::TopicSink;
pub use declared::DeclaredStreams;
pub(crate) use item::{parse, with_value};
pub use json::ItemRow;
pub use kafka::{Duplicates, KafkaOptions, TopicReport, topic_reports};
pub(crate) use kafka::{RowHead, SentCounts, TopicSchemas, read_sent};
pub(crate) use leases::{LEASE_TIME, LeaseName, LeaseScope, LeaseTable, LiveLease};
#[cfg(test)]
pub(crate) use options::sqlite_with_clock;
pub use options::{LoadFrom, SinkKind, SinkOptions};
pub(crate) use postgres::connect;
pub use postgres::{PostgresOptions, PostgresUrl, TableName, hide_password};
pub use reject::{ReadItem, Retried};
pub use streams::{STREAM_UNKNOWN, Taken};
pub use tally::{LostTable, StreamTallies, Tally};
