//! Routes: finds the route for a host, a path and a method.
//!
//! Each request is looked up in [`RouteTable`]. [`tree`] holds the paths of one host. [`host`] decides
//! whether two hosts are equal.
//!
//! Several routes may match a path. The first segment in which these routes differ decides: a literal wins
//! over `{name}`, and `{name}` wins over `*`. If no route below a literal matches, the lookup returns to the
//! next best segment. For example, `/a/{x}/d` matches `/a/b/d` even if the route `/a/b/c` exists. The path
//! decides before the method. If no route of the winning path allows the method, the reply is 405, and no
//! other path is tried.

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
