//! Fuzzes the byte stream of a server inside TLS.

#![no_main]

use tollgate_fuzz::tls::Sessions;

thread_local! {
    static SESSIONS: Sessions = Sessions::new();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| SESSIONS.with(|sessions| sessions.check(input)));
