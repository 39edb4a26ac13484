//! Tests of files that the whole program serves: to common clients, from slow or broken disks, and while
//! scripts run.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::client::get;
use crate::example::example;
use crate::program::{App, eventually, printed};

const ROUTE: &str = "workers = 1\n[[route]]\npath = \"/*\"\nfiles = \"public\"\n";

/// Returns text in which each part has its offset.
fn pattern(bytes: usize) -> String {
    (0..bytes / 16).map(|number| format!("{number:015x}\n")).collect()
}

#[test]
fn curl_and_wget_go_on_where_they_were_cut_off() {
    let content = pattern(3 << 20);
    let app = App::new(ROUTE, &[("public/large", &content)]);
    let server = app.start();
    let url = format!("http://{}/large", server.address());
    let clients: [(&str, &[&str]); 2] =
        [("curl", &["--silent", "--fail", "-C", "-", "-o"]), ("wget", &["--quiet", "--continue", "-O"])];
    for (client, arguments) in clients {
        let part = app.path().join(client);
        fs::write(&part, &content[..1_000_001]).unwrap();
        let status = Command::new(client).args(arguments).arg(&part).arg(&url).status().unwrap();
        assert!(status.success(), "{client}: {status}");
        assert!(fs::read_to_string(&part).unwrap() == content, "{client}");
    }
}

#[test]
fn a_page_of_an_error_that_is_not_there_is_noted() {
    let errors = "[[route]]\npath = \"/*\"\nfiles = { dir = \"public\", errors = { 404 = \"404.html\", 503 = \"503.html\" } }\n";
    // This number of connections fits the descriptor limit of every machine.
    let app = App::new(&format!("connections_max = 100\n{errors}"), &[("public/404.html", "none")]);
    let page = app.path().join("public/503.html");
    let output = app.run(&["check"]);
    assert!(output.status.success(), "{}", printed(&output));
    let expected = format!("note: the page for 503 of route \"/*\" does not exist: {}\n", page.display());
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    fs::write(page, "later").unwrap();
    assert!(app.run(&["check"]).stderr.is_empty());
}

#[test]
fn the_example_serves_its_pages_and_its_score() {
    let app = example("site", str::to_owned);
    let names = ["index.html", "about.html", "style.css", "404.html"];
    let texts = names.map(|name| fs::read_to_string(app.path().join("public").join(name)).unwrap());
    let server = app.start();
    let mut client = server.connect();
    for (path, status, kind, content) in [
        ("/", 200, "text/html; charset=utf-8", &texts[0]),
        ("/about", 200, "text/html; charset=utf-8", &texts[1]),
        ("/style.css", 200, "text/css; charset=utf-8", &texts[2]),
        ("/no/such", 404, "text/html; charset=utf-8", &texts[3]),
        ("/api/score?x=20", 200, "application/json", &"{\"score\":41}".to_owned()),
    ] {
        let reply = client.get(path).unwrap();
        assert_eq!((reply.status, &reply.content), (status, content), "{path}");
        assert_eq!(reply.field("content-type"), Some(kind), "{path}");
    }
}

#[test]
fn a_disk_that_is_slow_stops_nobody_else() {
    let app = App::new(ROUTE, &[("public/cold", &pattern(100 << 10)), ("public/warm", "warm")]);
    // The worker reads cached data by preadv2, and threads read by pread64. An injected fault makes the file
    // look uncached. The file could be cached otherwise, because the system reads ahead.
    let nothing_but_the_first = "error=EAGAIN:when=2+";
    let faults = [("pread64", "delay_enter=3000000:when=1"), ("preadv2", nothing_but_the_first)];
    let server = app.begin_with_faults(&faults).serving().unwrap();
    let (mut waiting, mut client) = (server.connect(), server.connect());
    assert_eq!(client.get("/warm").unwrap().content, "warm");
    assert!(waiting.send(&get("/cold")));
    for _ in 0..20 {
        assert_eq!(client.get("/warm").unwrap().content, "warm");
        assert!(waiting.is_silent(), "the file was there at once");
    }
    assert!(waiting.reply().unwrap().content == pattern(100 << 10));
}

#[test]
fn a_file_that_cannot_be_opened_says_why() {
    for (error, status) in
        [("EACCES", 403), ("ENOENT", 404), ("EXDEV", 404), ("EMFILE", 503), ("EIO", 500), ("EAGAIN", 503)]
    {
        let app = App::new(ROUTE, &[("public/a", "a")]);
        let server = app.begin_with_fault("openat2", &format!("error={error}")).serving().unwrap();
        assert_eq!(server.connect().get("/a").unwrap().status, status, "{error}");
    }
}

