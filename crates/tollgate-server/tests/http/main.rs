//! The engine over real sockets: bytes in, bytes out.

// clippy knows test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;
mod collect;
mod connections;
mod cors;
mod deadlines;
mod heads;
mod peer;
mod records;
mod routing;
mod site;
