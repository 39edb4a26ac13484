//! The example apps: their own tests, and curl as their client.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::example::{example, folder};
use crate::program::{App, PATIENCE, Running, follow};

/// Runs curl against the server, and returns what it printed.
fn curl(server: &Running, path: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments);
    let output = command.arg(format!("http://{}{path}", server.address())).output().unwrap();
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_tests_of_each_example_pass() {
    let all: Vec<_> = fs::read_dir(folder(".")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(all.len() >= 6, "{all:?}");
    for folder in all {
        let output = App::bare(&[]).run(&["test", folder.to_str().unwrap()]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.ends_with(" 0 failed\n"), "{}: {said}", folder.display());
        assert!(!said.starts_with("0 passed"), "{} has no tests", folder.display());
    }
}

#[test]
fn events_by_the_line_become_rows_once_however_often_they_are_sent() {
    let app = example("collect", str::to_owned);
    let server = app.start();
    let ids = ["0190163d-8694-739b-aea5-966c26f8ad90", "0190163d-8694-739b-aea5-966c26f8ad91"];
    app.write("lines", &ids.map(|id| format!("{{\"id\":\"{id}\",\"kind\":\"view\"}}\n")).concat());
    let lines = format!("@{}", app.path().join("lines").display());
    for _ in 0..2 {
        let arguments = ["-H", "Content-Type: application/x-ndjson", "--data-binary", &lines];
        assert_eq!(curl(&server, "/events", &arguments), "{\"recorded\":2}\n");
    }
    assert!(server.stop().0.success());
    app.settle();
    assert_eq!(app.query::<String>("SELECT id FROM events ORDER BY id"), ids);
}

#[test]
fn a_client_that_comes_back_gets_the_messages_that_it_missed() {
    let app = example("events", str::to_owned);
    let server = app.start();
    for text in ["one", "two", "three"] {
        let said: Value =
            serde_json::from_str(&curl(&server, "/messages", &["-d", &format!("text={text}")])).unwrap();
        assert!(said["number"].is_u64());
    }
    let mut command = Command::new("curl");
    command.args(["--silent", "--no-buffer", "-H", "Last-Event-ID: 1"]);
    let mut listening =
        command.arg(format!("http://{}/events", server.address())).stdout(Stdio::piped()).spawn().unwrap();
    // A server that drains ends the streams that do not end by themselves.
    let heard = follow(listening.stdout.take().unwrap());
    let lines: Vec<_> = (0..8).map(|_| heard.recv_timeout(PATIENCE).unwrap()).collect();
    let expected = ["event: message", "id: 2", "data: two", "", "event: message", "id: 3", "data: three", ""];
    assert_eq!(lines, expected);
    assert!(server.stop().0.success());
    assert!(listening.wait().unwrap().success());
}

#[test]
fn one_of_two_programs_that_change_the_same_item_is_refused() {
    let app = example("shop", str::to_owned);
    let server = app.start();
    let head = curl(&server, "/api/items/1", &["--head"]);
    assert!(head.contains("etag: \"v1\"") || head.contains("ETag: \"v1\""), "{head}");
    let item = r#"{"title":"Pot","price_cents":1990,"stock":3}"#;
    let put =
        ["-X", "PUT", "-H", "If-Match: \"v1\"", "--json", item, "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(&server, "/api/items/1", &put), "200");
    assert_eq!(curl(&server, "/api/items/1", &put), "412");
    assert!(server.stop().0.success());
    assert_eq!(app.query::<i64>("SELECT status FROM changes ORDER BY at"), [200, 412]);
}
