//! Checks targets and paths: the reading of the routes, and the text that the server writes into requests to
//! backends.

use bytes::BytesMut;
use tollgate_http::{HeadReader, Limits, normalise_path, query_pairs, write_path, write_target};

use super::reference::{self, ReferenceResult};
use super::split;

/// Checks one input as a target, and as a path by itself.
pub fn check(bytes: &[u8]) {
    check_target(bytes);
    if let Ok(raw) = std::str::from_utf8(bytes) {
        check_path(raw);
    }
}

fn check_target(target: &[u8]) {
    let Some(split::Input { bounds, .. }) = split::input(&[2, 0]) else { return };
    for method in ["GET ", "OPTIONS "] {
        let line = [method.as_bytes(), target, b" HTTP/1.0\r\n\r\n"].concat();
        let read = HeadReader::default().read(&mut BytesMut::from(&line[..]), &Limits::default());
        match (read, reference::head(&line, &bounds)) {
            (Ok(Some(head)), ReferenceResult::Read(expected, _)) => {
                let found = (head.path(), head.query(), head.host());
                let expected = (expected.path.as_str(), expected.query.as_deref(), expected.host.as_deref());
                assert_eq!(found, expected, "{}", line.escape_ascii());
                check_path(head.path());
                check_query(head.query().unwrap_or_default());
            }
            (Err(error), ReferenceResult::Refused(statuses))
                if statuses.contains(&error.status().as_u16()) => {}
            (read, expected) => panic!("{read:?}, {expected:?}: {}", line.escape_ascii()),
        }
    }
}

fn check_path(raw: &str) {
    let found = normalise_path(raw).ok();
    assert_eq!(found.as_deref(), reference::path(raw).as_deref(), "{raw:?}");
    let Some(path) = found else { return };
    if path == "*" {
        return;
    }
    assert!(
        path.starts_with('/') && !path.split('/').any(|segment| matches!(segment, "." | "..")),
        "{raw:?}"
    );
    let mut written = Vec::new();
    write_path(&mut written, &path);
    let written = String::from_utf8(written).expect("only ASCII is written");
    assert_eq!(normalise_path(&written).ok().as_deref(), Some(&*path), "{raw:?}");
}

/// Checks that the target for a backend has the same meaning as the client's target.
fn check_query(raw: &str) {
    let mut written = Vec::new();
    write_target(&mut written, raw);
    let written = String::from_utf8(written).expect("only ASCII is written");
    assert!(query_pairs(written.as_bytes()).eq(query_pairs(raw.as_bytes())), "{raw:?}");
}
