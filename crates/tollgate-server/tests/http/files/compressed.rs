//! Tests of compression by the server: the replies that are compressed, their ranges, and the bounds.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use tollgate_server::{Etag, FilesSpec};

use super::found::site;
use crate::peer::PATIENCE;
use crate::peer::Reply;
use crate::site::{Running, Site};

/// Returns text that compresses well, and contains the name of its file.
fn text(name: &str, lines: usize) -> String {
    (0..lines).map(|number| format!("{name} {number:04}\n")).collect()
}

fn compressing(site: Site, tune: impl FnOnce(&mut FilesSpec)) -> Site {
    site.tune(|options| options.routes.clear()).files("/*", |spec| {
        spec.compress = true;
        tune(spec);
    })
}

fn ask(server: &Running, target: &str, fields: &str) -> (Reply, Vec<u8>) {
    let mut peer = server.connect();
    peer.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    peer.binary_reply()
}

/// Sends requests until the reply is in a coding.
fn ask_until_coded(server: &Running, target: &str, coding: &str) -> (Reply, Vec<u8>) {
    let begun = Instant::now();
    loop {
        let (reply, content) = ask(server, target, &format!("Accept-Encoding: {coding}\r\n"));
        assert_eq!((reply.status, reply.field("vary")), (200, Some("Accept-Encoding")), "{reply:?}");
        if reply.field("content-encoding").is_some() {
            assert_eq!(reply.field("content-encoding"), Some(coding));
            return (reply, content);
        }
        assert!(begun.elapsed() < PATIENCE, "{target} never came in {coding}");
    }
}

fn decoded(coding: &str, content: &[u8]) -> String {
    let mut text = vec![0; 8 << 20];
    let bytes = match coding {
        "gzip" => {
            text.clear();
            flate2::read::GzDecoder::new(content).read_to_end(&mut text).unwrap()
        }
        _ => zstd_safe::decompress(&mut text[..], content).unwrap(),
    };
    text.truncate(bytes);
    String::from_utf8(text).unwrap()
}

#[test]
fn text_comes_compressed_to_who_takes_that_and_nobody_waits_for_it() {
    let (small, large) = (text("small", 200), text("large", 50_000));
    let site = site().file("public/small.txt", &small).file("public/large.css", &large);
    let server = compressing(site, |_| {}).start();
    for (target, whole) in [("/small.txt", &small), ("/large.css", &large)] {
        for coding in ["gzip", "zstd"] {
            let (first, content) = ask(&server, target, &format!("Accept-Encoding: {coding}\r\n"));
            assert_eq!(
                (first.field("content-encoding"), first.field("vary")),
                (None, Some("Accept-Encoding"))
            );
            assert!(content == whole.as_bytes());
            let (reply, content) = ask_until_coded(&server, target, coding);
            assert!(content.len() < whole.len() / 3, "{} of {}", content.len(), whole.len());
            assert!(decoded(coding, &content) == *whole);
            assert_ne!(reply.field("etag"), first.field("etag"));
            assert_eq!(reply.field("content-type"), first.field("content-type"));
            assert_eq!(reply.field("last-modified"), first.field("last-modified"));
            let etag = reply.field("etag").unwrap();
            let condition = format!("Accept-Encoding: {coding}\r\nIf-None-Match: {etag}\r\n");
            assert_eq!(ask(&server, target, &condition).0.status, 304);
            let head = super::found::ask(&server, "HEAD", target, &format!("Accept-Encoding: {coding}\r\n"));
            assert_eq!(head.field("content-length").unwrap(), content.len().to_string());
            let (plain, _) = ask(&server, target, "");
            assert_eq!(
                (plain.field("content-encoding"), plain.field("vary")),
                (None, Some("Accept-Encoding"))
            );
        }
        let (_, content) = ask(&server, target, "Accept-Encoding: gzip;q=0.5, zstd\r\n");
        assert_eq!(decoded("zstd", &content), *whole);
    }
}

