//! Tests with real logs and a real PostgreSQL: each record of a log is in the database exactly once, whatever
//! fails in between.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod after_load;
mod cluster;
mod ending;
mod exactly_once;
mod foreign_keys;
mod keys;
#[path = "../shared/logs.rs"]
mod logs;
mod mending;
mod proxy;
mod rejects;
mod sinks;
mod site;
mod standing;
mod tables;
mod tls;
mod types;
