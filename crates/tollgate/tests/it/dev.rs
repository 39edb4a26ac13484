//! Development: changes are served at once, and errors are shown with their source, but not to other
//! machines.

use rustix::process::Signal;

use crate::client::Client;
use crate::program::{App, Running, eventually, printed};

const APP: &str = "[[route]]\npath = \"/a\"\nscript = \"a.luau\"\n";

fn script(text: &str) -> String {
    format!("local function f(req)\n  return '{text}'\nend\nreturn f\n")
}

fn app() -> App {
    let app = App::bare(&[("app.toml", APP), ("a.luau", &script("one"))]);
    app.write("lib/x.luau", "return 1\n");
    app
}

fn start(app: &App) -> Running {
    app.start_with(&["--dev", "--listen", "127.0.0.1:0"])
}

fn get(client: &mut Client, path: &str, accept: &str) -> crate::client::Reply {
    assert!(client.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n")));
    client.reply().unwrap()
}

/// Waits until a reply has this content.
fn served(server: &Running, path: &str, content: &str) {
    let mut client = server.connect();
    eventually(content, || (client.get(path).unwrap().content == content).then_some(()));
}

/// Waits until an error page has all of these parts, and returns it.
fn shown(server: &Running, path: &str, accept: &str, parts: &[&str]) -> String {
    let mut client = server.connect();
    eventually(parts[0], || {
        let reply = get(&mut client, path, accept);
        let has_all = reply.status == 500 && parts.iter().all(|part| reply.content.contains(part));
        has_all.then_some(reply.content)
    })
}

#[test]
fn a_change_is_served_without_being_asked_for() {
    let app = app();
    let server = start(&app);
    served(&server, "/a", "one");
    let version = || app.succeed(&["reload"]);
    assert!(version().starts_with("reloaded: version 2, "), "what the server writes is no change");
    app.write("a.luau", &script("two"));
    served(&server, "/a", "two");
    // Editors write in this way: a new file replaces the old one.
    app.write("new.tmp", &script("three"));
    std::fs::rename(app.path().join("new.tmp"), app.path().join("a.luau")).unwrap();
    served(&server, "/a", "three");
    app.write("lib/x.luau", "return 'a module'\n");
    app.write("a.luau", "local x = require('lib/x')\nreturn function() return x end\n");
    served(&server, "/a", "a module");
    app.write("lib/x.luau", "return 'changed'\n");
    served(&server, "/a", "changed");
    // A folder is made, and a file is written into it.
    app.write("app.toml", &format!("{APP}[[route]]\npath = \"/b\"\nscript = \"later/deep/b.luau\"\n"));
    shown(&server, "/a", "*/*", &["script \"later/deep/b.luau\" is not a file", "app.toml:6"]);
    app.write("later/deep/b.luau", &script("later"));
    served(&server, "/b", "later");
    app.write("later/deep/b.luau", &script("much later"));
    served(&server, "/b", "much later");
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("a file changed: reloading"), "{log}");
}

