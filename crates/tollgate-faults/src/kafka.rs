//! A real Kafka broker for tests, of the jars that `make kafka` installs.
//!
//! [`Kafka`] is one JVM: broker and controller (KRaft). Clients reach it through a [`Link`], which cuts or
//! freezes their connections. [`Kafka::read`] reads a topic with librdkafka, so that the reader shares no
//! code with the client of sinks.

#![allow(clippy::expect_used, clippy::panic, reason = "a test ends where its broker fails")]

mod broker;
mod certificates;
mod link;
mod markers;
mod reader;

pub use broker::{Kafka, KafkaOptions, SecureListener};
pub use certificates::certificates;
pub use link::{Flow, Link};
pub use reader::Read;
