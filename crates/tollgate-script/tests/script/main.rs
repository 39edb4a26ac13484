//! Tests of scripts as authors write them, with a host as a worker creates it.

// clippy recognises test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accepts;
mod app;
mod budgets;
mod conditions;
mod cookies;
mod documents;
mod forms;
mod json;
mod library;
mod loading;
mod replies;
mod requests;
mod sandbox;
mod shared;
mod vectors;
mod waiting;
mod xml;
