//! Routes that validate XML: reloads of their schemas, and the tests of an app.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::client::Client;
use crate::program::{App, eventually, printed};

const CONFIG: &str = r#"
[[route]]
path = "/orders"
methods = ["POST"]
reply = { body = "taken" }
validate = { request = "schemas/order.rnc" }
"#;

const ORDER: &str = "include \"item.rnc\"\nstart = element order { item+ }\n";
const ITEM: &str = "item = element item { text }\n";
/// The fault is in line 2, column 13.
const BROKEN_ITEM: &str = "item = element item {\n  attribute }\n";
const OTHER_ITEM: &str = "item = element part { text }\n";

/// Sends a document on a kept connection. Returns the status and the content of the reply.
fn send(client: &mut Client, document: &str) -> (u16, String) {
    let length = document.len();
    assert!(client.send(&format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nAccept: application/json\r\n\
         Content-Length: {length}\r\n\r\n{document}"
    )));
    let reply = client.reply().expect("a reply");
    (reply.status, reply.content)
}

/// Checks that the first schema validates requests.
fn check_first_schema(client: &mut Client) {
    assert_eq!(send(client, "<order><item/></order>"), (200, "taken".to_owned()));
    let (status, problem) = send(client, "<order>\n<part/></order>");
    let problem: Value = serde_json::from_str(&problem).unwrap();
    assert_eq!((status, &problem["line"], &problem["column"]), (422, &2.into(), &1.into()), "{problem}");
}

/// Returns the findings with this code, and the number of refused reloads.
fn refused_reloads(app: &App) -> (Vec<Value>, u64) {
    let status: Value = serde_json::from_str(&app.succeed(&["status", "--json"])).unwrap();
    let findings = status["warnings"].as_array().unwrap();
    let found = findings.iter().filter(|finding| finding["code"] == "reload_refused");
    (found.cloned().collect(), status["config"]["reloads_refused"].as_u64().unwrap())
}

#[test]
fn a_broken_schema_is_refused_by_a_reload_and_the_schema_before_validates_on() {
    let app = App::new(CONFIG, &[("schemas/order.rnc", ORDER), ("schemas/item.rnc", ITEM)]);
    let server = app.start();
    let mut client = server.connect();
    check_first_schema(&mut client);
    let fault = format!("{}/schemas/item.rnc:2:13: ", fs::canonicalize(app.path()).unwrap().display());
    app.write("schemas/item.rnc", BROKEN_ITEM);
    for command in ["reload", "check"] {
        let output = app.run(&[command]);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {text}");
        assert!(text.contains(&fault), "{command}: {fault:?} in {text}");
    }
    check_first_schema(&mut client);
    check_first_schema(&mut server.connect());
    let (findings, count) = refused_reloads(&app);
    assert!(count == 1 && findings.len() == 1, "{findings:?}");
    assert!(findings[0].to_string().contains("schemas/item.rnc:2:13: "), "{findings:?}");
    server.signal(Signal::HUP);
    eventually("the refusal of the signal", || (refused_reloads(&app).1 == 2).then_some(()));
    check_first_schema(&mut client);
    app.write("schemas/item.rnc", OTHER_ITEM);
    assert!(app.succeed(&["reload"]).starts_with("reloaded: version 2, "));
    assert_eq!(send(&mut client, "<order><part/></order>").0, 200);
    assert_eq!(send(&mut client, "<order><item/></order>").0, 422);
    assert_eq!(refused_reloads(&app), (Vec::new(), 2));
    let (status, log) = server.stop();
    assert!(status.success() && log.contains(&fault), "{log}");
}

#[test]
fn a_server_does_not_start_with_a_broken_schema() {
    let app = App::new(CONFIG, &[("schemas/order.rnc", ORDER), ("schemas/item.rnc", BROKEN_ITEM)]);
    let output = app.run(&["serve"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("schemas/item.rnc:2:13: "), "{text}");
}

const TESTED: &str = r#"
[stream.orders]
columns = [
  { name = "id", type = "text", from = "record.id" },
  { name = "outcome", type = "text", from = "reply.outcome" },
]
[[route]]
path = "/orders"
script = "orders.luau"
stream = "orders"
validate = { request = "order.rnc", reply = "answer.rnc" }
[[route]]
path = "/streamed"
script = "streamed.luau"
validate = { reply = "answer.rnc", mode = "stream" }
[[route]]
path = "/reported"
script = "orders.luau"
validate = { request = "order.rnc", reply = "answer.rnc", mode = "report" }
"#;

/// The item `wrong` of the query makes a reply that is not valid.
const ORDERS: &str = r#"
return function(req)
  local name = if req.query.wrong then "wrong" else "answer"
  return { xml = { tag = name, attr = { id = "7" } }, record = { id = "7" } }
end
"#;

const STREAMED: &str = r#"
return function(req)
  return { headers = { ["content-type"] = "text/xml" }, write = function(out)
    out:write("<answer id='1'>")
    out:write(if req.query.wrong then "<wrong/>" else "")
    out:write("</answer>")
  end }
end
"#;

const TESTS: &str = r#"
local order = { tag = "order", { tag = "item", "tea" } }
local wrong = { tag = "order", { tag = "itme", "tea" } }

return {
  ["a valid order is answered and recorded"] = function(t)
    local reply = t:request{ path = "/orders", xml = order }
    t.equal({ reply.status, reply.record }, { 200, { id = "7" } })
  end,
  ["an invalid order gets a problem document and no record"] = function(t)
    local reply = t:request{ path = "/orders", xml = wrong, headers = { accept = "application/json" } }
    t.equal({ reply.status, reply.headers["content-type"] }, { 422, "application/problem+json" })
    local problem = reply.json
    t.equal({ problem.status, problem.path, problem.line, problem.column }, { 422, "/order", 1, 8 })
    assert(string.find(problem.detail, '"itme" is not allowed', 1, true), problem.detail)
    t.equal(reply.records, {})
    reply = t:request{ path = "/orders", xml = wrong }
    t.equal({ reply.status, reply.headers["content-type"] }, { 422, "application/problem+xml" })
  end,
  ["content that is no document gets 400 or 415"] = function(t)
    t.equal(t:request{ path = "/orders", xml = "<order>" }.status, 400)
    t.equal(t:request{ path = "/orders", json = { a = 1 } }.status, 415)
    t.equal(t:request{ method = "POST", path = "/orders" }.status, 400)
  end,
  ["an invalid reply becomes 500 and loses its record"] = function(t)
    local reply = t:request{ path = "/orders?wrong=1", xml = order }
    t.equal({ reply.status, reply.body }, { 500, "the reply is not valid\n" })
    t.equal(reply.record, {})
  end,
  ["an invalid streamed reply breaks off"] = function(t)
    t.equal(t:request{ path = "/streamed" }.error, nil)
    local reply = t:request{ path = "/streamed?wrong=1" }
    t.equal(reply.error, "the reply is not valid: it breaks off at its fault")
  end,
  ["report changes nothing"] = function(t)
    t.equal(t:request{ path = "/reported?wrong=1", xml = wrong }.status, 200)
  end,
}
"#;

#[test]
fn the_tests_of_an_app_see_refused_requests_and_replies() {
    let files = [
        ("orders.luau", ORDERS),
        ("streamed.luau", STREAMED),
        ("order.rnc", "start = element order { element item { text }+ }"),
        ("answer.rnc", "start = element answer { attribute id { xsd:integer } }"),
        ("tests/orders.luau", TESTS),
    ];
    let app = App::new(TESTED, &files);
    let output = app.run(&["test"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("6 passed, 0 failed"), "{text}");
}
