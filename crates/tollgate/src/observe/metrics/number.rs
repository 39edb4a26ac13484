//! Numbers of one part of the server, such as the log or a backend, for the tables of metrics.

use tollgate_meter::Kind;

/// A number of such a part: its name, its kind, its help, and the function that reads it.
pub(super) type Number<T> = (&'static str, Kind, &'static str, fn(&T) -> u64);
