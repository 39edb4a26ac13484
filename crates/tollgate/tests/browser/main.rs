//! The example apps and the admin page in a real browser. `make browser` runs these tests. They need
//! Chromium.

// clippy recognizes test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin_page;
mod admin_parts;
mod admin_texts;
mod chromium;
#[allow(dead_code, reason = "the tests of the program use the rest")]
#[path = "../it/client.rs"]
mod client;
#[path = "../../../tollgate-load/tests/postgres/cluster.rs"]
mod cluster;
mod devtools;
#[allow(dead_code, reason = "the tests of the program use the rest")]
#[path = "../it/example.rs"]
mod example;
mod examples;
mod film;
mod https;
#[allow(dead_code, reason = "the tests of the program use the rest")]
#[path = "../it/program.rs"]
mod program;
mod replay;
mod screenshots;
mod site;