#[test]
fn a_system_that_cannot_open_beneath_a_folder_is_told_of_before_the_start() {
    for error in ["ENOSYS", "EPERM"] {
        let app = App::new(ROUTE, &[("public/a", "a")]);
        let begun = app.begin_with_fault("openat2", &format!("error={error}")).serving();
        let (status, log) = begun.map(|_| error).unwrap_err();
        assert_eq!(status.code(), Some(2), "{log}");
        assert!(log.contains("tollgate.toml:7:9: files is \"public\", but openat2 fails there"), "{log}");
        assert!(log.contains("Use Linux 5.6 or later"), "{log}");
    }
}

#[test]
fn files_that_a_release_runs_are_not_served_by_the_next_one() {
    let routes = "[[route]]\npath = \"/*\"\nfiles = \"current/public\"\n[[route]]\npath = \"/run\"\nscript = \"current/scripts/run.luau\"\n";
    let page = "a page";
    let run = "return function() return 'ran' end";
    let app = App::new(routes, &[]);
    for release in ["r1", "r2"] {
        app.write(&format!("{release}/scripts/run.luau"), run);
    }
    app.write("r1/public/page.txt", page);
    app.write("r2/scripts/page.txt", "nobody is to see this");
    symlink("scripts", app.path().join("r2/public")).unwrap();
    let (current, next) = (app.path().join("current"), app.path().join("next"));
    symlink("r1", &current).unwrap();
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(client.get("/page.txt").unwrap().content, page);
    symlink("r2", &next).unwrap();
    fs::rename(next, &current).unwrap();
    let refused =
        eventually("another folder", || client.get("/page.txt").filter(|reply| reply.content != page));
    assert_eq!((refused.status, client.get("/run.luau").unwrap().status), (503, 503));
    assert!(server.stop().1.contains("contains a path that must not be served: "));
}

#[test]
fn a_file_is_read_by_get_and_head_whatever_a_script_before_it_answers() {
    let route = "[[route]]\npath = \"/*\"\nfiles = \"public\"\nbefore = [\"take.luau\"]\nmethods = [\"GET\", \"POST\"]\n";
    let take = "return function(req) if req.path == '/taken' and req.method == 'POST' then return { status = 201 } end end";
    let app = App::new(route, &[("public/a", "a"), ("take.luau", take)]);
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(client.get("/a").unwrap().content, "a");
    assert_eq!(client.post("/taken", "").unwrap().status, 201);
    let reply = client.post("/a", "").unwrap();
    assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn a_worker_opens_nothing_that_the_system_does_not_know_without_the_disk() {
    let app = App::new(ROUTE, &[("public/a", "a"), ("public/folder/b", "b")]);
    // strace reports only calls with a fault. This delay of one microsecond has no other effect.
    let server = app.begin_with_fault("openat2", "delay_enter=1").serving().unwrap();
    let mut client = server.connect();
    for (path, status) in [("/a", 200), ("/folder/b", 200), ("/no", 404), ("/folder", 308), ("/a", 200)] {
        assert_eq!(client.get(path).unwrap().status, status, "{path}");
    }
    drop(client);
    server.stop();
    let calls = app.calls();
    // Calls of the main thread are not counted, because this thread checks before the start whether the
    // system has `openat2`.
    let (known, waited): (Vec<_>, Vec<_>) = calls
        .iter()
        .filter(|(thread, call)| thread != "tollgate" && call.starts_with("openat2("))
        .partition(|(_, call)| call.contains("RESOLVE_CACHED"));
    assert!(known.len() >= 5 && !waited.is_empty(), "{calls:?}");
    assert!(known.iter().all(|(thread, _)| thread.starts_with("worker")), "{known:?}");
    assert!(waited.iter().all(|(thread, _)| thread == "read"), "{waited:?}");
}

#[test]
fn a_request_that_waits_for_a_digest_from_a_slow_disk_stops_no_other() {
    let route =
        "workers = 1\n[[route]]\npath = \"/*\"\n[route.files]\ndir = \"public\"\netag = \"content\"\n";
    let app = App::new(route, &[("public/large", &pattern(100 << 10)), ("public/small", "small")]);
    // Threads read files by pread64. The worker reads cached data by preadv2, which has no fault.
    let server = app.begin_with_fault("pread64", "delay_enter=3000000").serving().unwrap();
    let (mut waiting, mut client) = (server.connect(), server.connect());
    assert!(waiting.send(&get("/large")));
    for _ in 0..20 {
        assert_eq!(client.get("/small").unwrap().content, "small");
        assert!(waiting.is_silent(), "the digest was there at once");
    }
    let reply = waiting.reply().unwrap();
    assert!(reply.content == pattern(100 << 10));
    assert_eq!(reply.field("etag").map(str::len), Some(45));
}
