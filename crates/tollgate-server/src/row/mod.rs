//! From a finished transaction to its record: what the columns of a stream are filled with.
//!
//! [`StreamPlan`] is a stream as a worker keeps it, [`Facts`] what is known of a transaction, [`fit`] turns
//! what scripts and clients give into the types of columns, [`column_writer`] does to values what their
//! columns ask for, [`key`] makes the key of a record, [`reject`] hides in rejects what columns hide.

mod check;
mod column_writer;
mod default;
mod facts;
pub(crate) mod fit;
mod given;
pub(crate) mod key;
mod of_item;
mod plan;
mod reject;

pub(crate) use column_writer::{ColumnWriter, Target};
pub(crate) use facts::{Facts, TransactionEnd};
pub(crate) use given::Given;
pub(crate) use plan::StreamPlan;
pub(crate) use reject::{NOT_KEPT, is_marker};
