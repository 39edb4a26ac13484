//! Fuzzes the decoder of chunked bodies.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::chunked::check(input));
