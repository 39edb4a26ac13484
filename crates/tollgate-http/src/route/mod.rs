//! Step 3: from host, path and method to what answers.
//!
//! [`RouteTable`] is looked up in for each request; [`tree`] holds the paths of one host, [`host`] knows when
//! two hosts are one.
//!
//! Among the routes that match a path, the one wins whose first differing segment is more exact: literal,
//! then `{name}`, then `*`. A literal that leads nowhere is gone back from: `/a/b/d` is found by `/a/{x}/d`
//! although `/a/b/c` is there. The path decides first: when no route of the winning path takes the method,
//! that is 405, never another path.

mod host;
mod matched_path;
mod redirect;
mod table;
mod tree;

pub use host::canonical_host;
pub use matched_path::MatchedPath;
pub use redirect::location_below;
pub use table::{Match, Resource, RouteTable, Routed};

#[cfg(test)]
mod tests;
