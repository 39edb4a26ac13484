//! Tests of digests of sent content, as entity tags and as fields for clients that request them (RFC 9530).

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256, Sha512};
use tollgate_log::Level;
use tollgate_server::{Etag, FilesSpec};

use super::found::{ask, get, site};
use crate::site::{Running, Site};

const MIB: usize = 1 << 20;

/// Returns content that is too long to be held in memory.
fn large(name: &str) -> String {
    (0..MIB / 16).map(|number| format!("{name:3}{number:012x}\n")).collect()
}

fn tuned(site: Site, tune: impl FnOnce(&mut FilesSpec)) -> Site {
    site.tune(|options| options.routes.clear()).files("/*", tune)
}

fn tag(content: impl AsRef<[u8]>) -> String {
    format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content)))
}

fn sha_256(content: impl AsRef<[u8]>) -> String {
    format!("sha-256=:{}:", BASE64_STANDARD.encode(Sha256::digest(content)))
}

fn sha_512(content: impl AsRef<[u8]>) -> String {
    format!("sha-512=:{}:", BASE64_STANDARD.encode(Sha512::digest(content)))
}

fn tagged(etag: Etag) -> Site {
    tuned(site().file("public/large", large("a")), |spec| spec.etag = etag)
}

#[test]
fn machines_with_the_same_content_say_the_same_tag_whatever_the_times() {
    let sites = [tagged(Etag::Content), tagged(Etag::Content)];
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["a.txt", "large"] {
        let path = sites[0].folder().join("public").join(name);
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    for server in sites.map(Site::start) {
        for (target, content) in [("/a.txt", "alpha"), ("/large", &large("a"))] {
            let reply = get(&server, target);
            assert_eq!((reply.status, reply.field("etag")), (200, Some(tag(content).as_str())), "{target}");
            assert!(reply.content == content, "{target}");
            let condition = format!("If-None-Match: {}\r\n", tag(content));
            assert_eq!(ask(&server, "GET", target, &condition).status, 304);
            assert_eq!(ask(&server, "HEAD", target, &condition).status, 304);
        }
        // The same content gets the same tag again, and other content gets another tag.
        fs::write(server.folder().join("public/large"), large("b")).unwrap();
        assert_eq!(get(&server, "/large").field("etag"), Some(tag(large("b")).as_str()));
        fs::write(server.folder().join("public/large"), large("a")).unwrap();
        assert_eq!(get(&server, "/large").field("etag"), Some(tag(large("a")).as_str()));
    }
}

#[test]
fn each_coding_has_the_tag_of_its_own_content() {
    let site = site().file("public/t.txt", large("a")).file("public/t.txt.br", large("b"));
    let server = tuned(site, |spec| (spec.etag, spec.compress) = (Etag::Content, true)).start();
    let beside = ask(&server, "GET", "/t.txt", "Accept-Encoding: br\r\n");
    let expected = tag(large("b")).replacen("\"", "", 1).replace('"', "-br\"");
    assert_eq!(beside.field("etag").unwrap(), format!("\"{expected}"));
    let begun = Instant::now();
    loop {
        let mut peer = server.connect();
        peer.send("GET /t.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        let (made, content) = peer.binary_reply();
        if made.field("content-encoding").is_some() {
            let expected = tag(content).replacen("\"", "", 1).replace('"', "-gzip\"");
            assert_eq!(made.field("etag").unwrap(), format!("\"{expected}"));
            return;
        }
        assert_eq!(made.field("etag"), Some(tag(large("a")).as_str()));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn replies_stay_in_order_around_one_that_waits_for_its_digest() {
    let site = site().file("public/1", large("1")).file("public/2", large("2")).fixed("/fixed", "fixed");
    let server = site.files("/tagged/*", |spec| spec.etag = Etag::Content).start();
    let mut peer = server.connect();
    let all = ["/tagged/1", "/fixed", "/tagged/2", "/tagged/1", "/tagged/a.txt", "/tagged/no", "/fixed"];
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.send(all.map(request).concat());
    for target in all {
        let reply = peer.reply(false);
        let is_right = match target {
            "/tagged/1" => reply.content == large("1"),
            "/tagged/2" => reply.content == large("2"),
            "/tagged/a.txt" => reply.content == "alpha",
            "/fixed" => reply.content == "fixed",
            _ => reply.status == 404,
        };
        assert!(is_right, "{target}: {}", reply.head);
    }
}

#[test]
fn clients_that_wait_for_the_same_digest_get_it_together() {
    let server = tagged(Etag::Content).start();
    let mut peers: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for peer in &mut peers {
        peer.send("HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // Ten clients leave, and all others are not affected.
    peers.truncate(40);
    for peer in &mut peers {
        assert_eq!(peer.reply(true).field("etag"), Some(tag(large("a")).as_str()));
    }
}

#[test]
fn a_file_that_is_too_long_for_a_digest_has_the_tag_of_its_time() {
    let server = {
        let site = site().file("public/long", "");
        let file = File::options().write(true).open(site.folder().join("public/long")).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.set_len((256 << 20) + 1).unwrap();
        file.set_modified(modified).unwrap();
        tuned(site, |spec| spec.etag = Etag::Content).start()
    };
    let reply = ask(&server, "HEAD", "/long", "Want-Repr-Digest: sha-256=1\r\n");
    assert_eq!((reply.status, reply.field("repr-digest")), (200, None));
    let etag = reply.field("etag").unwrap();
    assert!(etag.contains('.') && etag.ends_with("-10000001\""), "{etag}");
}

#[test]
fn a_file_that_is_written_to_all_the_time_is_sent_all_the_same() {
    let site = site().file("public/growing", large("a"));
    let mut growing = File::options().append(true).open(site.folder().join("public/growing")).unwrap();
    let server = tuned(site, |spec| spec.etag = Etag::Content).start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The number of writes is bounded, so that the thread ends even if an assertion fails.
            let writes = (0..20_000_000).take_while(|_| !is_over.load(Ordering::Relaxed));
            writes.for_each(|_| growing.write_all(b"more").unwrap());
        });
        let replies: Vec<_> = (0..5).map(|_| ask(&server, "HEAD", "/growing", "")).collect();
        is_over.store(true, Ordering::Relaxed);
        for reply in replies {
            assert_eq!(reply.status, 200, "{}", reply.head);
        }
    });
    let whole = get(&server, "/growing");
    assert_eq!(whole.field("etag"), Some(tag(&whole.content).as_str()));
}

#[test]
fn the_date_identifies_a_copy_without_tags() {
    let server = tagged(Etag::Off).start();
    let reply = get(&server, "/a.txt");
    assert_eq!((reply.status, reply.field("etag")), (200, None));
    let date = reply.field("last-modified").unwrap();
    let status = |fields: &str| ask(&server, "GET", "/a.txt", &fields.replace("DATE", date)).status;
    let unchanged = ask(&server, "GET", "/a.txt", &format!("If-Modified-Since: {date}\r\n"));
    assert_eq!((unchanged.status, unchanged.field("last-modified")), (304, Some(date)));
    assert_eq!(status("If-None-Match: \"x\"\r\n"), 200);
    assert_eq!(status("If-None-Match: \"\"\r\n"), 200);
    assert_eq!(status("If-None-Match: *\r\n"), 304);
    assert_eq!(status("If-Match: \"x\"\r\n"), 412);
    assert_eq!(status("Range: bytes=0-0\r\nIf-Range: \"\"\r\n"), 200);
}

fn check_digests(server: &Running, target: &str, content: &str) {
    let check = |method: &str, fields: &str, status: u16, repr: Option<String>, part: Option<String>| {
        let reply = ask(server, method, target, fields);
        let found = (reply.status, reply.field("repr-digest"), reply.field("content-digest"));
        assert_eq!(found, (status, repr.as_deref(), part.as_deref()), "{method} {target} {fields}");
        reply
    };
    let whole = || Some(sha_256(content));
    check("GET", "", 200, None, None);
    check("GET", "Want-Repr-Digest: sha-256=1\r\n", 200, whole(), None);
    check("GET", "Want-Content-Digest: sha-256=1\r\n", 200, None, whole());
    check("GET", "Want-Repr-Digest: sha-256=2, sha-512=3\r\n", 200, Some(sha_512(content)), None);
    check("GET", "Want-Repr-Digest: sha-512=1\r\nWant-Repr-Digest: sha-256=9\r\n", 200, whole(), None);
    check("GET", "Want-Repr-Digest: md5=10, unixsum=1\r\n", 200, None, None);
    check("GET", "Want-Repr-Digest: sha-256=0\r\nWant-Content-Digest: sha-512\r\n", 200, None, None);
    let both = "Want-Repr-Digest: sha-256=1\r\nWant-Content-Digest: sha-512=1\r\n";
    check("GET", both, 200, whole(), Some(sha_512(content)));
    check("HEAD", both, 200, whole(), Some(sha_512("")));
    let part = &content[1..content.len() - 1];
    let range = format!("Range: bytes=1-{}\r\n{both}", content.len() - 2);
    check("GET", &range, 206, whole(), Some(sha_512(part)));
    let reply = ask(server, "GET", target, &format!("Range: bytes=0-0,-1\r\n{both}"));
    assert_eq!((reply.status, reply.field("repr-digest")), (206, whole().as_deref()));
    assert_eq!(reply.field("content-digest"), Some(sha_512(&reply.content).as_str()));
    check("GET", &format!("Range: bytes=999999999-\r\n{both}"), 416, None, None);
    check("GET", &format!("If-None-Match: *\r\n{both}"), 304, None, None);
}

#[test]
fn a_client_that_wants_a_digest_gets_it_of_the_whole_and_of_the_sent_part() {
    let server = site().file("public/large", large("a")).start();
    check_digests(&server, "/a.txt", "alpha");
    check_digests(&server, "/large", &large("a"));
    assert_eq!(ask(&server, "GET", "/no", "Want-Repr-Digest: sha-256=1\r\n").field("repr-digest"), None);
}

#[test]
fn a_digest_is_of_the_coding_that_is_sent() {
    let server = site().file("public/a.txt.gz", "GZ").start();
    let fields = "Want-Repr-Digest: sha-256=1\r\nAccept-Encoding: gzip\r\n";
    let reply = ask(&server, "GET", "/a.txt", fields);
    assert_eq!(reply.field("repr-digest"), Some(sha_256("GZ").as_str()));
}

#[test]
fn a_client_that_leaves_while_it_waits_is_recorded_as_cancelled() {
    let columns = ["path text request.path", "outcome text reply.outcome"];
    let site = Site::new().stream("requests", Level::Written, &columns).file("public/a.txt", "alpha");
    for name in ["1", "2", "3"] {
        File::create(site.folder().join("public").join(name)).unwrap().set_len(256 << 20).unwrap();
    }
    let server = site.files("/*", |spec| spec.etag = Etag::Content).start();
    // Threads read two files at the same time, so the third request waits.
    let [mut one, mut two, three] = ["1", "2", "3"].map(|name| {
        let mut peer = server.connect();
        peer.send(format!("HEAD /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(get(&server, "/a.txt").status, 200);
        peer
    });
    three.reset();
    for peer in [&mut one, &mut two] {
        assert_eq!(peer.reply(true).status, 200);
    }
    let mut records = server.records();
    records.retain(|record| !record.contains("a.txt"));
    records.sort();
    assert_eq!(
        records,
        ["path=/1 outcome=complete", "path=/2 outcome=complete", "path=/3 outcome=cancelled"]
    );
}

#[test]
fn pipelines_of_digests_that_nobody_reads_keep_nobody_else_waiting() {
    let site =
        site().file("public/long", "").file("public/folder/a.txt", "alpha").file("public/large", large("a"));
    File::options().write(true).open(site.folder().join("public/long")).unwrap().set_len(256 << 20).unwrap();
    let tuned = |spec: &mut FilesSpec| (spec.etag, spec.listing) = (Etag::Content, true);
    let server = site.files("/tagged/*", tuned).start();
    let request = |from: usize| {
        let to = from + 16 * MIB - 1;
        format!(
            "GET /long HTTP/1.1\r\nHost: a\r\nRange: bytes={from}-{to}\r\nWant-Content-Digest: sha-512=1\r\n\r\n"
        )
    };
    let requests: String = (0..200).map(request).collect();
    let pipelines = [0; 8].map(|_| {
        let mut peer = server.connect();
        peer.send(&requests);
        peer
    });
    assert_eq!(get(&server, "/tagged/folder/").status, 200);
    assert_eq!(get(&server, "/tagged/large").field("etag"), Some(tag(large("a")).as_str()));
    drop(pipelines);
}

#[test]
fn a_file_that_is_replaced_again_and_again_has_the_tag_of_what_is_sent() {
    let server = tagged(Etag::Content).start();
    let path = server.folder().join("public/large");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for version in 0.. {
                // The file is sparse, so creating it is faster than computing its digest.
                let new = path.with_file_name("new");
                fs::write(&new, format!("{version}\n")).unwrap();
                File::options().write(true).open(&new).unwrap().set_len(4 * MIB as u64).unwrap();
                fs::rename(new, &path).unwrap();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let replies: Vec<_> = (0..10).map(|_| get(&server, "/large")).collect();
        is_over.store(true, Ordering::Relaxed);
        for reply in replies {
            let expected = tag(&reply.content);
            assert_eq!((reply.status, reply.field("etag")), (200, Some(expected.as_str())));
        }
    });
}
