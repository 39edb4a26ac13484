//! Texts that try to become markup or scripts, in each place of the admin page.

use serde_json::{Map, Value, json};

use crate::devtools::{Page, View};
use crate::program::App;
use crate::replay::{Replay, reply_of, status_of};

const ATTACKS: [&str; 6] = [
    "<img src=x onerror=\"document.title='taken'\">",
    "</script><script>document.title='taken'</script>",
    "\"><svg onload=document.title='taken'>",
    "<a href=\"javascript:document.title='taken'\">x</a>",
    "{{constructor.constructor('document.title=1')()}}",
    "</style><style>*{display:none}</style>\u{202e}gpj",
];

/// Replaces each text of a status by an attack, and adds an attack to each name that peers or configurations
/// choose.
fn attacked(value: &Value, next: &mut usize) -> Value {
    let mut attack = || {
        *next += 1;
        ATTACKS[*next % ATTACKS.len()]
    };
    match value {
        Value::String(text) if text.starts_with("2026-") || text.starts_with("20") => value.clone(),
        Value::String(_) => attack().into(),
        Value::Array(items) => items.iter().map(|item| attacked(item, next)).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| (key.clone(), attacked(member, next)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Returns a status of a real server, with one item of each list that the page shows.
fn full_status(app: &App) -> Value {
    let mut status = status_of(app);
    let finding = json!({ "code": "x", "text": "x", "advice": "x" });
    status["reasons"] = json!([finding, finding]);
    status["warnings"] = json!([finding]);
    status["recent_lines"] = json!([{ "at": "2026-11-28T19:00:00Z", "level": "warn", "text": "x" }]);
    status["ships"] = json!([{ "ship": "x", "state": "x", "last_error": "x" }]);
    status["certificates"] =
        json!([{ "name": "x", "state": "x", "reason": "x", "expires_at": "x", "next_order_at": "x" }]);
    status["backends"] =
        json!([{ "backend": "x", "breaker": "x", "addresses": [{ "address": "x", "state": "x" }] }]);
    status["fetch"] = json!({ "store": "x", "state": "x", "last_error": "x", "node_count": 1 });
    status["log"]["failure"] = "x".into();
    let sink = &mut status["sinks"][0];
    sink["last_error"] = "x".into();
    status
}

#[test]
fn no_text_of_a_status_becomes_markup_or_a_script() {
    let route = "[[route]]\npath = \"/a\"\ncollect = true\nstream = \"a\"\n\
                 [stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n";
    let app = App::new(route, &[]);
    let server = app.start();
    let mut status = attacked(&full_status(&app), &mut 0);
    // These names are keys of the status.
    for (name, attack) in ["a", "b", "c"].iter().zip(ATTACKS) {
        status["refusals"][format!("{attack}{name}")] = 7.into();
        status["sinks"][0]["rejecting_streams"][format!("{attack}{name}")] =
            json!({ "rejects": 1, "rows": 2, "seconds": 3 });
        status["sinks"][0]["notes"] = json!([attack]);
        status["sinks"][0]["stopped_logs"][format!("{attack}{name}")] = attack.into();
    }
    let page = reply_of(&app, "/");
    let history = json!({ "now": "<b>", "fine": { "end": "<b>", "values": { "requests": ["<b>"] } } });
    let replay = Replay::serve(page, move || status.clone(), history);
    let mut page = Page::open(&replay.url(), View::DESKTOP);
    page.wait_for("document.querySelectorAll('#tables tbody tr').length > 30");
    let shown = page.value("document.body.innerText").as_str().unwrap().to_owned();
    for attack in ATTACKS {
        let text = attack.replace('\u{202e}', "\u{fffd}");
        assert!(shown.contains(&text), "{text} is not in {shown}");
    }
    for place in [
        "sentence",
        "remedy",
        "findings",
        "about",
        "routes",
        "sinks",
        "notes",
        "stops",
        "refusals",
        "backends",
        "log",
        "process",
        "ships",
        "certificates",
        "fetch",
        "lines",
    ] {
        let shown = page.text(place);
        let has_attack = ["taken", "display:none", "constructor"].iter().any(|part| shown.contains(part));
        assert!(has_attack, "{place}: {shown}");
    }
    let found = "[document.title.includes('taken'), document.images.length, document.scripts.length, \
                 document.querySelectorAll('style').length, document.querySelectorAll('a:not(.box)').length, \
                 [...document.querySelectorAll('*')].flatMap(element => [...element.attributes]) \
                 .filter(attribute => attribute.name.startsWith('on')).length]";
    assert_eq!(page.value(found), json!([false, 0, 1, 1, 0, 0]));
    assert!(
        page.requests().iter().all(|url| url.starts_with(&replay.url()) || url.starts_with("data:")),
        "{:?}",
        page.requests()
    );
    assert!(page.complaints().is_empty(), "{:?}", page.complaints());
    server.stop();
}
