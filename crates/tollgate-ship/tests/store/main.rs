//! The law of a store, with a real server for each kind of store: an object is created once, comes back as it
//! was stored, and no lost answer changes that.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod carry;
mod credentials;
mod faults;
mod folder;
mod gateway;
mod google;
mod law;
mod meddler;
mod s3;
mod segments;
mod tls;
