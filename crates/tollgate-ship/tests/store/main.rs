//! Tests that every store must pass, with a real server for each kind of store. An object is created once and
//! is read as it was stored, even if answers are lost.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authority;
mod carry;
mod credentials;
mod faults;
mod folder;
mod gateway;
mod google;
mod law;
mod lifecycle;
mod meddler;
mod s3;
mod segments;
mod tls;
