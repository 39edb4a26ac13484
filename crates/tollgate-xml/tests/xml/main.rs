//! Tests of the reader and the writer: events, faults, encodings and limits, each with the document cut at
//! every place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod document;
mod encodings;
mod events;
mod faults;
mod limits;
mod namespaces;
mod properties;
mod reference;
mod writing;
