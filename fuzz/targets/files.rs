//! Fuzzes the lookup of files.

#![no_main]

use tollgate_fuzz::files::Site;

thread_local! {
    static SITE: Site = Site::new();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| SITE.with(|site| site.check(input)));
