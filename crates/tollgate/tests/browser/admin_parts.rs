//! The admin page without parts of the status. An older server has no history, and a process that only loads
//! has no requests and no log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::devtools::{Page, View};
use crate::program::App;
use crate::replay::{Replay, reply_of, status_of};

const CONFIG: &str = "[[route]]\npath = \"/a\"\ncollect = true\nstream = \"a\"\n\
                      [stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n";
/// The parts that only a server has.
const OF_A_SERVER: [&str; 10] = [
    "requests",
    "connections",
    "refusals",
    "unconfirmed",
    "workers",
    "backends",
    "routes",
    "route_count",
    "log",
    "recent_lines",
];

fn without(status: &Value, parts: &[&str]) -> Value {
    let mut status = status.clone();
    for part in parts {
        status.as_object_mut().unwrap().remove(*part).unwrap();
    }
    status
}

#[test]
fn the_page_shows_a_status_without_any_one_of_its_parts() {
    let app = App::new(CONFIG, &[]);
    let server = app.start();
    let whole = status_of(&app);
    let parts: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
    let shown = Arc::new(Mutex::new(whole.clone()));
    let (answers, answer) = (Arc::new(AtomicUsize::new(0)), shown.clone());
    let counted = answers.clone();
    let status = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        answer.lock().unwrap().clone()
    };
    let replay = Replay::serve(reply_of(&app, "/"), status, Value::Null);
    let mut page = Page::open(&replay.url(), View::DESKTOP);
    page.wait_for("document.getElementById('verdict').className === 'good'");
    let mut lacks: Vec<Vec<&str>> = parts.iter().map(|part| vec![part.as_str()]).collect();
    lacks.push(OF_A_SERVER.to_vec());
    for lack in lacks {
        *shown.lock().unwrap() = without(&whole, &lack);
        // An exception of the page fails this call.
        page.value("poll()");
        let tone = page.value("document.getElementById('verdict').className");
        assert_eq!(tone, "good", "without {lack:?}");
    }
    assert!(answers.load(Ordering::Relaxed) > parts.len());
    let not_used = page.value("[...document.querySelectorAll('.box.gone')].map(box => box.id)");
    let expected = ["listen", "connections", "route", "handler", "backends", "log"];
    assert_eq!(not_used, Value::from(expected.map(|place| format!("box-{place}")).to_vec()));
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
    server.stop();
}
