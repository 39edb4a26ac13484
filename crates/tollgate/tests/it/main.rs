//! The program as its users meet it: the real binary, real sockets, real files, SQLite and PostgreSQL.

// clippy knows test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod app_tests;
mod awkward;
mod browser;
mod chromium;
mod client;
#[path = "../../../tollgate-load/tests/postgres/cluster.rs"]
mod cluster;
mod commands;
mod crash;
mod disk;
mod downloads;
mod end_to_end;
mod example;
mod examples;
mod faults;
mod files;
mod floods;
mod forger;
mod keys;
mod listen;
mod loaded;
mod log;
mod mending;
mod new;
mod outage;
mod postgres;
mod power;
mod program;
mod queries;
mod reload;
mod restored;
mod retention;
mod room;
mod routing;
mod sinks;
mod sinks_reload;
mod status;
mod stopping;
mod traversal;
mod uploads;
mod values;
