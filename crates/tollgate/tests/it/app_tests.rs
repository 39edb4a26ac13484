//! `tollgate test`: the tests of an app, without a server.

use std::fs;
use std::path::Path;

use crate::program::{App, printed};

const CONFIG: &str = r#"
[stream.all]
columns = [{ name = "n", type = "int", from = "record.n" }, { name = "kind", type = "text", from = "record.kind" }]
[[route]]
path = "/keep/{id}"
script = "keep.luau"
stream = "all"
[[route]]
path = "/events"
script = "events.luau"
[[route]]
path = "/collect"
collect = true
stream = "all"
[[route]]
path = "/health"
reply = { status = 200, body = "ok\n" }
[[route]]
path = "/files/*"
files = "public"
"#;

const KEEP: &str = r#"
return {
  GET = function(req)
    if req.query.fail then error("broken on purpose") end
    if req.query.wait then tollgate.sleep(0.01) end
    return {
      json = { id = req.params.id, calls = tollgate.shared.incr("calls") },
      headers = { ["set-cookie"] = { "a=1", "b=2" } },
      record = { n = req.query.n and (tonumber(req.query.n) or req.query.n) },
    }
  end,
  POST = function(req) return { json = { form = req:form(), at = req.headers["x-at"] } } end,
}
"#;

const EVENTS: &str = r#"
return function(req)
  return { events = function(out) repeat tollgate.sleep(0.01) until not out:send{ data = "x" } end }
end
"#;

fn app(tests: &str) -> App {
    App::new(
        CONFIG,
        &[("keep.luau", KEEP), ("events.luau", EVENTS), ("public/x", ""), ("tests/all.luau", tests)],
    )
}

/// Runs the tests. Returns the exit code and the whole output.
fn run(app: &App, arguments: &[&str]) -> (i32, String) {
    let output = app.run(&[&["test"], arguments].concat());
    (output.status.code().unwrap(), printed(&output))
}

/// Runs a test that must fail, with this body. Checks that the output has the expected lines.
fn check_failure(body: &str, expected: &[&str]) {
    let app = app(&format!("return {{\n  [\"it\"] = function(t)\n    {body}\n  end,\n}}\n"));
    let (code, text) = run(&app, &[]);
    assert_eq!(code, 1, "{body}: {text}");
    assert!(text.starts_with("FAIL  tests/all.luau: it\n"), "{body}: {text}");
    assert!(text.contains("\n0 passed, 1 failed\n"), "{body}: {text}");
    for line in expected {
        assert!(text.contains(&format!("\n      {line}")), "{body}: {line:?} in {text}");
    }
}

