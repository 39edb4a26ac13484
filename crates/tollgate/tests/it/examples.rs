//! The example apps: their own tests, and real clients that use them: curl and a browser.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::chromium::{checked_example, said};
use crate::example::{example, folder};
use crate::program::{App, PATIENCE, Running, eventually, follow};

/// Runs curl against the server, and returns what it printed.
fn curl(server: &Running, path: &str, arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments);
    let output = command.arg(format!("http://{}{path}", server.address())).output().unwrap();
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn count(app: &App, rows: &str) -> i64 {
    app.query(&format!("SELECT count(*) FROM {rows}"))[0]
}

#[test]
fn the_tests_of_each_example_pass() {
    for name in ["score", "collect", "events", "shop", "site"] {
        let output = App::bare(&[]).run(&["test", folder(name).to_str().unwrap()]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.ends_with(" 0 failed\n"), "{name}: {said}");
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
fn a_browser_is_counted_known_again_and_tells_when_it_leaves() {
    let check = r#"
  const first = await open("/")
  first.contentDocument.querySelector("button").click()
  first.src = "about:blank"
  await event(first, "load")
  await open("/")
  return "done"
"#;
    let app = checked_example("collect", str::to_owned, check);
    let server = app.start();
    let (browser, said) = said(&app, &server);
    assert_eq!(said, json!("done"));
    eventually("all beacons are rows", || {
        (app.has_table("events") && count(&app, "events") == 2 && count(&app, "views") == 2).then_some(())
    });
    drop(browser);
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT kind FROM events ORDER BY kind"), ["click", "leave"]);
    assert_eq!(app.query::<bool>("SELECT is_new FROM views ORDER BY at"), [true, false]);
    assert_eq!(count(&app, "(SELECT DISTINCT visitor FROM views)"), 1);
    assert_eq!(count(&app, "views WHERE page = '/' AND network = '127.0.0.0' AND agent LIKE '%Chrom%'"), 2);
}

#[test]
fn what_one_page_says_appears_on_all() {
    let check = r#"
  const pages = [await open("/"), await open("/")].map(frame => frame.contentDocument)
  for (const page of pages) await until(() => page.querySelector("output").value == "listening")
  pages[0].querySelector("input").value = "<b>hello</b>"
  pages[0].querySelector("button").click()
  const heard = page => page.querySelector("li")?.textContent
  for (const page of pages) await until(() => heard(page))
  return pages.map(heard)
"#;
    let app = checked_example("events", str::to_owned, check);
    let server = app.start();
    let (browser, said) = said(&app, &server);
    assert_eq!(said, json!(["<b>hello</b>", "<b>hello</b>"]));
    drop(browser);
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT text FROM messages"), ["<b>hello</b>"]);
}

#[test]
fn who_comes_back_hears_what_was_said_meanwhile() {
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
    // A server that drains ends what has no end of its own.
    let heard = follow(listening.stdout.take().unwrap());
    let lines: Vec<_> = (0..8).map(|_| heard.recv_timeout(PATIENCE).unwrap()).collect();
    let expected = ["event: message", "id: 2", "data: two", "", "event: message", "id: 3", "data: three", ""];
    assert_eq!(lines, expected);
    assert!(server.stop().0.success());
    assert!(listening.wait().unwrap().success());
}

#[test]
fn of_two_programs_that_change_the_same_item_one_is_told() {
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

/// The picture is made in the browser, by a canvas, and shown by it.
#[test]
fn a_browser_sends_a_picture_and_shows_it() {
    let check = r#"
  const frame = await open("/items/2")
  const form = frame.contentDocument.querySelector("form[enctype]")
  const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 30 })
  const drawn = await new Promise(done => canvas.toBlob(done, "image/png"))
  const files = new DataTransfer()
  files.items.add(new File([drawn], "my pot.png", { type: "image/png" }))
  form.elements.picture.files = files.files
  form.querySelector("button").click()
  await event(frame, "load")
  const image = frame.contentDocument.querySelector("img")
  await image.decode()
  const sent = await fetch(image.src)
  return {
    at: frame.contentDocument.location.pathname,
    shown: [image.naturalWidth, image.naturalHeight],
    kind: sent.headers.get("content-type"),
    same: (await sent.blob()).size == drawn.size,
    again: (await fetch(image.src, { headers: { "if-none-match": sent.headers.get("etag") }, cache: "no-store" })).status,
  }
"#;
    let app = checked_example("shop", str::to_owned, check);
    let server = app.start();
    let (browser, said) = said(&app, &server);
    let expected =
        json!({ "at": "/items/2", "shown": [40, 30], "kind": "image/png", "same": true, "again": 304 });
    assert_eq!(said, expected);
    drop(browser);
    assert!(server.stop().0.success());
    assert!(app.path().join("pictures/item-2.png").is_file());
    let rows = "changes WHERE status = 303 AND json_extract(item, '$.picture') = 'item-2.png'";
    assert_eq!(count(&app, rows), 1);
}

#[test]
fn a_browser_orders_once_however_often_the_form_is_sent() {
    let check = r#"
  const stock = async () => (await (await fetch("/api/items/2")).json()).stock
  const frame = await open("/")
  frame.contentDocument.querySelector("a[href='/items/2']").click()
  await event(frame, "load")
  const form = frame.contentDocument.querySelector("form")
  const title = frame.contentDocument.querySelector("h1").textContent
  form.elements.count.value = "3"
  const again = new URLSearchParams(new FormData(form))
  form.querySelector("button").click()
  await event(frame, "load")
  const page = frame.contentDocument
  const twice = await fetch("/orders", { method: "POST", body: again })
  return { title, at: page.location.pathname, says: page.querySelector("h1").textContent, twice: twice.url == page.URL, left: await stock() }
"#;
    let app = checked_example("shop", str::to_owned, check);
    let server = app.start();
    let (browser, said) = said(&app, &server);
    let expected =
        json!({ "title": "Cup & saucer", "at": "/orders", "says": "Thank you", "twice": true, "left": 37 });
    assert_eq!(said, expected);
    drop(browser);
    assert!(server.stop().0.success());
    let orders = app.query::<i64>("SELECT total_cents FROM orders WHERE key IS NOT NULL");
    assert_eq!(orders, [3 * 790]);
}
