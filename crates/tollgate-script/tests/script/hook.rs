//! Hooks: their form, and the hooks of the page "Certificates by DNS" with the replies of two providers.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_http::Method;
use tollgate_script::{FetchError, FetchRequest, Fetched, Fetcher, Fetching, Hook, Host, HostOptions};

const PAGE: &str = include_str!("../../../../docs/how-to/certificates-by-dns.md");
const NAMES: [&str; 2] = ["set", "remove"];
const RECORD: &str = "_acme-challenge.example.org";

/// The API of a provider: the method, the path with its query, and the content of a request. Returns status
/// and content of the reply.
type Api = Box<dyn Fn(Method, &str, Value) -> (u16, Value)>;

struct Provider(Api);

impl Fetcher for Provider {
    fn names(&self) -> Vec<String> {
        vec!["dns".to_owned()]
    }

    fn fetch(&self, _: &str, request: FetchRequest) -> Fetching {
        let content =
            request.content.map_or(Value::Null, |content| serde_json::from_slice(&content).unwrap());
        let (status, content) = (self.0)(request.method, &request.target, content);
        let content = Bytes::from(content.to_string());
        Box::pin(async move { Ok::<_, FetchError>(Fetched { status, fields: Vec::new(), content }) })
    }
}

fn load(text: &str) -> Result<(Host, Hook), String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dns.luau"), text).unwrap();
    let host = Host::new(HostOptions::default()).unwrap();
    let hook = host.load_hook(&folder.path().join("dns.luau"), folder.path(), &NAMES);
    Ok((host, hook.map_err(|error| error.to_string())?))
}

