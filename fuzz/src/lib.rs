//! The checks of the fuzz targets. Each check is a function of some bytes. The function panics if the engine
//! and the reference reading of the rules differ.
//!
//! `targets/` gives these functions to libFuzzer. `crates/tollgate-server/tests/fuzz` runs the same functions
//! over the corpus and seeded mutations of it in `make test`. `crates/tollgate-files/tests` runs the
//! function of [`folder`] without the server.
//!
//! The first bytes of an input are not data. They choose the bounds, and the places where the remaining bytes
//! are cut: see [`split`].

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
pub mod tls;
pub mod tls_wire;
pub mod tree;