#[test]
fn a_range_is_of_the_representation_that_its_reply_names() {
    let whole = text("a", 500);
    let server = compressing(site().file("public/t.txt", &whole), |_| {}).start();
    let (reply, content) = ask_until_coded(&server, "/t.txt", "gzip");
    let etag = reply.field("etag").unwrap();
    let part = |fields: &str| ask(&server, "/t.txt", &format!("Range: bytes=3-9\r\n{fields}"));
    let (coded, bytes) = part(&format!("Accept-Encoding: gzip\r\nIf-Range: {etag}\r\n"));
    assert_eq!((coded.status, coded.field("content-encoding")), (206, Some("gzip")));
    assert_eq!((&bytes[..], coded.field("etag")), (&content[3..10], Some(etag)));
    assert_eq!(coded.field("content-range").unwrap(), format!("bytes 3-9/{}", content.len()));
    let end = format!("Range: bytes=-2\r\nAccept-Encoding: gzip\r\nIf-Range: {etag}\r\n");
    assert_eq!(ask(&server, "/t.txt", &end).1, &content[content.len() - 2..]);
    // A multipart reply cannot have a content coding. A request for several ranges that accepts gzip
    // therefore gets the whole file.
    let several = "Range: bytes=3-9,12-13\r\n";
    let (all, bytes) = ask(&server, "/t.txt", &format!("{several}Accept-Encoding: gzip\r\n"));
    assert_eq!((all.status, all.field("content-encoding"), &bytes), (200, Some("gzip"), &content));
    assert_eq!(ask(&server, "/t.txt", several).0.status, 206);
    let (plain, bytes) = part("");
    assert_eq!((plain.status, plain.field("content-encoding")), (206, None));
    assert_eq!(bytes, &whole.as_bytes()[3..10]);
    // Parts of two representations are never combined.
    assert_eq!(part(&format!("If-Range: {etag}\r\n")).0.status, 200);
}

/// Returns whether the server sends a range to a client that has the date of an old file.
fn resumes_by_date(server: &Running, target: &str, fields: &str) -> bool {
    let (whole, _) = ask(server, target, fields);
    let date = whole.field("last-modified").unwrap();
    let (reply, _) = ask(server, target, &format!("Range: bytes=3-9\r\nIf-Range: {date}\r\n{fields}"));
    assert!(matches!(reply.status, 200 | 206), "{reply:?}");
    reply.status == 206
}

#[test]
fn a_date_that_several_codings_have_is_that_of_no_range() {
    let dated = |tune: fn(&mut FilesSpec)| {
        let site = compressing(site().file("public/t.txt", text("a", 500)), |spec| {
            spec.etag = Etag::Off;
            tune(spec);
        });
        set_long_ago(&site.folder().join("public/t.txt"));
        (site.folder().join("public"), site.start())
    };
    let (_, server) = dated(|_| {});
    assert!(!resumes_by_date(&server, "/t.txt", ""));
    ask_until_coded(&server, "/t.txt", "gzip");
    for fields in ["", "Accept-Encoding: gzip\r\n"] {
        assert!(!resumes_by_date(&server, "/t.txt", fields), "{fields}");
    }
    let (folder, server) = dated(|spec| spec.compress = false);
    assert!(resumes_by_date(&server, "/t.txt", "Accept-Encoding: gzip\r\n"), "it has one form");
    fs::write(folder.join("t.txt.gz"), "zipped, to whoever believes it").unwrap();
    set_long_ago(&folder.join("t.txt.gz"));
    assert!(!resumes_by_date(&server, "/t.txt", "Accept-Encoding: gzip\r\n"));
}

