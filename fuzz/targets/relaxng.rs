//! Fuzzes the RELAX NG validator: schemas and documents from the input, against a plain derivative.

#![no_main]

#[path = "../src/relaxng/mod.rs"]
mod relaxng;

libfuzzer_sys::fuzz_target!(|input: &[u8]| relaxng::check(input));
