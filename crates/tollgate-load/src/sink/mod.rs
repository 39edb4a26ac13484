//! Sinks, the places into which rows are loaded: the contract of a sink, code that all sinks share, SQLite,
//! PostgreSQL, Kafka, Parquet and Iceberg.

mod accounts;
mod after;
#[cfg(feature = "lake")]
mod catalog_sql;
mod contract;
mod declared;
mod duplicates;
mod iceberg;
mod item;
mod json;
mod kafka;
mod key;
mod leases;
mod options;
mod parquet;
mod postgres;
mod refusals;
mod reject;
mod rename;
mod sqlite;
mod streams;
mod tally;
mod write_rules;

pub(crate) use accounts::LogCounts;
pub(crate) use contract::{Decided, TopicSink};
pub use contract::{LoadExtent, PlannedLoad, Sink};
pub use declared::DeclaredStreams;
pub use duplicates::Duplicates;
pub use iceberg::{CatalogPlace, ClientCredentials, IcebergOptions, RestAuth, RestOptions, SigV4};
pub use json::ItemRow;
pub use kafka::{KafkaOptions, RowFormat, TopicReport, topic_reports};
pub(crate) use kafka::{POSITIONS as POSITIONS_TOPIC, RowHead, SentCounts, TopicSchemas, read_sent};
pub(crate) use leases::{LEASE_TIME, LeaseName, LeaseScope, LeaseTable, LiveLease};
#[cfg(test)]
pub(crate) use options::sqlite_with_clock;
pub use options::{LoadFrom, SinkKind, SinkOptions};
pub use parquet::{LakePlace, ParquetOptions};
pub(crate) use postgres::connect;
pub use postgres::{PostgresOptions, PostgresUrl, TableName, hide_password};
pub use reject::{ReadItem, Retried};
pub use streams::{STREAM_UNKNOWN, Taken};
pub use tally::{LostTable, StreamTallies, Tally};
