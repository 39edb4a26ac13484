//! `tollgate check --sample` shows the records that a server would make of a captured body, and `check` notes
//! names with dots.

use crate::program::{App, printed};

const CONFIG: &str = r#"
[stream.events]
columns = [
  { name = "kind", type = "text" },
  { name = "b", type = "int", from = "record./a/b" },
  { name = "sent", type = "timestamp", from = "envelope.sentAt" },
  { name = "mail", type = "text", redact = "drop" },
]
[[route]]
path = "/batch/{team}"
collect = { items = "batch" }
stream = "events"
[[route]]
path = "/script"
script = "emit.luau"
"#;

const EMIT: &str = "return { POST = function(req)
  tollgate.emit('events', { kind = req:json().kind, a = { b = 1 } })
  return 202
end }";

const BODY: &str = r#"{"sentAt":"2026-01-01T00:00:00Z","batch":[{"kind":"x","a":{"b":7},"mail":"m"},{"kind":5,"mail":"m"}]}"#;

fn app() -> App {
    App::new(CONFIG, &[("emit.luau", EMIT), ("body.json", BODY), ("one.json", r#"{"kind":"y"}"#)])
}

#[test]
fn a_captured_body_shows_its_rows_and_rejects() {
    let output = app().run(&["check", "--sample", "body.json", "--route", "/batch/a"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let reason = r#"column "kind" takes text, found 5"#;
    let summary = format!(
        r#"{{"recorded":1,"rejected_count":1,"rejected":[{{"index":1,"reason":"{}"}}]}}"#,
        reason.replace('"', "\\\"")
    );
    let expected = [
        format!("POST /batch/a (route /batch/{{team}}): 200 {summary}"),
        r#"row 0 of events: {"kind":"x","b":7,"sent":"2026-01-01T00:00:00Z","mail":null}"#.to_owned(),
        format!(r#"reject 1 of events: {reason}: {{"kind":5,"mail":"(redacted)"}}"#),
        "1 row, 1 reject\n".to_owned(),
    ];
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected.join("\n"));
}

#[test]
fn the_only_route_with_collect_is_the_default_and_json_is_one_line() {
    let app = app();
    // The value of a capture is its own name.
    let output = app.run(&["check", "--sample", "one.json", "--json", "--type", "application/csp-report"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["route"], "/batch/{team}");
    assert_eq!((&found["status"], &found["error"]), (&200.into(), &serde_json::Value::Null));
    let record = &found["records"][0];
    assert_eq!(record["reject"], "document has no array or object at the path of items");
    assert_eq!((&record["index"], &record["stream"]), (&0.into(), &"events".into()));
}

#[test]
fn a_sample_of_a_script_shows_what_it_emits() {
    let text = app().succeed(&["check", "--sample", "one.json", "--route", "/script"]);
    let row = r#"row emitted of events: {"kind":"y","b":1,"sent":null,"mail":null}"#;
    assert_eq!(text, format!("POST /script (route /script): 202 \n{row}\n1 row, 0 rejects\n"));
}

#[test]
fn a_sample_shows_decimals_dates_and_lists() {
    let config = r#"
[stream.sales]
columns = [
  { name = "price", type = "decimal(5,2)" },
  { name = "day", type = "date" },
  { name = "tags", type = "text[]", default = '["new"]' },
]
[[route]]
path = "/"
collect = true
stream = "sales"
"#;
    let body = r#"[{"price":1.5,"day":"2026-01-31"},{"price":1.555,"tags":[]}]"#;
    let output = App::new(config, &[("body.json", body)]).run(&["check", "--sample", "body.json"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expected in [
        r#"row 0 of sales: {"price":"1.50","day":"2026-01-31","tags":["new"]}"#,
        r#"reject 1 of sales: column "price" takes decimal(5,2), found 1.555: {"price":1.555,"tags":[]}"#,
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_refusal_and_a_missing_route_are_told() {
    let app = app();
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let all = [&["check", "--sample", "body.json"], arguments].concat();
        let output = app.run(&all);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(expected), "{text}");
    };
    check(&["--type", "text/html"], 1, ": 415 content type is not supported");
    check(&["--header", "Content-Encoding: gzip"], 1, ": 400 content is not valid in its Content-Encoding");
    check(&["--route", "/none"], 1, "POST /none (no route): 404");
    check(&["--header", "x"], 2, "--header is \"x\", allowed is \"NAME: VALUE\"");
    app.configure(&format!("{CONFIG}[[route]]\npath = \"/two\"\ncollect = true\nstream = \"events\"\n"));
    check(&[], 2, "several routes have collect: choose one by --route: /batch/{team}, /two");
}

#[test]
fn check_notes_names_with_a_dot() {
    let config = r#"
[stream.s]
key = "record.event.id"
columns = [{ name = "b", type = "int", from = "record.a.b" }, { name = "c", type = "int", from = "record./a.c" }]
[[route]]
path = "/s"
collect = true
stream = "s"
"#;
    let text = printed(&App::new(config, &[]).run(&["check"]));
    for expected in [
        "note: column \"b\" of [stream.s] reads \"record.a.b\": the dot is a part of the field's name. Write \
         \"record./a/b\" for a nested field, or \"record./a.b\" for this field\n",
        "note: the key of [stream.s] reads \"record.event.id\": the dot is a part of the field's name. Write \
         \"record./event/id\" for a nested field, or \"record./event.id\" for this field\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(text.matches(" of [stream.s] reads ").count(), 2, "{text}");
}