/// Returns the hook of a section of the page.
fn of_page(section: &str) -> String {
    let section = PAGE.split(&format!("### {section}\n")).nth(1).unwrap();
    let code = section.split("    -- dns.luau\n").nth(1).unwrap();
    let lines = code.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.strip_prefix("    ").unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Loads a hook of the page, which gets the values of the environment as literals.
fn hook_of_page(section: &str, zone: &str, api: Api) -> Hook {
    let text = of_page(section).replace("tollgate.env(\"DNS_ZONE\")", &format!("\"{zone}\""));
    let text = text.replace("tollgate.env(\"DNS_TOKEN\")", "\"sesame\"");
    let (host, hook) = load(&text).unwrap();
    host.set_fetcher(Rc::new(Provider(api)));
    hook
}

fn call(hook: &Hook, name: &str, texts: &[&str]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(hook.call(name, texts)).map_err(|error| error.to_string())
}

#[test]
fn a_hook_is_a_table_with_exactly_its_functions() {
    let fault = |text: &str| load(text).map(drop).unwrap_err();
    for (text, expect) in [
        ("return 1", "returned a number: allowed is a table with the functions set, remove"),
        ("return {}", "returned a table without set: it needs the functions set, remove"),
        ("return { set = function() end, remove = 1 }", "remove = a number: allowed is a function"),
        (
            "return { set = print, remove = print, delete = print }",
            "returned a table with a key \"delete\": allowed are set, remove",
        ),
        ("return {", "does not compile"),
        ("error('no')", "fails while it is loaded"),
    ] {
        let found = fault(text);
        assert!(found.contains(expect), "{text}: {found}");
    }
}

#[test]
fn a_call_of_a_hook_passes_texts_waits_and_fails_by_an_error() {
    let text = r#"
        local seen = {}
        return {
          set = function(name, value, more)
            tollgate.sleep(0.001)
            assert(more == nil)
            seen[name] = value
            return false, "ignored"
          end,
          remove = function(name, value) assert(seen[name] == value, "not the same") end,
        }"#;
    let (_host, hook) = load(text).unwrap();
    call(&hook, "set", &["a", "1"]).unwrap();
    call(&hook, "remove", &["a", "1"]).unwrap();
    let error = call(&hook, "remove", &["a", "2"]).unwrap_err();
    assert!(error.contains("not the same"), "{error}");
    assert!(call(&hook, "other", &[]).unwrap_err().contains("the hook has no other"));
    // After an error the next call works.
    call(&hook, "remove", &["a", "1"]).unwrap();
}

#[test]
fn the_hook_of_the_page_sets_and_removes_one_record_at_cloudflare() {
    let records: Rc<RefCell<Vec<String>>> = Rc::new(RefCell::new(vec!["\"other\"".to_owned()]));
    let known = records.clone();
    let path = "/client/v4/zones/z1/dns_records";
    let hook = hook_of_page(
        "Cloudflare",
        "z1",
        Box::new(move |method, target, content| {
            let mut records = known.borrow_mut();
            let id = target.strip_prefix(path).unwrap();
            match method {
                Method::Get => {
                    assert!(id.contains("type=TXT") && id.contains(&format!("name={RECORD}")), "{id}");
                    let record = |(id, content)| json!({ "id": format!("r{id}"), "content": content });
                    let result: Vec<_> = records.iter().enumerate().map(record).collect();
                    (200, json!({ "success": true, "result": result }))
                }
                Method::Post => {
                    assert_eq!((&content["type"], &content["name"]), (&json!("TXT"), &json!(RECORD)));
                    records.push(content["content"].as_str().unwrap().to_owned());
                    (200, json!({ "success": true }))
                }
                Method::Delete => {
                    records.remove(id.strip_prefix("/r").unwrap().parse().unwrap());
                    (200, json!({ "success": true }))
                }
                _ => (405, Value::Null),
            }
        }),
    );
    for _ in 0..2 {
        call(&hook, "set", &[RECORD, "v1"]).unwrap();
        assert_eq!(*records.borrow(), ["\"other\"", "\"v1\""]);
    }
    for _ in 0..2 {
        call(&hook, "remove", &[RECORD, "v1"]).unwrap();
        assert_eq!(*records.borrow(), ["\"other\""]);
    }
}

#[test]
fn the_hook_of_the_page_sets_and_removes_one_record_at_desec() {
    let records: Rc<RefCell<Vec<Value>>> = Rc::default();
    let known = records.clone();
    let hook = hook_of_page(
        "deSEC",
        "example.org",
        Box::new(move |method, target, content| {
            let mut records = known.borrow_mut();
            match (method, target.strip_prefix("/api/v1/domains/example.org/rrsets/").unwrap()) {
                (Method::Get, "_acme-challenge/TXT/") if records.is_empty() => (404, Value::Null),
                (Method::Get, "_acme-challenge/TXT/") => (200, json!({ "records": *records })),
                (Method::Put, "") => {
                    let set = &content[0];
                    assert_eq!((&set["subname"], &set["type"]), (&json!("_acme-challenge"), &json!("TXT")));
                    *records = set["records"].as_array().unwrap().clone();
                    (200, json!([]))
                }
                other => panic!("{other:?}"),
            }
        }),
    );
    for value in ["v1", "v2", "v2"] {
        call(&hook, "set", &[RECORD, value]).unwrap();
    }
    assert_eq!(*records.borrow(), ["\"v1\"", "\"v2\""]);
    for (value, left) in [("v1", 1), ("v1", 1), ("v2", 0)] {
        call(&hook, "remove", &[RECORD, value]).unwrap();
        assert_eq!(records.borrow().len(), left);
    }
}

#[test]
fn a_refusal_of_a_provider_is_the_error_of_the_hook_of_the_page() {
    for section in ["Cloudflare", "deSEC"] {
        let hook = hook_of_page(section, "example.org", Box::new(|_, _, _| (403, json!("token expired"))));
        let error = call(&hook, "set", &[RECORD, "v1"]).unwrap_err();
        assert!(error.contains("status 403: \"token expired\""), "{section}: {error}");
    }
}
