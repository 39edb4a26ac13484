//! Tests of the file that a path means, and of the fields of its reply.

use std::fs::{self, File};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_http::parse_http_date;
use tollgate_server::TryPath;

use crate::peer::Reply;
use crate::site::{Running, Site};

pub(super) fn site() -> Site {
    Site::new().file("public/index.html", "<p>home").file("public/a.txt", "alpha").files("/*", |_| {})
}

pub(super) fn ask(server: &Running, method: &str, target: &str, fields: &str) -> Reply {
    let mut peer = server.connect();
    peer.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    peer.reply(method == "HEAD")
}

pub(super) fn get(server: &Running, target: &str) -> Reply {
    ask(server, "GET", target, "")
}

fn check(server: &Running, target: &str, status: u16, content: &str) {
    let reply = get(server, target);
    assert_eq!((reply.status, reply.content.as_str()), (status, content), "{target}: {reply:?}");
}

#[test]
fn a_file_comes_with_its_type_and_validators_and_head_says_the_same() {
    let server = site().start();
    let reply = get(&server, "/a.txt");
    assert_eq!((reply.status, reply.content.as_str()), (200, "alpha"));
    assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.field("accept-ranges"), Some("bytes"));
    assert!(reply.field("etag").unwrap().starts_with('"') && reply.field("last-modified").is_some());
    assert_eq!((reply.field("vary"), reply.field("content-encoding")), (None, None));
    let head = ask(&server, "HEAD", "/a.txt", "");
    assert_eq!((head.status, head.field("content-length")), (200, Some("5")));
    assert_eq!(head.field("etag"), reply.field("etag"));
}

#[test]
fn a_folder_is_its_index_and_has_one_path() {
    let server = site().file("public/b/index.html", "<p>b").file("public/c/x", "").start();
    check(&server, "/", 200, "<p>home");
    check(&server, "/b/", 200, "<p>b");
    let reply = get(&server, "/b?x=1");
    assert_eq!((reply.status, reply.field("location")), (308, Some("/b/?x=1")));
    check(&server, "/c/", 404, "no resource has this path\n");
    check(&server, "/a.txt/", 404, "no resource has this path\n");
    check(&server, "/b//index.html", 404, "no resource has this path\n");
    check(&server, "/a.txt/x", 404, "no resource has this path\n");
}

#[test]
fn a_route_serves_its_folder_below_its_own_path() {
    let server = Site::new().file("public/x/a.txt", "a").files("/docs/v1/*", |_| {}).start();
    check(&server, "/docs/v1/x/a.txt", 200, "a");
    check(&server, "/x/a.txt", 404, "no resource has this path\n");
    assert_eq!(get(&server, "/docs/v1/x").field("location"), Some("/docs/v1/x/"));
}

#[test]
fn names_are_whatever_the_disk_takes() {
    let names = ["with space.txt", "ünï.txt", "a+b&c=d.txt", "100%.txt", "q?.txt", "日本.txt", "~x'(1)!.txt"];
    let site = names.iter().fold(site(), |site, name| site.file(&format!("public/{name}"), name));
    let server = site.start();
    for name in names {
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        check(&server, &format!("/{escaped}"), 200, name);
    }
    check(&server, &format!("/{}", "n".repeat(300)), 404, "no resource has this path\n");
}

#[test]
fn candidates_are_tried_in_their_order() {
    let pages = |candidates: &[TryPath]| {
        let candidates = candidates.to_vec();
        let site =
            site().file("public/about.html", "about").file("public/x", "x").file("public/x.html", "x.html");
        site.file("public/app/index.html", "app").tune(|options| options.routes.clear()).files("/*", |spec| {
            spec.candidates = candidates;
        })
    };
    let requested = |end: &str| TryPath::Requested(end.to_owned());
    let fixed = TryPath::Fixed("app/index.html".to_owned());
    let server = pages(&[requested(""), requested(".html"), fixed.clone()]).start();
    check(&server, "/about", 200, "about");
    check(&server, "/x", 200, "x");
    check(&server, "/no/such/page", 200, "app");
    check(&server, "/no/such/folder/", 200, "app");
    check(&server, "/", 200, "<p>home");
    check(&server, "/.env", 404, "no resource has this path\n");
    let server = pages(&[requested(".html"), requested("")]).start();
    check(&server, "/x", 200, "x.html");
    check(&server, "/no/such", 404, "no resource has this path\n");
    let server = pages(&[fixed]).start();
    check(&server, "/x", 200, "app");
}

