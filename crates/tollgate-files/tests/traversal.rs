//! No path leads out of the folder, whatever files and links it holds. The test calls the file handler
//! directly, without the server. The results are compared with a model that only has a list of files and
//! links.

// The fuzz target `folder` has the same folder and model. In the fuzz target, folder and model are public.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../fuzz/src/folder.rs"]
mod folder;
#[path = "../../../fuzz/src/tree.rs"]
mod tree;

use folder::{Folders, Found, WAYS};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Pieces of paths, valid and invalid.
const PIECES: [&str; 32] = [
    "a.txt",
    "b",
    "c.txt",
    "d",
    "e",
    "empty",
    "index.html",
    ".env",
    ".well-known",
    ".git",
    "config",
    "...",
    "..;",
    "%2e%2e",
    "link.txt",
    "up.txt",
    "linked",
    "out.txt",
    "up",
    "root",
    "loop",
    "none",
    "absolute.txt",
    "socket",
    "canary.txt",
    "public",
    "public-secret",
    "..",
    ".",
    "",
    "\0",
    "\\",
];

#[test]
fn no_path_leads_out_of_the_folder() {
    let folders = Folders::new();
    for path in [
        "..",
        "../",
        "../canary.txt",
        "../public/a.txt",
        "../public-secret/canary.txt",
        "b/../../canary.txt",
        "b/../a.txt",
        "./a.txt",
        "/etc/passwd",
        "//etc/passwd",
        "b//c.txt",
        "out.txt",
        "absolute.txt",
        "up/canary.txt",
        "root/etc/passwd",
        "loop",
        "none",
        "socket",
        "a.txt\0",
        "..\\canary.txt",
        "%2e%2e/canary.txt",
    ] {
        // The second way is not used here. It sends a default file if a path finds nothing, which would hide
        // an escape from the root.
        let [inside, _, plain] = &WAYS;
        for way in [inside, plain] {
            assert_eq!(way.found(path, false), Found::Nothing, "{path:?}");
        }
        folders.check_path(path, false);
    }
}

#[test]
fn paths_of_any_pieces_lead_where_the_plain_reading_says() {
    let folders = Folders::new();
    let pieces = prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..6);
    let paths = (pieces, any::<bool>(), any::<bool>());
    TestRunner::new(Config::with_cases(5000))
        .run(&paths, |(pieces, has_slash, accepts_gzip)| {
            let slash = if has_slash { "/" } else { "" };
            let path = format!("{}{slash}", pieces.join("/"));
            folders.check(&[&[u8::from(accepts_gzip)], path.as_bytes()].concat());
            Ok(())
        })
        .unwrap();
}
