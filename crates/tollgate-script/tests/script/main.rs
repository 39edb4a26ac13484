//! Tests with scripts as authors write them, and with a `Host` that is created as in a worker.

// clippy allows these calls in test functions, but does not recognise the helpers between them as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accepts;
mod app;
mod budgets;
mod conditions;
mod cookies;
mod documents;
mod forms;
mod hook;
mod json;
mod library;
mod loading;
mod replies;
mod requests;
mod sandbox;
mod shared;
mod soap;
mod streamed_xml;
mod vectors;
mod waiting;
mod xml;
mod xml_each;