#[test]
fn a_fault_of_an_app_is_shown_until_it_is_mended() {
    let app = app();
    let server = start(&app);
    served(&server, "/a", "one");
    app.write("a.luau", "return function()\n  return <b>\nend\n");
    let page = shown(&server, "/a", "text/html", &["the changed configuration has errors"]);
    assert!(
        page.contains("does not compile: line 2: ")
            && page.contains("<mark>    2    return &lt;b&gt;</mark>"),
        "{page}"
    );
    assert!(!page.contains("<b>"), "{page}");
    let json = get(&mut server.connect(), "/nowhere", "application/json");
    let json: serde_json::Value = serde_json::from_str(&json.content).unwrap();
    assert_eq!(
        (&json["faults"][0]["line"], json["faults"].as_array().unwrap().len()),
        (&2.into(), 1),
        "{json}"
    );
    app.write("app.toml", &APP.replace("path", "pth"));
    let text = shown(&server, "/a", "*/*", &["unknown key \"pth\" in [[route]], did you mean \"path\"?"]);
    assert!(text.contains(">     2 | pth = \"/a\""), "{text}");
    app.write("app.toml", APP);
    app.write("a.luau", &script("mended"));
    served(&server, "/a", "mended");
    let output = app.run(&["reload"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(server.stop().0.success());
}

#[test]
fn a_script_that_fails_shows_where_and_why_to_each_client_in_its_form() {
    let app = app();
    app.write(
        "a.luau",
        "local function fail(req)\n  error('<i>' .. req.query.why)\nend\n\nreturn function(req)\n  fail(req)\nend\n",
    );
    let server = start(&app);
    let mut client = server.connect();
    let page = get(
        &mut client,
        "/a?why=%3Cscript%3Ealert(1)%3C/script%3E",
        "text/html,application/xhtml+xml,*/*;q=0.8",
    );
    assert_eq!((page.status, page.field("content-type")), (500, Some("text/html; charset=utf-8")));
    assert_eq!(page.field("cache-control"), Some("no-store"));
    for part in [
        "a.luau:2: &lt;i&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
        "<mark>    2    error(&#39;&lt;i&gt;&#39; .. req.query.why)</mark>",
        "<h2>traceback</h2>",
        "a.luau:6",
        "<code>GET /a</code>",
    ] {
        assert!(page.content.contains(part), "{part} in {}", page.content);
    }
    assert!(!page.content.contains("<script>") && !page.content.contains("<i>"), "{}", page.content);
    let text = get(&mut client, "/a?why=x", "*/*");
    assert_eq!(text.field("content-type"), Some("text/plain; charset=utf-8"));
    assert!(
        text.content.contains("a.luau:2: <i>x\n") && text.content.contains(">     2 |   error("),
        "{}",
        text.content
    );
    let json = get(&mut client, "/a?why=x", "application/json");
    let json: serde_json::Value = serde_json::from_str(&json.content).unwrap();
    assert_eq!((&json["version"], &json["faults"][0]["line"]), (&"1".into(), &2.into()), "{json}");
    assert!(client.send("HEAD /a HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n"));
    assert_eq!(client.head().unwrap().status, 500);
    assert!(server.stop().0.success());
    // A server without `--dev` shows only this text.
    let server = app.start_with(&["--listen", "127.0.0.1:0"]);
    let page = get(&mut server.connect(), "/a?why=x", "text/html");
    assert_eq!((page.status, page.content.as_str()), (500, "the script failed\n"));
    assert!(server.stop().0.success());
}

#[test]
fn nothing_is_shown_where_strangers_may_ask() {
    let app = app();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let output = app.run(&["serve", "--dev", "--listen", listen]);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        let text = printed(&output);
        assert!(
            text.contains("--dev shows source code to every client") && text.contains("--dev-anywhere"),
            "{text}"
        );
    }
    app.write(
        "tollgate.toml",
        "[server]\nlisten = [\"127.0.0.1:0\", \"unix:x.sock\"]\n[[app]]\npath = \"/\"\ndir = \".\"\n",
    );
    let output = app.run(&["serve", "--dev"]);
    assert_eq!(output.status.code(), Some(2), "a proxy may be in front: {}", printed(&output));
    assert!(!app.path().join("data").exists(), "nothing was begun");
    let server = app.start_with(&["--dev", "--dev-anywhere"]);
    app.write("a.luau", &script("two"));
    served(&server, "/a", "two");
    assert!(server.stop().0.success());
    let output = app.run(&["serve", "--dev-anywhere"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
}

#[test]
fn tests_are_run_again_when_a_file_changes() {
    let app = app();
    let test = "return {\n  ['it is one'] = function(t)\n    t.equal(t:request{ path = '/a' }.body, 'one')\n  end,\n}\n";
    app.write("tests/a.luau", test);
    let watching = app.follow(&["test", "--watch"]);
    // The watcher may also see a half-written file.
    let until = |expected: &str| {
        let mut lines = Vec::new();
        loop {
            lines.push(watching.line());
            if lines.last().is_some_and(|line| line == "watching for changes, Ctrl-C ends") {
                if lines.iter().any(|line| line.starts_with(expected)) {
                    return lines;
                }
                lines.clear();
            }
        }
    };
    assert_eq!(
        until("ok  "),
        ["ok    tests/a.luau: it is one", "1 passed, 0 failed", "watching for changes, Ctrl-C ends"]
    );
    app.write("a.luau", &script("two"));
    assert!(until("FAIL  tests/a.luau: it is one").len() > 3);
    app.write("app.toml", "[[route]");
    until("watching");
    app.write("app.toml", APP);
    until("0 passed, 1 failed");
    app.write("tests/a.luau", &test.replace("'one')", "'two')"));
    until("1 passed, 0 failed");
    let (status, errors) = watching.end(Signal::INT);
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(errors.contains("app.toml:1:9: "), "{errors}");
    app.write("a.luau", &script("three"));
    let watching = app.follow(&["test", "--watch"]);
    eventually("it failed", || watching.line().starts_with("watching").then_some(()));
    assert_eq!(watching.end(Signal::TERM).0.code(), Some(1), "that of the last time");
}
