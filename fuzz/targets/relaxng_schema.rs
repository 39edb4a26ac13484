//! Fuzzes the readers of RELAX NG schemas, of both syntaxes.

#![no_main]

#[path = "../src/relaxng/mod.rs"]
mod relaxng;

libfuzzer_sys::fuzz_target!(|input: &[u8]| relaxng::check_schema(input));
