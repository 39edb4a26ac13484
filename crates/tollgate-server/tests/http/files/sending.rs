//! Tests of large files while they are sent: they arrive whole and in order, connections take turns, and no
//! bytes differ from the announced file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tollgate_log::Level;
use tollgate_server::FilesSpec;

use super::found::{ask, get, site};
use crate::peer::Peer;

const MIB: usize = 1 << 20;

/// Returns text in which each part states its offset.
fn pattern(bytes: usize) -> String {
    (0..bytes / 16).map(|number| format!("{number:015x}\n")).collect()
}

fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn files_of_all_sizes_arrive_as_they_are_by_either_way() {
    for sendfile in [true, false] {
        let site = site().tune(|options| options.routes.clear()).files("/*", |spec| spec.sendfile = sendfile);
        let sizes = [32 * 1024 - 16, 32 * 1024, 32 * 1024 + 16, 128 * 1024, 128 * 1024 + 16, 3 * MIB];
        let site = sizes.iter().fold(site, |site, size| site.file(&format!("public/{size}"), pattern(*size)));
        let server = site.start();
        let mut peer = server.connect();
        for size in sizes {
            peer.send(request(&format!("/{size}")));
            assert!(peer.reply(false).content == pattern(size), "{size} by sendfile: {sendfile}");
        }
    }
}

#[test]
fn a_file_sent_again_and_again_is_sent_as_it_is_now() {
    const BYTES: usize = 70_000;
    let site = site().file("public/often", pattern(BYTES));
    let file = File::options().write(true).open(site.folder().join("public/often")).unwrap();
    file.set_modified(UNIX_EPOCH).unwrap();
    let server = site.start();
    let mut peer = server.connect();
    let mut arrives_as = |content: &str| {
        for _ in 0..20 {
            peer.send(request("/often"));
            let reply = peer.reply(false);
            assert!(reply.content == content, "{}", reply.head);
        }
        peer.send("GET /often HTTP/1.1\r\nHost: a\r\nRange: bytes=100-69999\r\n\r\n");
        assert!(peer.reply(false).content == content[100..]);
    };
    let mut content = pattern(BYTES);
    arrives_as(&content);
    for version in 'A'..='Z' {
        content.replace_range(100..101, &version.to_string());
        file.write_all_at(content.as_bytes(), 0).unwrap();
        arrives_as(&content);
    }
    // These versions differ in their modification times. All of these times are old.
    for version in 1..=5 {
        content.replace_range(100..101, &version.to_string());
        file.write_all_at(content.as_bytes(), 0).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(version)).unwrap();
        arrives_as(&content);
    }
}

#[test]
fn replies_around_a_file_stay_in_their_order() {
    let server = site().file("public/large", pattern(MIB)).fixed("/fixed", "fixed").start();
    let mut peer = server.connect();
    let all = ["/fixed", "/large", "/a.txt", "/fixed", "/large", "/large", "/no", "/fixed"];
    peer.send(all.map(request).concat());
    for target in all {
        let reply = peer.reply(false);
        let is_right = match target {
            "/fixed" => reply.content == "fixed",
            "/a.txt" => reply.content == "alpha",
            "/large" => reply.content == pattern(MIB),
            _ => reply.status == 404,
        };
        assert!(is_right, "{target}: {}", reply.head);
    }
}

#[test]
fn ranges_reach_beyond_four_gibibytes() {
    let site = site();
    let file = File::create(site.folder().join("public/sparse")).unwrap();
    file.set_len(5 << 30).unwrap();
    file.write_all_at(b"behind", (4 << 30) + 7).unwrap();
    let server = site.start();
    let length = (5_u64 << 30).to_string();
    assert_eq!(ask(&server, "HEAD", "/sparse", "").field("content-length"), Some(length.as_str()));
    let from = (4_u64 << 30) + 7;
    let reply = ask(&server, "GET", "/sparse", &format!("Range: bytes={from}-{}\r\n", from + 5));
    assert_eq!((reply.status, reply.content.as_str()), (206, "behind"));
    assert_eq!(reply.field("content-range").unwrap(), format!("bytes {from}-{}/{length}", from + 5));
    let reply = ask(&server, "GET", "/sparse", "Range: bytes=-1,4294967303-4294967304\r\n");
    assert!(reply.content.contains("\r\n\r\nbe\r\n--"), "{reply:?}");
}

/// Reads the head and the first bytes of a file. The file is much longer than the socket buffers.
fn begun(peer: &mut Peer, content: &str) -> usize {
    let head = peer.head();
    let bytes: usize = head.field("content-length").unwrap().parse().unwrap();
    assert_eq!(bytes, content.len());
    peer.expect_bytes(&content.as_bytes()[..1000]);
    bytes - 1000
}

fn large_site() -> (crate::site::Site, String) {
    let content = pattern(64 * MIB);
    (site().file("public/large", &content), content)
}

