//! Names of the bookkeeping tables and of logs in statements.

use tollgate_log::LogId;
use uuid::Uuid;

use super::options::{PostgresOptions, TableName};

/// Returns the name of a bookkeeping table for a statement.
pub(super) fn table(options: &PostgresOptions, name: &str) -> String {
    TableName { schema: options.schema.clone(), name: name.to_owned() }.quoted()
}

pub(super) fn uuid_of(log: LogId) -> Uuid {
    Uuid::from_bytes(*log.as_bytes())
}
