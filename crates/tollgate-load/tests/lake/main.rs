//! Tests of Parquet sinks with real logs: each record is in a file once, whatever fails in between.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tollgate-ship/tests/store/authority.rs"]
mod authority;
#[path = "../postgres/cluster.rs"]
mod cluster;
mod cut;
mod files;
mod gaps;
#[path = "../../../tollgate-ship/tests/store/gateway.rs"]
mod gateway;
mod iceberg;
mod kills;
#[path = "../shared/logs.rs"]
mod logs;
mod readers;
mod rejects;
mod repaired;
mod rest;
mod rest_http;
mod rest_java;
mod rest_server;
mod rest_tables;
mod sigv4;
mod site;
mod spark;
mod store;
mod tables;
mod waits;