#[test]
fn a_file_that_becomes_shorter_ends_the_connection_and_is_never_padded() {
    let (site, content) = large_site();
    let path = site.folder().join("public/large");
    let site = site
        .files("/copied/*", |spec| spec.sendfile = false)
        .handler("/scripted", "return { file = 'large' }");
    let sent = FilesSpec { recheck: Duration::ZERO, ..FilesSpec::new(site.folder().join("public")) };
    let server = site.tune_route(|route| route.access.files = Some(Box::new(sent))).start();
    let whole = 0..content.len();
    let cases = [
        ("/large", "", whole.clone()),
        ("/large", "Connection: close\r\n", whole.clone()),
        ("/large", "Range: bytes=500000-\r\n", 500_000..content.len()),
        ("/large", "Range: bytes=-40000000\r\n", content.len() - 40_000_000..content.len()),
        ("/scripted", "", whole.clone()),
        ("/copied/large", "", whole.clone()),
        ("/copied/large", "Connection: close\r\nRange: bytes=500000-\r\n", 500_000..content.len()),
    ];
    for (target, fields, range) in cases {
        let case = format!("{target} {fields:?}");
        fs::write(&path, &content).unwrap();
        let mut peer = server.connect();
        peer.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        let announced: usize = peer.head().field("content-length").unwrap().parse().unwrap();
        assert_eq!(announced, range.len(), "{case}");
        File::options().write(true).open(&path).unwrap().set_len(MIB as u64).unwrap();
        let came = peer.until_reset();
        assert!(came.len() < announced, "{case}: {} of {announced}", came.len());
        // If the file is cut while the system sends a page of it, the bytes of that page may be zeros.
        let may_be_zero = |at: usize| !target.starts_with("/copied") && at >= MIB;
        let wrong = (range.start..)
            .zip(&came)
            .find(|(at, byte)| content.as_bytes()[*at] != **byte && !(**byte == 0 && may_be_zero(*at)));
        assert_eq!(wrong, None, "{case}");
        assert_eq!(get(&server, "/a.txt").content, "alpha");
    }
}

fn check_replaced(replace: impl FnOnce(&Path)) {
    let (site, content) = large_site();
    let path = site.folder().join("public/large");
    let server = site.start();
    let mut peer = server.connect();
    peer.send(request("/large"));
    let rest = begun(&mut peer, &content);
    replace(&path);
    let offset = content.len() - rest;
    peer.expect_bytes(&content.as_bytes()[offset..]);
}

#[test]
fn a_file_that_is_replaced_or_removed_goes_on_as_it_was() {
    check_replaced(|path| {
        let other = path.with_extension("new");
        fs::write(&other, vec![b'!'; 64 * MIB]).unwrap();
        fs::rename(other, path).unwrap();
    });
    check_replaced(|path| fs::remove_file(path).unwrap());
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_others_go_on_meanwhile() {
    let (site, content) = large_site();
    let server = site.tune(|options| options.connection.write_timeout = Duration::from_millis(600)).start();
    let mut idle = server.connect();
    idle.send(request("/large"));
    let rest = begun(&mut idle, &content);
    let mut peer = server.connect();
    // A worker that waited for the idle client would not serve these requests.
    for _ in 0..50 {
        peer.send(request("/a.txt"));
        peer.expect("200", "alpha");
    }
    drop(peer);
    server.drain();
    assert!(idle.sip(1 << 20, Duration::ZERO) < rest);
}

#[test]
fn a_download_leaves_turns_to_others() {
    let (site, content) = large_site();
    let server = site.start();
    let mut download = server.connect();
    download.send(request("/large"));
    let mut rest = begun(&mut download, &content);
    let mut peer = server.connect();
    let mut answered = 0;
    while rest > 0 {
        let bytes = rest.min(MIB);
        let offset = content.len() - rest;
        peer.send(request("/a.txt"));
        download.expect_bytes(&content.as_bytes()[offset..offset + bytes]);
        peer.expect("200", "alpha");
        answered += 1;
        rest -= bytes;
    }
    assert!(answered >= 64);
}

#[test]
fn a_file_that_is_not_in_memory_arrives_too() {
    let site = site();
    let content = pattern(4 * MIB);
    let path = site.folder().join("public/cold");
    fs::write(&path, &content).unwrap();
    let small = site.folder().join("public/a.txt");
    for path in [&path, &small] {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    let server = site.start();
    assert!(get(&server, "/cold").content == content);
    assert_eq!(get(&server, "/a.txt").content, "alpha");
}

#[test]
fn a_file_is_recorded_before_its_first_byte_leaves() {
    let columns = ["path text request.path", "status int reply.status", "bytes int reply.bytes"];
    let server = super::super::site::Site::new()
        .stream("requests", Level::Synced, &columns)
        .file("public/large", pattern(MIB))
        .files("/*", |_| {})
        .start();
    assert!(get(&server, "/large").content == pattern(MIB));
    assert_eq!(ask(&server, "GET", "/large", "Range: bytes=0-9\r\n").status, 206);
    assert_eq!(get(&server, "/no").status, 404);
    let expected = [
        "path=/large status=200 bytes=1048576",
        "path=/large status=206 bytes=10",
        "path=/no status=404 bytes=26",
    ];
    assert_eq!(server.records(), expected);
}
