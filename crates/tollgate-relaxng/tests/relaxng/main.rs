//! Tests of schemas and documents through the public API.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod feed;
// The functions of the fuzz targets are shared with the fuzz crate, in which they are public.
#[allow(unreachable_pub, missing_docs, dead_code)]
#[path = "../../../../fuzz/src/relaxng/mod.rs"]
mod generated;
mod limits;
mod random;
mod schemas;
mod suite;
