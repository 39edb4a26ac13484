//! The example apps in a real browser.

use serde_json::json;

use crate::chromium::{checked_example, said, said_elsewhere};
use crate::program::{App, eventually};

fn count(app: &App, rows: &str) -> i64 {
    app.query(&format!("SELECT count(*) FROM {rows}"))[0]
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

/// Browsers send a beacon of JSON with credentials, after a preflight.
#[test]
fn a_browser_on_another_site_sends_a_beacon_of_json() {
    let check = r#"
  const event = { id: "0190163d-8694-739b-aea5-966c26f8ad90", kind: "click", page: "/shop" }
  const blob = new Blob([JSON.stringify(event)], { type: "application/json" })
  return [location.hostname, navigator.sendBeacon(`http://127.0.0.1:${location.port}/events`, blob)]
"#;
    let app = checked_example("collect", str::to_owned, check);
    let server = app.start();
    let (browser, said) = said_elsewhere(&app, &server);
    assert_eq!(said, json!(["elsewhere.test", true]));
    eventually("the beacon is a row", || {
        (app.has_table("events") && count(&app, "events WHERE kind = 'click'") == 1).then_some(())
    });
    drop(browser);
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT page FROM events"), ["/shop"]);
}

/// The browser makes the picture with a canvas, and also shows it.
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

#[test]
fn a_message_of_one_page_appears_on_all() {
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
