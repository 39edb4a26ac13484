//! What the fuzz targets check, each as one function over bytes that panics where the engine and the plain
//! reading of the rules disagree.
//!
//! `targets/` gives these functions to libFuzzer. `crates/tollgate-server/tests/fuzz` runs the same functions
//! over the corpus and seeded mutations of it in `make test`. `crates/tollgate-files/tests` runs those of
//! [`folder`] without the server.
//!
//! The first bytes of an input are no data: they choose bounds and where the rest is cut, see [`split`].

pub mod chunked;
pub mod connection;
pub mod engine;
pub mod files;
pub mod folder;
pub mod head;
pub mod mutate;
pub mod path;
pub mod reference;
pub mod split;
pub mod tree;
