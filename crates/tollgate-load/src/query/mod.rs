//! Queries to databases. A few threads run the queries, each with a read-only connection.
//!
//! A query waits in a bounded queue. After that, it waits for its answer, but no longer than `timeout`. If
//! the asker of a query gives up before its turn, the query is not run. The rows and bytes of an answer are
//! bounded. A longer answer is an error, and is never cut.
//!
//! The database itself enforces that queries only read. SQLite opens the file read-only, and PostgreSQL runs
//! each query in a read-only transaction.
//!
//! `reading` runs one statement for an operator, by a connection of its own and without these bounds.

mod pool;
mod postgres;
mod question;
mod reading;
mod sqlite;

pub use pool::QueryPool;
pub use question::{Asker, QueryAnswer, QueryError, QueryOptions, QueryRow, QuerySource, QueryValue};
pub use reading::{ReadAnswer, ReadColumn, ReadError, ReadKind, read_postgres};
