//! Tests of the files that stay open between requests, and of the time for which they stay open.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::found::{get, site};
use crate::peer::PATIENCE;

/// Returns whether this process has a file open, even if the path now has another file.
fn is_open(path: &Path) -> bool {
    let path = path.to_str().unwrap();
    let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut files = links.filter_map(|link| fs::read_link(link.path()).ok());
    files.any(|file| file.to_str().is_some_and(|file| file.starts_with(path)))
}

#[test]
fn a_deleted_file_gives_its_room_back_without_another_request() {
    let server = site().file("public/large", vec![b'x'; 100_000]).start();
    let path = server.folder().canonicalize().unwrap().join("public/large");
    assert_eq!(get(&server, "/large").content.len(), 100_000);
    assert!(is_open(&path));
    fs::remove_file(&path).unwrap();
    let begun = Instant::now();
    while is_open(&path) {
        assert!(begun.elapsed() < PATIENCE, "it is kept");
        thread::sleep(Duration::from_millis(50));
    }
}
