//! Real logs, a real PostgreSQL: what is written to a log is in the database exactly once, whatever happens in between.

mod after_load;
mod cluster;
mod exactly_once;
mod proxy;
mod rejects;
mod site;
mod tables;
mod tls;
