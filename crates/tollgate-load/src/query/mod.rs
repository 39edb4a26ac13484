//! Queries to databases. A few threads ask them, each with a read-only connection.
//!
//! A query waits in a bounded queue, and then for its answer no longer than `timeout`. A query whose asker
//! gave up before its turn is not run. Rows and bytes are bounded. A longer answer is an error, never cut.
//!
//! The database itself enforces that queries only read. SQLite opens the file read-only, and PostgreSQL runs
//! each query in a read-only transaction.

mod pool;
mod postgres;
mod question;
mod sqlite;

pub use pool::QueryPool;
pub use question::{Asker, QueryAnswer, QueryError, QueryOptions, QueryRow, QuerySource, QueryValue};
