//! Numbers of a thing, as the tables of metrics list them.

use tollgate_meter::Kind;

/// A number of a thing: its name, its kind, its help, and how it is read.
pub(super) type Number<T> = (&'static str, Kind, &'static str, fn(&T) -> u64);
