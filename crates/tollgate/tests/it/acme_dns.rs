//! Certificates by DNS: a hook sets records at the API of Pebble's name server.

use std::fs;
use std::net::TcpListener;

use serde_json::Value;

use crate::pebble::{Behaviour, Place, expect_served, expect_trusted};
use crate::program::{App, Running, eventually, printed};

/// A hook for the API of `pebble-challtestsrv`. The two texts are code at the end of each function.
fn hook(after_set: &str, before_remove: &str) -> String {
    format!(
        r#"
local function send(path, record)
  local reply = tollgate.fetch("dns", {{ path = path, json = record }})
  if reply.status ~= 200 then
    error(reply.message or `status {{reply.status}}`)
  end
end
return {{
  set = function(name, value)
    send("/set-txt", {{ host = name .. ".", value = value }})
    {after_set}
  end,
  remove = function(name, value)
    {before_remove}
    send("/clear-txt", {{ host = name .. "." }})
  end,
}}
"#
    )
}

fn config(place: &Place, domains: &str, keys: &str) -> String {
    let backend = format!("[backend.dns]\nurls = [\"http://{}\"]", place.provider);
    let keys = format!("challenge = \"dns-01\"\ndns = \"dns.luau\"\n{keys}\n{backend}\n");
    place.config(domains, &keys)
}

fn app(place: &Place, domains: &str, keys: &str, hook: &str) -> App {
    App::bare(&[("tollgate.toml", &config(place, domains, keys)), ("dns.luau", hook)])
}

/// Waits for a finding with this code and this text.
fn expect_finding(app: &App, code: &str, part: &str) {
    let text = eventually("the finding has a reason", || {
        let status: Value = app.succeed(&["status", "--json"]).parse().unwrap();
        let found = status["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == code)?;
        let text = found["text"].as_str().unwrap().to_owned();
        (!text.contains("the first order runs")).then_some(text)
    });
    assert!(text.contains(part), "{text}");
}

/// Waits until no record is left, neither at the provider nor in the folder.
fn expect_no_record(place: &Place, app: &App) {
    eventually("the record is removed", || {
        let left = fs::read_dir(app.path().join("data/tls/dns")).unwrap().count();
        (left == 0 && !place.has_record("_acme-challenge.a.test")).then_some(())
    });
}

fn expect_renewed(app: &App, place: &Place, server: &Running, domain: &str, name: &str) {
    let file = app.path().join("data/tls").join(format!("{}.pem", domain.replace('*', "_")));
    let before = fs::read(&file).unwrap_or_default();
    let printed = app.succeed(&["cert", "renew", domain]);
    assert!(printed.starts_with(&format!("{domain}: renewed, expires 20")), "{printed}");
    assert_ne!(fs::read(file).unwrap(), before);
    expect_trusted(place, server, name);
}

#[test]
fn a_wildcard_is_ordered_and_renewed_by_the_hook_and_its_records_are_removed() {
    let place = Place::new();
    let _pebble = place.start(Behaviour { nonces_refused: 30, ..Behaviour::default() });
    let app = app(&place, "\"*.a.test\", \"a.test\"", "dns_wait = \"0s\"", &hook("", ""));
    let server = app.start();
    for name in ["one.a.test", "two.a.test", "a.test"] {
        expect_trusted(&place, &server, name);
    }
    assert!(!place.is_trusted("x.one.a.test"), "a wildcard stands for one label");
    expect_renewed(&app, &place, &server, "*.a.test", "one.a.test");
    expect_no_record(&place, &app);
    let shown = app.succeed(&["check", "--print"]);
    assert!(shown.contains("domains = [\"*.a.test\", \"a.test\"]") && shown.contains("dns.luau"), "{shown}");
}

#[test]
fn a_hook_that_fails_is_the_reason_and_a_reload_takes_its_correction() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let hook_of = |after_set| hook(after_set, "");
    let app = app(&place, "\"*.a.test\"", "dns_wait = \"0s\"", &hook_of("error('no such zone')"));
    let server = app.start();
    expect_finding(&app, "certificate_self_signed", "dns.luau:11: no such zone");
    assert!(server.logged().contains("the hook failed"), "{}", server.logged());
    expect_no_record(&place, &app);
    expect_served(&place);
    // A hook that does not compile is refused, and the one before stays.
    app.write("dns.luau", "return {");
    let refused = app.run(&["reload"]);
    assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
    assert!(printed(&refused).contains("dns.luau does not compile"), "{}", printed(&refused));
    app.write("dns.luau", "return { set = function() end, delete = function() end }");
    let refused = printed(&app.run(&["check"]));
    assert!(refused.contains("a key \"delete\": allowed are set, remove"), "{refused}");
    app.write("dns.luau", &hook_of(""));
    let reloaded = app.succeed(&["reload"]);
    assert!(reloaded.contains("changed: script \"dns.luau\""), "{reloaded}");
    app.succeed(&["cert", "renew"]);
    expect_trusted(&place, &server, "one.a.test");
}

#[test]
fn a_hook_that_hangs_ends_at_its_deadline_and_the_server_serves_meanwhile() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("[backend.silent]\nurls = [\"http://{}\"]", silent.local_addr().unwrap());
    let keys = format!("dns_wait = \"0s\"\ndns_timeout = \"1s\"\n{hanging}");
    for (code, reason) in [
        ("tollgate.fetch('silent', {})", "it exceeds dns_timeout: limit 1000 ms"),
        ("while true do end", "script exceeds its cpu budget: limit 50 ms"),
    ] {
        let app = app(&place, "\"*.a.test\"", &keys, &hook(code, ""));
        let _server = app.start();
        expect_served(&place);
        expect_finding(&app, "certificate_self_signed", reason);
        expect_no_record(&place, &app);
        expect_served(&place);
    }
}

#[test]
fn a_record_that_cannot_be_removed_is_a_finding_and_is_removed_later() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let app = app(&place, "\"*.a.test\"", "dns_wait = \"0s\"", &hook("", "error('status 429')"));
    let server = app.start();
    expect_trusted(&place, &server, "one.a.test");
    expect_finding(&app, "dns_record_left", "remove of the record _acme-challenge.a.test failed");
    assert!(place.has_record("_acme-challenge.a.test"));
    app.write("dns.luau", &hook("", ""));
    app.succeed(&["reload"]);
    expect_no_record(&place, &app);
    eventually("the finding ends", || {
        (!app.succeed(&["status", "--json"]).contains("dns_record_left")).then_some(())
    });
}

#[test]
fn a_record_of_a_killed_server_is_removed_by_the_next_one() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let app = app(&place, "\"*.a.test\"", "dns_wait = \"1h\"", &hook("", ""));
    let server = app.start();
    eventually("the record is set", || server.has_logged("the record is set").then_some(()));
    assert!(place.has_record("_acme-challenge.a.test"));
    server.kill();
    app.write("tollgate.toml", &config(&place, "\"*.a.test\"", "dns_wait = \"0s\""));
    let server = app.start();
    expect_trusted(&place, &server, "one.a.test");
    expect_no_record(&place, &app);
}