#[test]
fn hidden_names_are_shown_only_where_that_is_asked_for() {
    let site =
        || site().file("public/.env", "e").file("public/.git/x", "g").file("public/.well-known/w", "w");
    let server = site().file("public/a/.well-known/w", "no").start();
    for hidden in ["/.env", "/.git/x", "/%2eenv", "/a/.well-known/w", "/.git/"] {
        check(&server, hidden, 404, "no resource has this path\n");
    }
    check(&server, "/.well-known/w", 200, "w");
    let shown =
        site().tune(|options| options.routes.clear()).files("/*", |spec| spec.dotfiles = true).start();
    check(&shown, "/.env", 200, "e");
    check(&shown, "/.git/x", 200, "g");
}

#[test]
fn fields_follow_the_type_and_the_route() {
    let server = site()
        .file("public/sub/x", "")
        .tune(|options| options.routes.clear())
        .files("/*", |spec| {
            let rule = |kind: &str, value: &str| (kind.to_owned(), value.to_owned());
            spec.cache_control = vec![rule("*/*", "max-age=9"), rule("text/html", "no-cache")];
            spec.headers = vec![rule("X-Frame-Options", "DENY")];
        })
        .start();
    let page = get(&server, "/");
    assert_eq!(
        (page.field("cache-control"), page.field("x-frame-options")),
        (Some("no-cache"), Some("DENY"))
    );
    assert_eq!(get(&server, "/a.txt").field("cache-control"), Some("max-age=9"));
    let folder = get(&server, "/sub");
    assert_eq!((folder.status, folder.field("x-frame-options")), (308, Some("DENY")));
    let missing = get(&server, "/b.txt");
    assert_eq!((missing.field("cache-control"), missing.field("x-frame-options")), (None, Some("DENY")));
    assert_eq!(missing.field("x-content-type-options"), Some("nosniff"));
}

#[test]
fn expires_is_as_far_ahead_as_max_age_says() {
    let expires_of = |expires: bool| {
        let server = site()
            .file("public/a.css", "")
            .file("public/a.csv", "")
            .tune(|options| options.routes.clear())
            .files("/*", |spec| {
                let rule = |kind: &str, value: &str| (kind.to_owned(), value.to_owned());
                spec.cache_control = vec![
                    rule("*/*", "public, Max-Age=86400"),
                    rule("text/html", "no-cache"),
                    rule("text/css", "No-Cache, max-age=10"),
                    rule("text/csv", "max-age=10, no-store"),
                ];
                spec.expires = expires;
            })
            .start();
        let text = get(&server, "/a.txt");
        let again = format!(
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: {}\r\n\r\n",
            text.field("etag").unwrap()
        );
        let mut peer = server.connect();
        peer.send(again);
        let again = peer.reply(false);
        assert_eq!(again.status, 304);
        assert_eq!(get(&server, "/").field("expires"), None, "no max-age");
        for asked_for in ["/a.css", "/a.csv"] {
            let reply = get(&server, asked_for);
            let past =
                reply.field("expires").map(|until| seconds(until) <= seconds(reply.field("date").unwrap()));
            assert_eq!(past, expires.then_some(true), "{asked_for}");
        }
        assert_eq!(get(&server, "/b.txt").field("expires"), None, "an error");
        [text, again].map(|reply| {
            let ahead = |until| seconds(until) - seconds(reply.field("date").unwrap());
            reply.field("expires").map(ahead)
        })
    };
    assert_eq!(expires_of(false), [None, None]);
    for ahead in expires_of(true) {
        // `Date` may be one tick later than the request.
        assert!((86_399..=86_400).contains(&ahead.unwrap()), "{ahead:?}");
    }
}

