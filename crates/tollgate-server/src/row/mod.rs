//! Creates records from finished transactions: fills the columns of a stream.
//!
//! [`StreamPlan`] is a stream in a worker, and [`Facts`] has the facts of a transaction that the server
//! knows. [`fit`] converts values to the types of columns. [`time`], [`decimal`] and [`mod@array`] convert
//! these types, and [`coerce`] converts values of another type. [`column_writer`] applies the rules of
//! columns. [`key`] creates the key of a record. [`path_tree`] finds nested fields. [`reject`] removes values
//! from rejects that a column hides.

mod array;
mod check;
mod coerce;
mod column_writer;
mod decimal;
mod default;
mod facts;
pub(crate) mod fit;
mod given;
pub(crate) mod halves;
mod kept_fields;
pub(crate) mod key;
mod nested;
mod of_item;
mod path_tree;
mod plan;
mod reject;
mod time;
mod unfit;

pub use check::SampleRow;
pub(crate) use column_writer::{ColumnWriter, Target};
pub(crate) use facts::{Facts, TransactionEnd};
pub(crate) use given::{FieldPlace, Given};
pub(crate) use path_tree::{FoundValues, PathTree, UNKNOWN_MAX, UnknownPaths};
pub(crate) use plan::StreamPlan;
pub(crate) use reject::{NOT_KEPT, is_marker};
