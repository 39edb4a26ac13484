//! Tables of the bookkeeping and logs, as statements name them.

use tollgate_log::LogId;
use uuid::Uuid;

use super::options::{PostgresOptions, TableName};

/// A table of bookkeeping as it is written in a statement.
pub(super) fn table(options: &PostgresOptions, name: &str) -> String {
    TableName { schema: options.schema.clone(), name: name.to_owned() }.quoted()
}

pub(super) fn uuid_of(log: LogId) -> Uuid {
    Uuid::from_bytes(*log.as_bytes())
}
