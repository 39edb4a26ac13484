//! Tests that compare the bytes of each fault on the wire with its description.

// clippy knows test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backends;
mod clients;
mod command;
mod doors;
mod peer;
