//! Fuzzes the paths of a folder that is served, without the engine around it.

#![no_main]

use tollgate_fuzz::folder::Folders;

thread_local! {
    static FOLDERS: Folders = Folders::new();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| FOLDERS.with(|folders| folders.check(input)));
