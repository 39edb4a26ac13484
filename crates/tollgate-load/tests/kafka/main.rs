//! Tests with real logs and a real Kafka: each record of a log is in its topic exactly once, whatever fails
//! in between. librdkafka reads the topics.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ends;
mod exactly_once;
#[path = "../shared/logs.rs"]
mod logs;
mod records;
mod rejects;
mod replies;
mod site;
mod topics;
