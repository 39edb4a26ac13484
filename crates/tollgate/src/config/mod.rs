//! The configuration: one TOML file, or a folder without one. The whole configuration is checked before
//! anything starts.
//!
//! [`lookup`] finds the file or folder that a path names. [`mod@file`] reads a file, and [`zero`] reads a
//! folder without one. Both return [`Config`], which prints itself as TOML that reads back to the same
//! values. All faults are reported at once, each with its place, the value found, and the allowed values.
//!
//! Each section has a file with the table of its keys. With this table the file reads and prints the section.
//! [`key`] defines the tables, [`section`] reads a table of the TOML file, and [`sections`] lists all
//! sections.
//!
//! Each module imports only modules after it in this order: [`lookup`], [`mod@file`] and [`zero`],
//! [`changes`] and [`sections`], [`resolved`], apps and routes, the other sections. [`section`], [`key`],
//! [`fault`], [`denied`] and [`defaults`] are last.

mod access;
mod access_format;
mod access_log;
mod ack;
mod acme;
mod admin;
mod app;
mod auth;
mod auth_file;
mod auth_jwt;
mod auth_rules;
mod backend;
mod backend_tls;
mod changes;
mod client_certificate;
mod collect;
mod cors;
mod database;
mod defaults;
mod denied;
mod duplicates;
mod env;
mod fault;
mod file;
mod files;
mod fixed_reply;
mod handler;
mod hsts;
mod iceberg;
mod inside;
mod kafka;
mod keep;
mod key;
mod listen;
mod load;
mod log;
mod lookup;
mod methods;
mod otlp;
mod own_files;
mod parquet;
mod path;
mod postgres;
mod proxy;
mod quoted;
mod reach;
mod resolved;
mod rest_catalog;
mod route;
mod route_limits;
mod routes;
mod rules;
mod script;
mod secret;
mod section;
mod sections;
mod server;
mod ship;
mod ship_store;
mod ship_volumes;
mod sink;
mod sources;
mod stream;
mod text;
mod tls;
mod units;
mod validate;
mod value;
mod verify;
mod when;
mod zero;

#[cfg(test)]
pub(crate) use access_format::ACCESS_FIELDS;
pub(crate) use access_format::{AccessField, AccessForm, AccessFormat, TemplatePart};
pub(crate) use access_log::{AccessDestination, AccessLogConfig};
pub(crate) use admin::{ADMIN_SOCKET, Admin, AdminListen};
pub(crate) use app::Mount;
pub(crate) use changes::Change;
pub(crate) use defaults::{APP_FILE, FILE_NAME, LOG_DIR, TLS_DIR};
pub(crate) use denied::{denial, denial_of, may_exist};
pub(crate) use fault::{ConfigError, Fault, did_you_mean};
pub(crate) use keep::Keep;
pub(crate) use listen::{near_hint, nearest_address};
pub(crate) use load::LoadedBy;
pub(crate) use otlp::OtlpConfig;
pub(crate) use resolved::Config;
pub(crate) use ship::{ShipConfig, unfit_folder, unfit_log};
pub(crate) use ship_store::{Objects, StorePlace};
pub(crate) use ship_volumes::Volumes;
pub(crate) use sink::{SinkConfig, UnknownSink};
pub(crate) use units::show_size;
