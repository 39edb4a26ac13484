//! Fuzzes the reader of XML.

#![no_main]

#[path = "../../crates/tollgate-xml/tests/xml/document.rs"]
#[allow(dead_code)] // The target needs only a part of the helpers of the tests.
mod document;
#[path = "../../crates/tollgate-xml/tests/xml/reference.rs"]
mod reference;

libfuzzer_sys::fuzz_target!(|input: &[u8]| reference::check(input));
