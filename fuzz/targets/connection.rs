//! Fuzzes connections: bytes in, replies out.

#![no_main]

use tollgate_fuzz::connection::Connections;

thread_local! {
    static CONNECTIONS: Connections = Connections::new();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| CONNECTIONS.with(|connections| connections.check(input)));
