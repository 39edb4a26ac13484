//! The program as its users meet it: the real binary, real sockets, real files, SQLite and PostgreSQL.

// clippy knows test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
#[path = "../../../tollgate-load/tests/postgres/cluster.rs"]
mod cluster;
mod commands;
mod crash;
mod disk;
mod end_to_end;
mod faults;
mod floods;
mod forger;
mod keys;
mod listen;
mod log;
mod postgres;
mod power;
mod program;
mod reload;
mod retention;
mod room;
mod routing;
mod sinks;
mod uploads;
