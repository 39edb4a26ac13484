//! Tests of conditions and ranges over a socket (RFC 9110 sections 13 and 14). The tables of cases are in
//! `tollgate-http`.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use super::found::{ask, get, site};
use crate::peer::PATIENCE;
use crate::site::Running;

/// Bytes of a file that is too long to be held in memory.
const LARGE_BYTES: usize = 100_000;

fn large() -> String {
    (0..LARGE_BYTES / 10).map(|number| format!("{number:09} ")).collect()
}

#[test]
fn a_client_that_has_the_file_gets_304_without_it() {
    let server = site().start();
    let whole = get(&server, "/a.txt");
    let (etag, modified) = (whole.field("etag").unwrap(), whole.field("last-modified").unwrap());
    let check = |method: &str, fields: &str, status: u16| {
        let reply = ask(&server, method, "/a.txt", &fields.replace("ETAG", etag).replace("DATE", modified));
        assert_eq!(reply.status, status, "{method} {fields}: {reply:?}");
        reply
    };
    let reply = check("GET", "If-None-Match: ETAG\r\n", 304);
    assert_eq!(reply.field("etag"), Some(etag));
    for absent in ["content-type", "content-length", "last-modified", "accept-ranges"] {
        assert_eq!(reply.field(absent), None, "{absent}");
    }
    check("GET", "If-None-Match: \"x\", W/ETAG\r\n", 304);
    check("GET", "If-None-Match: *\r\n", 304);
    check("HEAD", "If-None-Match: ETAG\r\n", 304);
    check("GET", "If-None-Match: \"x\"\r\nIf-Modified-Since: DATE\r\n", 200);
    check("GET", "If-Modified-Since: DATE\r\n", 304);
    check("GET", "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 200);
    check("GET", "If-Match: \"x\"\r\n", 412);
    check("GET", "If-Match: ETAG\r\n", 200);
    check("GET", "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 412);
    check("GET", "If-Unmodified-Since: DATE\r\n", 200);
    assert_eq!(ask(&server, "GET", "/no", "If-None-Match: *\r\n").status, 404);
}

fn check_ranges(server: &Running, target: &str, content: &str) {
    let length = content.len();
    let check = |range: &str, from: usize, to: usize| {
        let reply = ask(server, "GET", target, &format!("Range: bytes={range}\r\n"));
        assert_eq!((reply.status, reply.content.as_str()), (206, &content[from..to]), "{target} {range}");
        let expected = format!("bytes {from}-{}/{length}", to - 1);
        assert_eq!(reply.field("content-range"), Some(expected.as_str()));
        assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
        assert!(reply.field("etag").is_some());
    };
    check("0-0", 0, 1);
    check("1-3", 1, 4);
    check("2-", 2, length);
    check("-2", length - 2, length);
    check("0-999999999", 0, length);
    check("-999999999", 0, length);
    check("1-2,2-3", 1, 4);
    let reply = ask(server, "GET", target, &format!("Range: bytes={length}-\r\n"));
    let expected = format!("bytes */{length}");
    assert_eq!((reply.status, reply.field("content-range")), (416, Some(expected.as_str())), "{reply:?}");
    for whole in ["bytes=2-1", "lines=0-1", &format!("bytes={}", vec!["0-0"; 17].join(","))] {
        let reply = ask(server, "GET", target, &format!("Range: {whole}\r\n"));
        assert_eq!((reply.status, reply.content.as_str()), (200, content), "{whole}");
    }
    let reply = ask(server, "HEAD", target, "Range: bytes=0-0\r\n");
    let expected = length.to_string();
    assert_eq!((reply.status, reply.field("content-length")), (200, Some(expected.as_str())));
}

#[test]
fn a_range_is_cut_from_small_and_large_files_alike() {
    let server = site().file("public/large.txt", large()).start();
    check_ranges(&server, "/a.txt", "alpha");
    check_ranges(&server, "/large.txt", &large());
}

#[test]
fn several_ranges_come_as_parts_each_with_its_place() {
    let server = site().file("public/large.txt", large()).start();
    for (target, content) in [("/a.txt", "alpha".to_owned()), ("/large.txt", large())] {
        let length = content.len();
        let reply = ask(&server, "GET", target, "Range: bytes=0-1,-1\r\n");
        assert_eq!(reply.status, 206);
        let kind = reply.field("content-type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |from: usize, to: usize| {
            let (part, last) = (&content[from..to], to - 1);
            format!(
                "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Range: bytes {from}-{last}/{length}\r\n\r\n{part}"
            )
        };
        let expected = format!("{}{}\r\n--{boundary}--\r\n", part(0, 2), part(length - 1, length));
        assert_eq!(reply.content, expected, "{target}");
        assert_eq!(reply.field("content-range"), None);
    }
}

#[test]
fn an_empty_file_has_no_range() {
    let server = site().file("public/empty.txt", "").start();
    let reply = get(&server, "/empty.txt");
    assert_eq!((reply.status, reply.field("content-length")), (200, Some("0")));
    let reply = ask(&server, "GET", "/empty.txt", "Range: bytes=0-\r\n");
    assert_eq!((reply.status, reply.field("content-range")), (416, Some("bytes */0")));
    assert_eq!(ask(&server, "GET", "/empty.txt", "Range: bytes=-1\r\n").status, 200);
}

#[test]
fn a_range_of_what_was_there_before_becomes_the_whole() {
    let server = site().start();
    let whole = get(&server, "/a.txt");
    let etag = whole.field("etag").unwrap();
    let status =
        |fields: &str| ask(&server, "GET", "/a.txt", &format!("Range: bytes=0-0\r\n{fields}")).status;
    assert_eq!(status(&format!("If-Range: {etag}\r\n")), 206);
    assert_eq!(status(&format!("If-Range: W/{etag}\r\n")), 200);
    assert_eq!(status("If-Range: \"other\"\r\n"), 200);
    assert_eq!(status("If-Range: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), 200);
    assert_eq!(status(&format!("If-None-Match: {etag}\r\n")), 304);
    assert_eq!(status("If-Match: \"other\"\r\n"), 412);
    assert_eq!(status("If-Unmodified-Since: Fri, 01 Jan 1960 00:00:00 GMT\r\n"), 412);
}

#[test]
fn a_tag_is_weak_while_the_next_version_may_have_the_same_time_and_another_later() {
    let server = site().start();
    let path = server.folder().join("public/a.txt");
    let tag = || get(&server, "/a.txt").field("etag").unwrap().to_owned();
    let young = soon(|| {
        fs::write(&path, "alpha").unwrap();
        Some(tag()).filter(|tag| tag.starts_with("W/\""))
    });
    let settled = soon(|| Some(tag()).filter(|tag| tag.starts_with('"')));
    assert_ne!(young.strip_prefix("W/").unwrap(), settled);
    let status = |fields: &str| ask(&server, "GET", "/a.txt", fields).status;
    assert_eq!(status(&format!("If-None-Match: {young}\r\n")), 200);
    assert_eq!(status(&format!("If-None-Match: {settled}\r\n")), 304);
    assert_eq!(status(&format!("Range: bytes=0-0\r\nIf-Range: {settled}\r\n")), 206);
    // A modification time that a program has set identifies the version of the file at once.
    fs::write(&path, "delta").unwrap();
    let given = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(given).unwrap();
    assert_eq!(tag(), "\"5f5e1000.0-5\"");
}

/// Repeats `look` until it returns a value, because a busy machine may look too early or too late.
fn soon<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(seen) = look() {
            return seen;
        }
    }
    panic!("not seen within {PATIENCE:?}");
}

#[test]
fn two_lines_of_ranges_do_not_count() {
    let server = site().start();
    let reply = ask(&server, "GET", "/a.txt", "Range: bytes=0-0\r\nRange: bytes=1-1\r\n");
    assert_eq!((reply.status, reply.content.as_str()), (200, "alpha"));
}
