//! Records of requests that a route refuses with 401 or 403: `refused = true`.

use sha2::{Digest, Sha256};

use crate::client::Client;
use crate::program::{App, printed};

const CONFIG: &str = r#"
[stream.s]
key = "request.header.x-id"
columns = [
  { name = "path",   type = "text", from = "request.path" },
  { name = "agent",  type = "text", from = "request.header.user-agent" },
  { name = "who",    type = "text", from = "request.auth.name" },
  { name = "status", type = "int",  from = "reply.status" },
  { name = "bytes",  type = "int",  from = "request.body_bytes" },
  { name = "value",  type = "text" },
]
[auth.staff]
bearer = "tokens"
[[route]]
path = "/auth"
methods = ["POST"]
script = "value.luau"
stream = "s"
auth = { use = "staff", names = ["anna"] }
refused = true
cors = "*"
[[route]]
path = "/hook"
collect = true
stream = "s"
verify = { preset = "github", secret = "file:hook.key" }
refused = true
[[route]]
path = "/quiet"
reply = { body = "in" }
stream = "s"
auth = "staff"
"#;

const SCRIPT: &str = "return function() return { record = { value = 'from the script' } } end";
/// Callers and their tokens.
const TOKENS: [(&str, &str); 2] = [("anna", "anna-token"), ("bob", "bob-token")];

fn app() -> App {
    let tokens: Vec<_> = TOKENS.iter().map(|(name, token)| format!("{name}:{}\n", sha256(token))).collect();
    App::new(CONFIG, &[("value.luau", SCRIPT), ("tokens", &tokens.concat()), ("hook.key", "sesame")])
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Posts a content of four bytes. Returns the status.
fn post(client: &mut Client, path: &str, lines: &str) -> u16 {
    assert!(client.send(&format!("POST {path} HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: 4\r\n\r\ntext")));
    client.reply().unwrap().status
}

#[test]
fn a_refused_request_is_a_row_with_its_status_and_without_its_body() {
    let app = app();
    let server = app.start();
    let mut client = server.connect();
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\nX-Id: one\r\nUser-Agent: t\r\n");
    for (path, lines, status) in [
        ("/auth", bearer("anna-token").as_str(), 200),
        ("/auth", bearer("bob-token").as_str(), 403),
        ("/auth", bearer("no-token").as_str(), 401),
        ("/auth", "User-Agent: t\r\n", 401),
        ("/hook", "User-Agent: t\r\n", 401),
        ("/hook", "User-Agent: t\r\nX-Hub-Signature-256: sha256=00\r\n", 401),
        ("/hook", &format!("User-Agent: t\r\nX-Hub-Signature-256: sha256={}\r\n", "0".repeat(64)), 401),
    ] {
        assert_eq!(post(&mut client, path, lines), status, "{path} {lines}");
    }
    assert!(client.send("GET /quiet HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.reply().unwrap().status, 401);
    assert!(client.send("GET /auth HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.reply().unwrap().status, 405, "no handler has this method");
    server.stop();
    let rows = app.query::<String>(
        "SELECT path || ' ' || agent || ' ' || coalesce(who, '-') || ' ' || status || ' ' || bytes || ' ' || \
         coalesce(value, '-') FROM s ORDER BY status, path, rowid",
    );
    let refused = "/auth t - 401 0 -";
    let hook = "/hook t - 401 0 -";
    let expected =
        ["/auth t anna 200 4 from the script", refused, refused, hook, hook, hook, "/auth t - 403 0 -"];
    assert_eq!(rows, expected);
    let audit = app.succeed(&["audit"]);
    assert!(audit.contains("exact"), "{audit}");
}

#[test]
fn a_record_of_a_refusal_is_on_disk_before_its_reply() {
    let app = app();
    let server = app.start();
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(post(&mut client, "/auth", ""), 401);
    }
    server.kill();
    app.start().stop();
    assert_eq!(app.query::<i64>("SELECT count(*) FROM s WHERE status = 401"), [20]);
}

#[test]
fn tests_of_an_app_see_the_records_of_refusals() {
    let app = app();
    let test = r#"
return {
  refused = function(t)
    local reply = t:request({ method = "POST", path = "/auth", body = "text" })
    assert(reply.status == 401, reply.status)
    assert(#reply.records == 1, "a record")
    local forged = t:request({ method = "POST", path = "/hook", body = "{}", sign = "another" })
    assert(forged.status == 401 and #forged.records == 1, "a record of a forged request")
    local quiet = t:request({ path = "/quiet" })
    assert(quiet.status == 401 and #quiet.records == 0)
  end,
}
"#;
    std::fs::create_dir_all(app.path().join("tests")).unwrap();
    app.write("tests/refused.luau", test);
    let output = app.run(&["test"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn refused_needs_a_stream_and_a_check_that_can_refuse() {
    for (from, to, expect) in [
        ("stream = \"s\"\nauth = { use", "auth = { use", "refused in [[route]] needs a stream"),
        ("auth = \"staff\"", "refused = true", "refused in [[route]] has no effect without auth"),
    ] {
        let app = app();
        let config = app.config();
        assert!(config.contains(from), "{config}");
        app.write("tollgate.toml", &config.replace(from, to));
        let output = app.run(&["check"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(printed(&output).contains(expect), "{}", printed(&output));
    }
    let shown = app().succeed(&["check", "--print"]);
    assert_eq!(shown.matches("refused = true").count(), 2, "{shown}");
}