#[test]
fn no_reply_says_that_a_file_changed_after_it() {
    let server = site().start();
    let first = seconds(get(&server, "/a.txt").field("date").unwrap());
    let mut last = first;
    // The loop runs until at least two new seconds have begun.
    while last < first + 2 {
        fs::write(server.folder().join("public/a.txt"), "beta").unwrap();
        let reply = get(&server, "/a.txt");
        last = seconds(reply.field("date").unwrap());
        let modified = reply.field("last-modified").map(seconds);
        assert!(modified.is_none_or(|modified| modified <= last), "{reply:?}");
    }
}

#[test]
fn a_file_whose_time_is_to_come_is_said_to_have_changed_now() {
    let server = site().file("public/large.txt", "a".repeat(100_000)).start();
    // The modification time is in the year 2100.
    let to_come = UNIX_EPOCH + Duration::from_secs(4_102_444_800);
    for name in ["a.txt", "large.txt"] {
        let file = File::options().write(true).open(server.folder().join("public").join(name)).unwrap();
        file.set_modified(to_come).unwrap();
        let path = format!("/{name}");
        for (fields, status) in [("", 200), ("Range: bytes=1-2\r\n", 206), ("Range: bytes=0-1,4-4\r\n", 206)]
        {
            let reply = ask(&server, "GET", &path, fields);
            let [modified, date] = ["last-modified", "date"].map(|name| seconds(reply.field(name).unwrap()));
            assert_eq!(reply.status, status);
            assert!(modified <= date && date < modified + 10, "{reply:?}");
        }
        assert_eq!(ask(&server, "GET", &path, "Range: bytes=999999-\r\n").field("last-modified"), None);
    }
}

