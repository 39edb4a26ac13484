//! Tests of files that scripts send: whole files and slices, with conditions and ranges. No file outside of
//! the folder is ever sent.

use std::fs::{self, File};
use std::time::{Duration, UNIX_EPOCH};

use tollgate_server::FilesSpec;

use crate::peer::Reply;
use crate::site::{Running, Site};

/// Returns the site. The last script of the site may send the files of `private`.
fn sending(site: Site) -> Site {
    let root = site.folder().join("private");
    fs::create_dir_all(&root).unwrap();
    let mut spec = FilesSpec::new(root);
    spec.recheck = Duration::ZERO;
    site.tune_route(|route| route.access.files = Some(Box::new(spec)))
}

fn ask(server: &Running, target: &str, fields: &str) -> Reply {
    let mut peer = server.connect();
    peer.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    peer.reply(false)
}

/// Returns content that is too long to be held in memory.
fn large() -> String {
    (0..20_000).map(|number| format!("{number:07}\n")).collect()
}

#[test]
fn a_script_sends_a_file_with_its_type_and_its_validators() {
    let site = Site::new().handler("/*", "return { file = req.path_info }");
    let server = sending(site).file("private/a.txt", "hello").file("private/b/large.bin", large()).start();
    let reply = ask(&server, "/a.txt", "");
    assert_eq!((reply.status, &*reply.content), (200, "hello"));
    assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.field("accept-ranges"), Some("bytes"));
    let etag = reply.field("etag").unwrap().to_owned();
    assert!(reply.field("last-modified").is_some());

    let reply = ask(&server, "/a.txt", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((reply.status, &*reply.content), (304, ""));
    let reply = ask(&server, "/a.txt", "If-Match: \"other\"\r\n");
    assert_eq!(reply.status, 412);
    let reply = ask(&server, "/b/large.bin", "Range: bytes=8-22\r\n");
    assert_eq!((reply.status, &*reply.content), (206, "0000001\n0000002"));
    assert_eq!(reply.field("content-range"), Some("bytes 8-22/160000"));
    let reply = ask(&server, "/b/large.bin", "");
    assert!(reply.content == large());

    let mut peer = server.connect();
    peer.send("HEAD /b/large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = peer.reply(true);
    assert_eq!(head.field("content-length"), Some("160000"));
}

#[test]
fn a_file_that_is_not_below_the_folder_is_not_there() {
    let site = Site::new().handler("/*", "return { file = req.query.name }");
    let server = sending(site).file("secret.txt", "secret").file("private/.hidden", "hidden").start();
    std::os::unix::fs::symlink(server.folder().join("secret.txt"), server.folder().join("private/link"))
        .unwrap();
    for name in [
        "",
        "/",
        "absent",
        "../secret.txt",
        "/../secret.txt",
        "a/../../secret.txt",
        "link",
        ".hidden",
        "%00",
        "a//b",
        ".",
    ] {
        let reply = ask(&server, &format!("/?name={name}"), "");
        assert_eq!((reply.status, &*reply.content), (404, "no resource has this path\n"), "{name}");
    }
    let absolute = server.folder().join("secret.txt");
    assert_eq!(ask(&server, &format!("/?name={}", absolute.display()), "").status, 404);
}

#[test]
fn a_slice_is_a_content_of_its_own() {
    let body = "return { file = { path = req.query.name, offset = tonumber(req.query.from), length = tonumber(req.query.count) } }";
    let server = sending(Site::new().handler("/*", body))
        .file("private/large", large())
        .file("private/small", "0123456789")
        .start();
    for name in ["large", "small"] {
        let whole = ask(&server, &format!("/?name={name}"), "");
        let content = whole.content.clone();
        let check = |query: &str, fields: &str, status: u16, expect: &str| {
            let reply = ask(&server, &format!("/?name={name}{query}"), fields);
            assert_eq!((reply.status, &*reply.content), (status, expect), "{name} {query} {fields}");
            reply
        };
        let slice = check("&from=3&count=4", "", 200, &content[3..7]);
        assert_ne!(slice.field("etag"), whole.field("etag"));
        let etag = slice.field("etag").unwrap();
        check("&from=3&count=4", &format!("If-None-Match: {etag}\r\n"), 304, "");
        check("&from=4&count=4", &format!("If-None-Match: {etag}\r\n"), 200, &content[4..8]);
        let part = check("&from=3&count=4", "Range: bytes=1-2\r\n", 206, &content[4..6]);
        assert_eq!(part.field("content-range"), Some("bytes 1-2/4"));
        check("&from=9&count=1000000", "", 200, &content[9..]);
        check(&format!("&from={}", content.len()), "", 200, "");
        check(&format!("&from={}", content.len() + 1), "", 500, "the script failed\n");
    }
}

#[test]
fn type_name_and_headers_are_those_that_the_script_says() {
    let body = "return {
            headers = { ['cache-control'] = 'private', ['x-content-type-options'] = 'none' },
            file = { path = 'a.txt', type = 'application/x-test', download_name = 'Grüße.txt' },
        }";
    let server = sending(Site::new().handler("/", body)).file("private/a.txt", "hello").start();
    let reply = ask(&server, "/", "");
    assert_eq!(reply.field("content-type"), Some("application/x-test"));
    assert_eq!(reply.field("cache-control"), Some("private"));
    assert_eq!(reply.field("x-content-type-options"), Some("none"));
    let saved = "attachment; filename=\"Gr__e.txt\"; filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt";
    assert_eq!(reply.field("content-disposition"), Some(saved));
    let etag = reply.field("etag").unwrap();
    let reply = ask(&server, "/", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((reply.status, reply.field("content-disposition")), (304, None));
}

#[test]
fn a_file_with_another_status_is_sent_whole() {
    let site = Site::new().handler("/", "return { status = 404, file = 'sorry.html' }");
    let server = sending(site).file("private/sorry.html", "<p>sorry").start();
    let reply = ask(&server, "/", "Range: bytes=0-1\r\nIf-None-Match: *\r\n");
    assert_eq!((reply.status, &*reply.content), (404, "<p>sorry"));
    assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn the_record_tells_what_the_client_got() {
    let columns = ["status int reply.status", "bytes int reply.bytes", "name text record.name"];
    let site = Site::new().stream("sent", tollgate_log::Level::Synced, &columns);
    let body = "return { file = req.query.name, record = { name = req.query.name } }";
    let server = sending(site.handler("/", body)).file("private/a", "hello").start();
    assert_eq!(ask(&server, "/?name=a", "").status, 200);
    assert_eq!(ask(&server, "/?name=b", "").status, 404);
    assert_eq!(ask(&server, "/?name=a", "Range: bytes=1-2\r\n").status, 206);
    assert_eq!(
        server.records(),
        ["status=200 bytes=5 name=a", "status=404 bytes=26 name=b", "status=206 bytes=2 name=a"]
    );
}

#[test]
fn a_route_without_a_folder_sends_none() {
    let server = Site::new().handler("/", "return { file = 'a' }").start();
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "500", "the script failed\n");
}

#[test]
fn files_are_sent_in_the_order_of_their_requests() {
    let server = sending(Site::new().handler("/*", "return { file = req.path_info }"))
        .file("private/a", large())
        .fixed("/fixed", "fixed")
        .start();
    let mut peer = server.connect();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    peer.send([get("/a"), get("/fixed"), get("/absent"), get("/a")].concat());
    assert!(peer.reply(false).content == large());
    assert_eq!(peer.reply(false).content, "fixed");
    assert_eq!(peer.reply(false).status, 404);
    assert!(peer.reply(false).content == large());
}

#[test]
fn a_file_that_a_script_names_has_one_form_and_its_date_resumes_it() {
    let site = Site::new().handler("/*", "return { file = req.path_info }");
    let site = sending(site).file("private/a.txt", "hello").file("private/a.txt.gz", "zipped");
    let modified = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["a.txt", "a.txt.gz"] {
        let file = File::options().write(true).open(site.folder().join("private").join(name)).unwrap();
        file.set_modified(modified).unwrap();
    }
    let server = site.start();
    let whole = ask(&server, "/a.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!((&*whole.content, whole.field("vary")), ("hello", None));
    let date = whole.field("last-modified").unwrap();
    let rest = ask(&server, "/a.txt", &format!("Range: bytes=1-\r\nIf-Range: {date}\r\n"));
    assert_eq!((rest.status, &*rest.content), (206, "ello"));
}