/// The clock of the test decides whether a timestamp is too old.
#[test]
fn tests_sign_requests_as_the_route_expects() {
    let config = r#"
[[route]]
path = "/stripe"
methods = ["POST"]
reply = { status = 204 }
verify = { preset = "stripe", secret = "${PATH}" }
[[route]]
path = "/twilio"
methods = ["POST"]
reply = { status = 204 }
verify = { preset = "twilio", secret = ["${PATH}", "${HOME}"] }
[[route]]
path = "/bare"
reply = { status = 204 }
"#;
    let tests = r#"
return {
  ["signed"] = function(t)
    t:clock("2026-01-31T12:00:00Z")
    t.equal(t:request{ path = "/stripe", json = { a = 1 }, sign = true }.status, 204)
    t.equal(t:request{ path = "/stripe", json = { a = 1 }, sign = tollgate.env("PATH") }.status, 204)
    t.equal(t:request{ path = "/stripe", json = { a = 1 }, sign = "other" }.status, 401)
    t.equal(t:request{ path = "/stripe", json = { a = 1 } }.status, 401)
    t.equal(t:request{ path = "/stripe", json = { a = 1 }, headers = { ["stripe-signature"] = "t=1,v1=00" } }.status, 401)
    t.equal(t:request{ path = "/twilio", form = { b = "x y", a = "1" }, sign = true }.status, 204)
  end,
  ["misused"] = function(t)
    local ok, problem = pcall(function() t:request{ path = "/bare", sign = true } end)
    assert(not ok and string.find(problem, "the route /bare has no verify", 1, true), problem)
    ok, problem = pcall(function() t:request{ path = "/stripe", sign = 1 } end)
    assert(not ok and string.find(problem, "sign is a number: allowed is true, or a secret", 1, true), problem)
  end,
}
"#;
    let config = format!("{config}[script]\nenv = [\"PATH\"]\n");
    let app = App::new(&config, &[("tests/all.luau", tests)]);
    let (code, text) = run(&app, &[]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_test_posts_xml_to_a_route_that_collects_it() {
    let config = r#"
[stream.events]
columns = [
  { name = "kind", type = "text", from = "xml:@kind" },
  { name = "n", type = "int", from = "xml:e:n" },
]
[[route]]
path = "/events"
stream = "events"
collect = { each = "/events/event", namespaces = { e = "urn:e" } }
"#;
    let tests = r#"
return {
  ["xml becomes rows"] = function(t)
    local event = { tag = "event", attr = { kind = "a" }, { tag = "n", attr = { xmlns = "urn:e" }, 7 } }
    local reply = t:request{ path = "/events", xml = { tag = "events", event, { tag = "event" } } }
    t.equal(reply.records, { { ["xml:@kind"] = "a", ["xml:e:n"] = "7" }, {} })
    reply = t:request{ path = "/events", xml = "<events><event><n xmlns='urn:e'>x</n></event></events>" }
    t.equal(reply.json.rejected_count, 1)
    t.equal(t:request{ path = "/events", xml = "<events>" }.status, 400)
  end,
}
"#;
    let app = App::new(config, &[("tests/all.luau", tests)]);
    let (code, text) = run(&app, &[]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn routes_answer_tests_as_they_answer_clients_and_nothing_is_left() {
    let app = app(r#"
local function told(t, request, status, body)
  local reply = t:request(request)
  t.equal({ reply.status, reply.body }, { status, body })
  return reply
end

return {
  ["scripts reply and record"] = function(t)
    local reply = t:request{ path = "/keep/a%20b?n=7&wait=1", headers = { ["x-at"] = "here" } }
    t.equal(reply.json, { id = "a b", calls = 1 })
    t.equal(reply.headers["content-type"], "application/json")
    t.equal(reply.headers["set-cookie"], { "a=1", "b=2" })
    t.equal({ reply.stream, reply.record, reply.reject }, { "all", { n = 7 } })
  end,
  ["each test begins anew"] = function(t)
    t.equal(tollgate.shared.get("calls"), nil)
    t.equal(t:request{ path = "/keep/1" }.json.calls, 1)
    t.equal(tollgate.shared.get("calls"), 1)
  end,
  ["forms are posted"] = function(t)
    local reply = t:request{ path = "/keep/1", form = { a = "1 2" }, headers = { ["x-at"] = "here" } }
    t.equal(reply.json, { form = { a = "1 2" }, at = "here" })
  end,
  ["head has no content"] = function(t)
    told(t, { method = "HEAD", path = "/keep/1" }, 200, "")
  end,
  ["fixed replies, and what is nowhere"] = function(t)
    told(t, { path = "/health" }, 200, "ok\n")
    told(t, { path = "/nowhere" }, 404, "no resource has this path\n")
    t.equal(told(t, { method = "PUT", path = "/health" }, 405, "this path does not allow this method\n").headers.allow, "GET, HEAD, OPTIONS")
  end,
  ["items are collected"] = function(t)
    local reply = t:request{ path = "/collect", json = { { n = 1 }, { n = "x" }, { kind = "k" } } }
    t.equal(reply.records, { { n = 1 }, { kind = "k" } })
    t.equal(reply.json.rejected_count, 1)
    t.equal(reply.reject, 'column "n" takes int, found "x"')
  end,
  ["the first events of a stream"] = function(t)
    told(t, { path = "/events" }, 200, "data: x\n\n")
  end,
  ["a failure is one that can be expected"] = function(t)
    local reply = t:request{ path = "/keep/1?fail=1" }
    t.equal(reply.status, 500)
    assert(string.find(reply.error, "keep.luau:4: broken on purpose", 1, true), reply.error)
  end,
  ["errors can be caught"] = function(t)
    assert(not pcall(function() t:request{ path = "/keep /1" } end))
  end,
}
"#);
    let (code, text) = run(&app, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.ends_with("9 passed, 0 failed\n"), "{text}");
    assert!(text.starts_with("ok    tests/all.luau: scripts reply and record\nok "), "{text}");
    assert!(!app.path().join("data").exists(), "no log, no database");
}

#[test]
fn a_difference_is_told_with_its_place_its_path_and_both_values() {
    check_failure(
        r#"t.equal({ a = { 1, { b = "x\n" } }, c = true }, { a = { 1, { b = "y" } }, d = 2 })"#,
        &[
            "tests/all.luau:3: not equal",
            r#"  a[2].b: got "x\n", want "y""#,
            "  c: got true, want nil",
            "  d: got nil, want 2",
        ],
    );
    check_failure("t.equal(1, \"1\")", &["  got 1, want \"1\""]);
    check_failure("assert(false, \"a reason\")", &["tests/all.luau:3: a reason"]);
    check_failure("error({})", &["tests/all.luau:2: a table without __tostring was raised as an error"]);
}

#[test]
fn a_failure_of_a_script_is_printed_with_the_test_that_fails() {
    check_failure(
        "t.equal(t:request{ path = \"/keep/1?fail=1\" }.status, 200)",
        &["  got 500, want 200", "GET /keep/1?fail=1: script failed: keep.luau:4: broken on purpose"],
    );
    check_failure(
        "t.equal(t:request{ path = \"/keep/1?n=x\" }.record, { n = 1 })",
        &[
            "  got nil, want { n = 1 }",
            "GET /keep/1?n=x: record rejected: column \"n\" takes int, found \"x\"",
        ],
    );
}

#[test]
fn a_wrong_request_is_a_failure_that_says_what_is_allowed() {
    check_failure(
        "t:request{ pth = \"/\" }",
        &["tests/all.luau:3: t:request has no field \"pth\": allowed are"],
    );
    check_failure(
        "t:request{ path = 7 }",
        &["tests/all.luau:3: t:request: path is a number: allowed is a string"],
    );
    check_failure("t:request{ path = \"/a b\" }", &["tests/all.luau:3: GET /a b: request line is malformed"]);
    check_failure(
        "t:request{ path = \"/\", body = \"\", json = 1 }",
        &["tests/all.luau:3: t:request has several of"],
    );
    check_failure(
        "t:request{ path = \"/\", headers = { a = \"b\\r\\nc: d\" } }",
        &["tests/all.luau:3: GET /: method, path or headers have a line break"],
    );
}

#[test]
fn files_passes_emitted_records_and_uploads_are_those_of_a_server() {
    let config = r#"
[stream.own]
columns = [{ name = "n", type = "int", from = "record.n" }]
[stream.audit]
columns = [{ name = "what", type = "text", from = "record.what" }]
[[route]]
path = "/*"
files = "public"
after = ["after.luau"]
[[route]]
path = "/app/*"
script = "app.luau"
before = ["before.luau"]
stream = "own"
file_dir = "private"
upload_dir = "up"
"#;
    let handler = r#"return function(req)
      if req.path_info == "/pass" then return tollgate.pass end
      if req.method == "POST" then
        for part in req:parts() do return tostring(part:save(part.name)) end
      end
      tollgate.emit("audit", { what = req.ctx.who })
      return { file = "report.txt", record = { n = 1 } }
    end"#;
    let tests = r#"return {
      ["all"] = function(t)
        local reply = t:request{ path = "/app/x" }
        t.equal({ reply.status, reply.body, reply.record, reply.emitted }, { 200, "report", { n = 1 }, { audit = { { what = "me" } } } })
        reply = t:request{ path = "/app/pass" }
        t.equal({ reply.status, reply.body, reply.stream }, { 200, "page", nil })
        t.equal(reply.headers["x-after"], "200")
        t.equal(t:request{ path = "/app/x", headers = { ["x-no"] = "1" } }.status, 403)
        local form = '--b\r\nContent-Disposition: form-data; name=kept\r\n\r\nabc\r\n--b--'
        reply = t:request{ path = "/app/x", body = form, headers = { ["content-type"] = "multipart/form-data; boundary=b" } }
        t.equal(reply.body, "3")
      end,
    }"#;
    let files = [
        ("app.luau", handler),
        (
            "before.luau",
            "return function(req) req.ctx.who = 'me' if req.headers['x-no'] then return 403 end end",
        ),
        (
            "after.luau",
            "return function(req, reply) return { headers = { ['x-after'] = tostring(reply.status) } } end",
        ),
        ("public/app/pass", "page"),
        ("private/report.txt", "report"),
        ("up/.keep", ""),
        ("tests/all.luau", tests),
    ];
    let app = App::new(config, &files);
    let (code, text) = run(&app, &[]);
    assert_eq!((code, text.as_str()), (0, "ok    tests/all.luau: all\n1 passed, 0 failed\n"));
    assert_eq!(fs::read_dir(app.path().join("up")).unwrap().count(), 1);
    app.succeed(&["check"]);
    let file = app.path().join("printed.toml");
    fs::write(&file, app.succeed(&["check", "--print"])).unwrap();
    let again = app.run(&["check", "--print", file.to_str().unwrap()]);
    assert_eq!(
        String::from_utf8_lossy(&again.stdout),
        fs::read_to_string(&file).unwrap(),
        "{}",
        printed(&again)
    );
}

#[test]
fn a_test_over_a_budget_ends_and_the_next_one_runs() {
    let app = app(r#"
return {
  ["time"] = function() while true do end end,
  ["memory"] = function() return string.rep("x", 100000000) end,
  ["after"] = function(t) t.equal(t:request{ path = "/health" }.status, 200) end,
}
"#);
    let (code, text) = run(&app, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("\n      tests/all.luau:3: script exceeds its cpu budget: limit 50 ms\n"),
        "{text}"
    );
    assert!(text.contains("\n      tests/all.luau:4: script exceeds its memory"), "{text}");
    assert!(text.ends_with("ok    tests/all.luau: after\n1 passed, 2 failed\n"), "{text}");
}

#[test]
fn a_filter_picks_tests_by_their_names() {
    let app = app("return { [\"one\"] = function() end, [\"two\"] = function() error(\"no\") end }");
    let (code, text) = run(&app, &["--filter", "one"]);
    assert_eq!((code, text.as_str()), (0, "ok    tests/all.luau: one\n1 passed, 0 failed\n"));
    let (code, text) = run(&app, &["--filter", "three"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("no test has \"three\" in its name"), "{text}");
}

#[test]
fn a_test_that_cannot_be_run_is_code_two_with_the_reason() {
    check_unusable(
        &app("return 5"),
        "script ./tests/all.luau returned a number: allowed is a table of functions by name",
    );
    check_unusable(&app("return { one = 1 }"), "allowed are functions by name");
    check_unusable(&app("return {"), "does not compile: line 1");
    let broken = app("return { one = function() end }");
    broken.write("keep.luau", "return true");
    check_unusable(&broken, "keep.luau returned a boolean");
    check_unusable(
        &App::new(CONFIG, &[("keep.luau", KEEP), ("events.luau", EVENTS), ("public/x", "")]),
        "cannot read ./tests: No such file",
    );
    check_unusable(&App::new("prot = 1", &[]), "tollgate.toml:");
}

fn check_unusable(app: &App, expected: &str) {
    let (code, text) = run(app, &[]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains(expected), "{expected:?} in {text}");
}

#[test]
fn prints_of_scripts_are_seen() {
    let (code, text) = run(&app("return { one = function() print(\"seen\", 1) end }"), &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(" INFO seen\t1 "), "{text:?}");
}

#[test]
fn the_tests_of_the_example_pass() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/score");
    let app = App::bare(&[]);
    let output = app.succeed(&["test", fs::canonicalize(examples).unwrap().to_str().unwrap()]);
    assert!(output.ends_with("7 passed, 0 failed\n"), "{output}");
}

#[test]
fn tests_answer_for_backends() {
    let config =
        "[backend.stock]\nurls = [\"http://127.0.0.1:1\"]\n[[route]]\npath = \"/\"\nscript = \"ask.luau\"\n";
    let ask = r#"
return function(req)
  local all = tollgate.fetch_all{ { backend = "stock", path = "/a", json = { n = 1 } }, { backend = "stock", path = "/b" } }
  return { json = { all[1].status or 0, all[1]:json() or all[1].message, all[2].error or all[2].body } }
end
"#;
    let tests = r#"
return {
  answered = function(t)
    local asked = {}
    t:backend("stock", function(req)
      table.insert(asked, req.method .. req.path .. tostring(req:json()))
      if req.path == "/a" then return { status = 201, json = { got = req:json().n } } end
      tollgate.sleep(0.001)
      return "plain"
    end)
    t.equal(t:request{ path = "/" }.json, { 201, { got = 1 }, "plain" })
    t.equal(#asked, 2)
  end,
  unanswered = function(t)
    t.equal(t:request{ path = "/" }.json[3], "unresolved")
  end,
}
"#;
    let app = App::new(config, &[("ask.luau", ask), ("tests/all.luau", tests)]);
    let (code, text) = run(&app, &[]);
    assert_eq!(code, 0, "{text}");
}