/// Returns the seconds of an HTTP date, since 1970.
fn seconds(date: &str) -> i64 {
    let since = parse_http_date(date.as_bytes()).unwrap().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

#[test]
fn an_error_has_its_page_and_keeps_its_status() {
    let server = site()
        .file("public/404.html", "<p>gone")
        .tune(|options| options.routes.clear())
        .files("/*", |spec| {
            spec.error_pages = vec![(404, "404.html".to_owned()), (416, "no.html".to_owned())];
        })
        .start();
    let reply = get(&server, "/no");
    assert_eq!((reply.status, reply.content.as_str()), (404, "<p>gone"));
    assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!((reply.field("etag"), reply.field("last-modified")), (None, None));
    check(&server, "/404.html", 200, "<p>gone");
    let reply = ask(&server, "GET", "/a.txt", "Range: bytes=9-\r\n");
    assert_eq!((reply.status, reply.content.as_str()), (416, "the resource has no byte of this range\n"));
    assert_eq!(reply.field("content-range"), Some("bytes */5"));
}

#[test]
fn only_get_and_head_are_taken() {
    let server = site().start();
    let reply = ask(&server, "POST", "/a.txt", "Content-Length: 0\r\n");
    assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let reply = ask(&server, "OPTIONS", "/a.txt", "");
    assert_eq!((reply.status, reply.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn a_method_that_is_not_taken_is_told_with_the_fields_of_the_route() {
    let server = site()
        .tune(|options| options.routes.clear())
        .files("/*", |spec| spec.headers = vec![("X-Frame-Options".to_owned(), "DENY".to_owned())])
        .start();
    for (method, status) in [("POST", 405), ("OPTIONS", 204)] {
        let reply = ask(&server, method, "/a.txt", "Content-Length: 0\r\n");
        assert_eq!((reply.status, reply.field("x-frame-options")), (status, Some("DENY")), "{method}");
        assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
    }
}

#[test]
fn the_redirect_to_the_slash_of_a_route_has_its_fields_too() {
    let server = site()
        .files("/d/*", |spec| spec.headers = vec![("X-Frame-Options".to_owned(), "DENY".to_owned())])
        .start();
    for method in ["GET", "POST"] {
        let reply = ask(&server, method, "/d?x", "Content-Length: 0\r\n");
        assert_eq!((reply.status, reply.field("location")), (308, Some("/d/?x")), "{method}");
        assert_eq!(reply.field("x-content-type-options"), Some("nosniff"), "{method}");
        assert_eq!(reply.field("x-frame-options"), Some("DENY"), "{method}");
    }
}

#[test]
fn a_client_gets_the_coding_it_likes_and_others_are_told_that_there_are_some() {
    let server = site().file("public/a.txt.gz", "GZ").file("public/a.txt.br", "BR").start();
    let ask = |accept: &str| ask(&server, "GET", "/a.txt", &format!("Accept-Encoding: {accept}\r\n"));
    let mut etags = Vec::new();
    for (accept, content, coding) in [
        ("gzip, br", "BR", Some("br")),
        ("gzip", "GZ", Some("gzip")),
        ("zstd", "alpha", None),
        ("br;q=0", "alpha", None),
    ] {
        let reply = ask(accept);
        assert_eq!((reply.content.as_str(), reply.field("content-encoding")), (content, coding), "{accept}");
        assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
        assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
        etags.push(reply.field("etag").unwrap().to_owned());
    }
    etags.dedup();
    assert_eq!(etags.len(), 3, "{etags:?}");
    let itself = get(&server, "/a.txt.gz");
    assert_eq!(
        (itself.field("content-type"), itself.field("content-encoding")),
        (Some("application/gzip"), None)
    );
}

#[test]
fn a_variant_that_is_older_than_its_file_is_not_of_that_file() {
    let site = site().file("public/a.txt.gz", "GZ");
    let path = site.folder().join("public/a.txt.gz");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    let server = site.start();
    let reply = ask(&server, "GET", "/a.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!((reply.content.as_str(), reply.field("vary")), ("alpha", None));
}

#[test]
fn a_variant_without_a_byte_is_not_written_yet() {
    let site = site().file("public/a.txt.br", "").file("public/a.txt.gz", "GZ");
    let server = site.start();
    let reply = ask(&server, "GET", "/a.txt", "Accept-Encoding: br\r\n");
    assert_eq!((reply.content.as_str(), reply.field("content-encoding")), ("alpha", None));
    let reply = ask(&server, "GET", "/a.txt", "Accept-Encoding: br, gzip\r\n");
    assert_eq!((reply.content.as_str(), reply.field("content-encoding")), ("GZ", Some("gzip")));
}

#[test]
fn ten_thousand_files_are_all_served_and_few_descriptors_are_held() {
    let site = site();
    let folder = site.folder().join("public");
    for number in 0..10_000 {
        fs::write(folder.join(format!("{number}.txt")), number.to_string()).unwrap();
    }
    for number in 0..200 {
        fs::write(folder.join(format!("{number}.bin")), vec![0; 40 << 10]).unwrap();
    }
    let server = site.start();
    let mut peer = server.connect();
    for number in 0..10_000 {
        peer.send(format!("GET /{number}.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
        peer.expect("200", &number.to_string());
    }
    for number in 0..200 {
        peer.send(format!("HEAD /{number}.bin HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(peer.reply(true).status, 200);
    }
    let open =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let held = open.filter(|path| path.starts_with(&folder) && path != &folder).count();
    assert!((1..=128).contains(&held), "{held}");
}

#[test]
fn changes_on_disk_are_seen_at_the_next_look() {
    let site = site();
    let folder = site.folder().join("public");
    let server = site.start();
    let first = get(&server, "/a.txt");
    fs::write(folder.join("new"), "beta!").unwrap();
    fs::rename(folder.join("new"), folder.join("a.txt")).unwrap();
    let second = get(&server, "/a.txt");
    assert_eq!((first.content.as_str(), second.content.as_str()), ("alpha", "beta!"));
    assert_ne!(first.field("etag"), second.field("etag"));
    fs::remove_file(folder.join("a.txt")).unwrap();
    check(&server, "/a.txt", 404, "no resource has this path\n");
    // A new release replaces the old one.
    fs::rename(&folder, folder.with_file_name("old")).unwrap();
    let between = get(&server, "/");
    assert_eq!((between.status, between.field("retry-after")), (503, Some("1")));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("index.html"), "next").unwrap();
    check(&server, "/", 200, "next");
}