fn set_long_ago(path: &Path) {
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_client_that_names_the_tag_of_the_plain_file_is_answered_by_that() {
    let whole = text("a", 500);
    let server = compressing(site().file("public/t.txt", &whole), |_| {}).start();
    let (plain, _) = ask(&server, "/t.txt", "");
    let (coded, _) = ask_until_coded(&server, "/t.txt", "gzip");
    let etag = plain.field("etag").unwrap();
    let check = |fields: &str, status: u16, of: &Reply| {
        let (reply, _) = ask(&server, "/t.txt", &format!("Accept-Encoding: gzip\r\n{fields}"));
        assert_eq!((reply.status, reply.field("etag")), (status, of.field("etag")), "{fields}");
    };
    check(&format!("If-None-Match: {etag}\r\n"), 304, &plain);
    check(&format!("If-Match: {etag}\r\n"), 200, &plain);
    check(&format!("If-Range: {etag}\r\nRange: bytes=0-9\r\n"), 206, &plain);
    check("If-Match: *\r\n", 200, &coded);
    check(&format!("Accept-Encoding: identity;q=0\r\nIf-None-Match: {etag}\r\n"), 200, &coded);
}

#[test]
fn names_of_one_file_are_compressed_each_as_its_type() {
    let site = site().file("public/t.txt", text("a", 500));
    let public = site.folder().join("public");
    fs::hard_link(public.join("t.txt"), public.join("t.css")).unwrap();
    let server = compressing(site, |_| {}).start();
    for _ in 0..3 {
        for (target, kind) in [("/t.txt", "text/plain; charset=utf-8"), ("/t.css", "text/css; charset=utf-8")]
        {
            let (reply, _) = ask_until_coded(&server, target, "gzip");
            assert_eq!(reply.field("content-type"), Some(kind));
        }
    }
    let is_kept =
        |target| ask(&server, target, "Accept-Encoding: gzip\r\n").0.field("content-encoding").is_some();
    assert!(is_kept("/t.txt") && is_kept("/t.css"));
}

#[test]
fn a_coded_file_beside_a_file_goes_before_one_that_is_made() {
    let site = site().file("public/t.txt", text("a", 500)).file("public/t.txt.gz", "GZ");
    let server = compressing(site, |_| {}).start();
    let check = |accept: &str| ask(&server, "/t.txt", &format!("Accept-Encoding: {accept}\r\n")).1;
    ask_until_coded(&server, "/t.txt", "zstd");
    assert_eq!(check("gzip, zstd"), b"GZ");
    assert_eq!(check("gzip"), b"GZ");
    assert_ne!(check("gzip;q=0.5, zstd"), b"GZ");
}

#[test]
fn only_files_that_become_shorter_and_are_neither_tiny_nor_huge_are_compressed() {
    let site = site()
        .file("public/tiny.txt", text("tiny", 10))
        .file("public/huge.txt", text("huge", 500_000))
        .file("public/a.png", text("png", 500))
        .file("public/t.txt", text("t", 500));
    let server = compressing(site, |_| {}).start();
    for target in ["/tiny.txt", "/huge.txt", "/a.png"] {
        let (reply, _) = ask(&server, target, "Accept-Encoding: gzip\r\n");
        assert_eq!((reply.field("content-encoding"), reply.field("vary")), (None, None), "{target}");
    }
    ask_until_coded(&server, "/t.txt", "gzip");
    let plain = super::found::site().file("public/t.txt", text("t", 500)).start();
    assert_eq!(ask(&plain, "/t.txt", "Accept-Encoding: gzip\r\n").0.field("vary"), None);
}

#[test]
fn a_compressed_content_is_of_the_file_as_it_is_now() {
    let site = site().file("public/t.txt", text("old", 500));
    let path = site.folder().join("public/t.txt");
    let server = compressing(site, |_| {}).start();
    let (old, _) = ask_until_coded(&server, "/t.txt", "gzip");
    fs::write(&path, text("new", 500)).unwrap();
    let (reply, content) = ask(&server, "/t.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!(reply.field("content-encoding"), None);
    assert!(content == text("new", 500).as_bytes());
    let (new, content) = ask_until_coded(&server, "/t.txt", "gzip");
    assert!(decoded("gzip", &content) == text("new", 500));
    assert_ne!(new.field("etag"), old.field("etag"));
}

#[test]
fn no_more_is_kept_than_the_bound_says() {
    // The bound is 64 KiB, in two generations of 32 KiB. Each of these files has about 6 KiB when compressed.
    let names: Vec<_> = (0..24).map(|number| format!("{number}.txt")).collect();
    let noisy = |name: &str| {
        let mut state = name.bytes().fold(7_u64, |state, byte| state * 31 + u64::from(byte));
        let mut digit = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{:x}", state >> 60)
        };
        (0..12_000).map(|_| digit()).collect::<String>()
    };
    let site = names.iter().fold(site(), |site, name| site.file(&format!("public/{name}"), noisy(name)));
    let server = compressing(site, |spec| spec.compress_cache_bytes_max = 64 << 10).start();
    for name in &names {
        ask_until_coded(&server, &format!("/{name}"), "gzip");
    }
    let is_kept = |name: &String| {
        let (reply, _) = ask(&server, &format!("/{name}"), "Accept-Encoding: gzip\r\n");
        reply.field("content-encoding").is_some()
    };
    assert!(is_kept(&names[23]));
    // A request starts the compression again, so only the first answer counts.
    assert!(!is_kept(&names[0]));
}
