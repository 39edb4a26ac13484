//! Questions to databases, for whoever has no connection of its own: a few threads, each with one that can
//! only read.
//!
//! A question waits in a queue that is bounded, then for its answer no longer than `timeout`. Whoever gave up
//! before its turn is not answered. Rows and bytes are bounded: more is an error, never a part of an answer.
//!
//! Read-only is the database's own rule: SQLite opens the file so, PostgreSQL gets each question in a
//! transaction that is.

mod pool;
mod postgres;
mod question;
mod sqlite;

pub use pool::QueryPool;
pub use question::{Asker, QueryAnswer, QueryError, QueryOptions, QueryRow, QuerySource, QueryValue};
