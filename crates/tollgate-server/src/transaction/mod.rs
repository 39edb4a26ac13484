//! From a finished transaction to its record: what the columns of a stream are filled with.
//!
//! [`StreamPlan`] is a stream as a worker keeps it, [`Facts`] what is known of a transaction, [`fit`] turns what scripts
//! and clients give into the types of columns.

mod facts;
pub(crate) mod fit;
mod plan;

pub(crate) use facts::{Ending, Facts};
pub(crate) use plan::{ColumnPlan, Given, StreamPlan};
