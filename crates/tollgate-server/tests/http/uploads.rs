//! Tests of forms that scripts read part by part, from memory and from the spool, and of the files that
//! scripts save.

use std::fs;
use std::path::PathBuf;

use tollgate_server::Uploads;

use crate::peer::Reply;
use crate::site::{Running, Site};

/// Bytes of a body that is too long to be held in memory.
const LONG: usize = 3 << 20;

fn part(head: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n");
    [head.as_bytes(), content, b"\r\n"].concat()
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [&parts.concat()[..], b"--b--\r\n"].concat()
}

fn head_of(target: &str, bytes: usize) -> String {
    let kind = "multipart/form-data; boundary=b";
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n")
}

fn post(server: &Running, target: &str, body: &[u8]) -> Reply {
    let mut peer = server.connect();
    peer.send(head_of(target, body.len()));
    peer.send_all(body);
    peer.reply(false)
}

/// Returns the site. The last script of the site may save files into `up`.
fn saving(site: Site) -> Site {
    let dir = site.folder().join("up");
    fs::create_dir_all(&dir).unwrap();
    site.tune_route(|route| {
        route.access.uploads = Some(Uploads { dir, reserve_bytes: 0 });
        route.body_bytes_max = 64 << 20;
    })
}

fn saved(server: &Running) -> Vec<String> {
    let entries = fs::read_dir(server.folder().join("up")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns content that differs at each position.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_script_sees_each_part_in_its_order() {
    let body = "local seen = {}
        for part in req:parts() do
            table.insert(seen, {
                name = part.name, filename = part.filename, type = part.content_type,
                header = part.headers['x-mine'], text = part:text(), more = part:read() == nil,
            })
        end
        return { json = seen }";
    let server = Site::new().handler("/", body).tune_route(|route| route.body_bytes_max = 64 << 20).start();
    let long = "y".repeat(LONG / 4);
    for content in ["", "hello", &long] {
        let parts = [
            part("name=\"a\"", b"one"),
            part("name=\"b\"; filename=\"f.txt\"\r\nContent-Type: text/x\r\nX-Mine: me", content.as_bytes()),
            part("name=\"a\"", b""),
        ];
        let reply = post(&server, "/", &form(&parts));
        let expect = format!(
            "[{{\"more\":true,\"name\":\"a\",\"text\":\"one\"}},\
             {{\"filename\":\"f.txt\",\"header\":\"me\",\"more\":true,\"name\":\"b\",\"text\":\"{content}\",\"type\":\"text/x\"}},\
             {{\"more\":true,\"name\":\"a\",\"text\":\"\"}}]"
        );
        assert!(
            reply.content == expect,
            "{} {}",
            reply.status,
            &reply.content[..reply.content.len().min(300)]
        );
    }
}

#[test]
fn parts_that_a_script_does_not_read_are_passed_over() {
    let body = "local names = {}
        for part in req:parts() do
            table.insert(names, part.name)
            if part.name == 'b' then part:read() end
            if part.name == 'c' then break end
        end
        return table.concat(names)";
    let server = Site::new().handler("/", body).tune_route(|route| route.body_bytes_max = 64 << 20).start();
    let long = content(LONG);
    let parts = ["a", "b", "c", "d"].map(|name| part(&format!("name={name}"), &long));
    assert_eq!(post(&server, "/", &form(&parts)).content, "abc");
}

#[test]
fn a_part_that_is_saved_is_the_file_that_was_sent() {
    let body = "local told = {}
        for part in req:parts() do
            local bytes, problem = part:save(part.filename, { sync = req.query.sync ~= 'no' })
            table.insert(told, tostring(bytes) .. ' ' .. tostring(problem))
        end
        return table.concat(told, ', ')";
    let server = saving(Site::new().handler("/", body)).start();
    let (short, long) = (content(5), content(LONG));
    let parts = [part("name=a; filename=short", &short), part("name=b; filename=long", &long)];
    assert_eq!(post(&server, "/", &form(&parts)).content, format!("5 nil, {LONG} nil"));
    let parts = [part("name=a; filename=small", &short), part("name=a; filename=empty", b"")];
    assert_eq!(post(&server, "/?sync=no", &form(&parts)).content, "5 nil, 0 nil");
    assert_eq!(saved(&server), ["empty", "long", "short", "small"]);
    let up = server.folder().join("up");
    assert!(fs::read(up.join("long")).unwrap() == long);
    assert_eq!(fs::read(up.join("small")).unwrap(), short);
}

#[test]
fn a_file_that_is_there_stays_unless_the_script_says_otherwise() {
    let body = "for part in req:parts() do
            local bytes, problem = part:save('x', { overwrite = req.query.over == 'yes' })
            if not bytes and req.query.again then bytes, problem = part:save(req.query.again) end
            return `{bytes} {problem}`
        end";
    let server = saving(Site::new().handler("/", body)).start();
    let up = server.folder().join("up");
    for (content, target, expect, left) in [
        ("one", "/", "3 nil", "one"),
        ("two", "/", "nil a file with this name exists", "one"),
        ("three", "/?over=yes", "5 nil", "three"),
        ("four", "/?again=y", "4 nil", "three"),
    ] {
        let reply = post(&server, target, &form(&[part("name=a", content.as_bytes())]));
        assert_eq!(reply.content, expect, "{target}");
        assert_eq!(fs::read_to_string(up.join("x")).unwrap(), left, "{target}");
    }
    assert_eq!(fs::read_to_string(up.join("y")).unwrap(), "four");
    assert_eq!(saved(&server), ["x", "y"]);
}

/// If invalid bytes were replaced by U+FFFD, different files would have the same name.
#[test]
fn names_that_are_not_utf8_are_refused() {
    let body = "for part in req:parts() do
            local bytes, problem = part:save(part.filename, { overwrite = true })
            return `{bytes} {problem}`
        end";
    let server = saving(Site::new().handler("/", body)).start();
    for name in [&b"\xff"[..], b"\xfe", b"a/\xc3", b"\xed\xa0\x80"] {
        let part = [b"--b\r\nContent-Disposition: form-data; name=a; filename=\"", name, b"\"\r\n\r\nx\r\n"]
            .concat();
        assert_eq!(post(&server, "/", &form(&[part])).content, "nil the name is not UTF-8", "{name:?}");
    }
    assert_eq!(saved(&server), [""; 0]);
}

#[test]
fn nothing_is_saved_outside_of_the_folder() {
    let body = "for part in req:parts() do
            local bytes, problem = part:save(part.filename)
            return `{bytes} {problem}`
        end";
    let server = saving(Site::new().handler("/", body)).start();
    let up = server.folder().join("up");
    fs::create_dir(up.join("sub")).unwrap();
    fs::create_dir(up.join("taken")).unwrap();
    std::os::unix::fs::symlink(server.folder(), up.join("out")).unwrap();
    let check = |name: &str, expect: &str| {
        let head = format!("name=a; filename=\"{name}\"");
        let reply = post(&server, "/", &form(&[part(&head, b"x")]));
        assert!(reply.content.starts_with(expect), "{name}: {} {}", reply.status, reply.content);
    };
    for name in
        ["", ".", "..", "../x", "/x", "sub/../../x", "sub//x", ".x", "sub/.x", "a\tb", &"n".repeat(256)]
    {
        check(name, "nil the name is not allowed");
    }
    check("out/x", "nil there is no folder with the name \"out\"");
    check("absent/x", "nil there is no folder with the name \"absent\"");
    check("taken", "nil a file with this name exists");
    check("sub/x", "1 nil");
    assert_eq!(saved(&server), ["out", "sub", "taken"]);
    let outside: Vec<PathBuf> =
        fs::read_dir(server.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!outside.iter().any(|path| path.ends_with("x")), "{outside:?}");
}

#[test]
fn a_fault_of_a_form_is_in_the_reply_to_its_client() {
    let body = "for part in req:parts{ count_max = 2, part_bytes_max = 100 } do
            if req.query.text then part:text(10) end
        end
        return 'fine'";
    let server = Site::new().handler("/", body).start();
    let check = |target: &str, body: &[u8], status: u16, expect: &str| {
        let reply = post(&server, target, body);
        assert_eq!((reply.status, reply.content.trim_end()), (status, expect));
    };
    let short = part("name=a", b"x");
    check("/", &form(&[short.clone(), short.clone()]), 200, "fine");
    check(
        "/",
        &form(&[short.clone(), short.clone(), short.clone()]),
        413,
        "parts of the form exceed limit: limit 2 parts",
    );
    check(
        "/",
        &form(&[part("name=a", &[b'x'; 101])]),
        413,
        "a part of the form exceeds limit: limit 100 bytes",
    );
    check(
        "/?text=1",
        &form(&[part("name=a", &[b'x'; 11])]),
        413,
        "a part of the form exceeds limit: limit 10 bytes",
    );
    check("/", &short, 400, "form ends before its last boundary");
    check("/", b"hello", 400, "form does not begin with its boundary");
    check(
        "/",
        &form(&[part("filename=a", b"x")]),
        400,
        "header of a part of the form has no name parameter, at byte 6",
    );
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    server.check(request, "415", "the body is not multipart/form-data\n");
}

#[test]
fn a_script_may_answer_a_wrong_form_itself() {
    let body = "local ok, problem = pcall(function() for part in req:parts() do end end)
        return { status = 422, body = string.match(tostring(problem), 'form .*boundary') }";
    let server = Site::new().handler("/", body).start();
    let reply = post(&server, "/", b"--b\r\n");
    assert_eq!((reply.status, &*reply.content), (422, "form ends before its last boundary"));
}

#[test]
fn a_part_is_read_while_the_form_stands_at_it() {
    let server = Site::new()
        .handler("/over", "local kept for part in req:parts() do kept = kept or part end return kept:text()")
        .handler("/twice", "req:parts() for part in req:parts() do end return 'fine'")
        .handler("/name", "for part in req:parts() do return part.nam end")
        .handler("/save", "for part in req:parts() do part:save('x') end return 'fine'")
        .start();
    for path in ["/over", "/twice", "/name", "/save"] {
        assert_eq!(
            post(&server, path, &form(&[part("name=a", b"x"), part("name=b", b"x")])).status,
            500,
            "{path}"
        );
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_no_unfinished_file() {
    let body = "for part in req:parts() do part:save(part.filename) end return 'fine'";
    let server = saving(Site::new().handler("/", body)).start();
    let long = content(LONG * 4);
    let whole = form(&[part("name=a; filename=a", &long), part("name=b; filename=b", &long)]);
    for sent in [LONG, LONG * 6, whole.len()] {
        let mut peer = server.connect();
        peer.send(head_of("/", whole.len()));
        peer.send_all(&whole[..sent]);
        peer.reset();
    }
    let folder = server.drain();
    for entry in fs::read_dir(folder.path().join("up")).unwrap() {
        let entry = entry.unwrap();
        assert!(["a", "b"].map(Into::into).contains(&entry.file_name()), "{entry:?}");
        assert_eq!(entry.metadata().unwrap().len(), long.len() as u64);
    }
}
