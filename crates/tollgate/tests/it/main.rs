//! The program as its users see it: the real binary, real sockets, real files, SQLite and PostgreSQL.

// clippy recognizes test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access_log;
mod acme;
mod acme_dns;
mod acme_faults;
mod admin;
mod agreement;
mod alarms;
mod app_clock;
mod app_tests;
mod apps;
mod audit_store;
mod auth;
#[path = "../../../tollgate-ship/tests/store/authority.rs"]
mod authority;
mod awkward;
mod backends_faults;
mod client;
mod clocks;
#[path = "../../../tollgate-load/tests/postgres/cluster.rs"]
mod cluster;
mod column_types;
mod commands;
mod crash;
mod dashboard;
mod database_faults;
mod denied;
mod descriptors;
mod dev;
mod disk;
mod downloads;
mod end_to_end;
mod example;
mod examples;
mod faults;
mod files;
mod fleet;
mod floods;
#[path = "../../../tollgate-log/tests/log/forge.rs"]
mod forge;
mod forger;
#[path = "../../../tollgate-ship/tests/store/gateway.rs"]
mod gateway;
mod golden;
mod keys;
#[cfg(feature = "lake")]
mod lake;
mod leases;
mod listen;
mod load_from;
mod load_status;
mod loaded;
mod local_tls;
mod log;
mod log_lines;
mod log_pipe;
mod log_queue;
mod manual;
mod mending;
mod metrics;
mod modes;
mod mutants;
mod new;
mod nodes;
mod notify;
mod one_log;
mod outage;
mod pebble;
mod postgres;
mod power;
mod program;
mod queries;
#[cfg(feature = "kafka")]
mod queued;
mod real_faults;
mod refusal_records;
mod refused;
mod reload;
mod reload_storm;
mod replaced;
mod restored;
mod retention;
mod room;
mod route_failures;
mod routing;
mod samples;
mod script_abuses;
mod secure_backends;
mod ship_faults;
mod ship_kills;
mod ships;
mod sinks;
mod sinks_reload;
mod soak;
mod spans;
mod starting;
mod status;
mod status_watch;
mod status_web;
mod stopping;
mod terminal;
mod tls;
mod traces;
mod traversal;
mod types;
mod upgrade;
mod uploads;
mod validation;
mod values;
mod volume_disk;
mod volumes;
mod webhooks;
mod xml_streams;
