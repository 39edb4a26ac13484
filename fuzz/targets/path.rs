//! Fuzzes the normalisation of paths.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::path::check(input));
