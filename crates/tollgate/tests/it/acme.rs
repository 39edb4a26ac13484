//! Certificates by ACME, from Pebble.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::admin::{get, sample};
use crate::clocks;
use crate::pebble::{Behaviour, EXTERNAL_KEY, Place, certificates, expect_trusted};
use crate::program::{App, Running, eventually, printed};

fn app(place: &Place, domains: &str, further: &str) -> App {
    App::bare(&[("tollgate.toml", &place.config(domains, further))])
}

fn state(app: &App, file: &str) -> PathBuf {
    app.path().join("data/tls").join(file)
}

/// Returns the account file: its key, and the URL of the account.
fn account(app: &App) -> Option<Value> {
    let mut files = fs::read_dir(app.path().join("data/tls")).ok()?.map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("account-"))?;
    file.extension()
        .is_some_and(|end| end == "json")
        .then(|| fs::read_to_string(file).unwrap().parse().unwrap())
}

/// Waits until the orders of all names are done, and returns the reports.
fn settled(app: &App) -> Vec<Value> {
    eventually("all orders are done", || {
        let found = certificates(app);
        let is_done = |one: &Value| one["state"] != "self_signed" && one["requested"] == false;
        found.iter().all(is_done).then_some(found)
    })
}

#[test]
fn a_server_gets_its_certificate_by_http_and_renews_it_on_request() {
    let place = Place::new();
    let _pebble = place.start(Behaviour { nonces_refused: 50, ..Behaviour::default() });
    let app = app(&place, "\"a.test\"", "");
    let server = app.start();
    expect_trusted(&place, &server, "a.test");
    for (file, mode) in [("", 0o700), ("challenges", 0o700), ("a.test.pem", 0o600), ("lock", 0o600)] {
        let found = fs::metadata(state(&app, file)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{file}");
    }
    let found = &settled(&app)[0];
    assert_eq!(
        (&found["name"], &found["source"], &found["state"]),
        (&"a.test".into(), &"acme".into(), &"valid".into())
    );
    assert!(found["issuer"].as_str().unwrap().contains("Pebble"), "{found}");
    let before = fs::read_to_string(state(&app, "a.test.pem")).unwrap();
    let printed = app.succeed(&["cert", "renew", "a.test"]);
    assert!(printed.starts_with("a.test: renewed, expires 20"), "{printed}");
    assert_ne!(fs::read_to_string(state(&app, "a.test.pem")).unwrap(), before);
    expect_trusted(&place, &server, "a.test");
    let listed = app.succeed(&["cert", "ls"]);
    assert!(listed.contains("a.test") && listed.contains("acme") && listed.contains("valid"), "{listed}");
    let metrics = get(&app, "/metrics").content;
    assert_eq!(sample(&metrics, "tollgate_acme_orders_total{result=\"issued\"}"), 2);
    assert_eq!(sample(&metrics, "tollgate_acme_self_signed_certificates"), 0);
    assert_eq!(fs::read_dir(state(&app, "challenges")).unwrap().count(), 0, "answers are removed");
    let unknown = app.run(&["cert", "renew", "b.test"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn names_are_checked_by_tls_and_the_account_belongs_to_an_external_one() {
    let place = Place::new();
    let _pebble = place.start(Behaviour { needs_external_account: true, ..Behaviour::default() });
    let secret = "eab_key_id = \"kid-1\"\neab_hmac_key = \"file:eab.key\"\nchallenge = \"tls-alpn-01\"\n";
    let app = app(&place, "\"a.test\", \"b.test\"", secret);
    app.write("eab.key", EXTERNAL_KEY);
    let server = app.start();
    expect_trusted(&place, &server, "a.test");
    expect_trusted(&place, &server, "b.test");
    let log = server.logged();
    let shown = app.succeed(&["check", "--print"]);
    assert!(!log.contains(EXTERNAL_KEY) && !shown.contains(EXTERNAL_KEY), "{shown}\n{log}");
    assert!(shown.contains("eab_hmac_key = \"file:eab.key\""), "{shown}");
}

#[test]
fn a_server_without_its_acme_server_serves_and_orders_when_it_is_back() {
    let place = Place::new();
    let app = app(&place, "\"a.test\"", "");
    let server = app.start();
    let finding = || {
        let status: Value = app.succeed(&["status", "--json"]).parse().unwrap();
        let warnings = status["warnings"].as_array().unwrap().clone();
        warnings.into_iter().find(|warning| warning["code"] == "certificate_self_signed")
    };
    let text = eventually("the finding has the reason", || {
        let text = finding()?["text"].as_str().unwrap().to_owned();
        text.contains("order 1 failed").then_some(text)
    });
    assert!(text.contains("cannot be reached"), "{text}");
    let mut curl = Command::new("curl");
    let output = curl.args(["-sSk", &format!("https://{}/", place.tls)]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{}", printed(&output));
    let pebble = place.start(Behaviour::default());
    app.succeed(&["cert", "renew"]);
    expect_trusted(&place, &server, "a.test");
    assert!(finding().is_none());
    // Pebble forgets the account. The same key gets an account again.
    let key = account(&app).unwrap()["key"].clone();
    drop(pebble);
    let failed = app.run(&["cert", "renew"]);
    assert_eq!(failed.status.code(), Some(1), "{}", printed(&failed));
    let _pebble = place.start(Behaviour::default());
    app.succeed(&["cert", "renew"]);
    expect_trusted(&place, &server, "a.test");
    assert_eq!(account(&app).unwrap()["key"], key);
}

/// Starts a server that is killed at a call of the thread `acme`. Returns false if the order was done before.
fn is_killed_at(app: &App, call: &str, number: u32) -> bool {
    let mut server = app.begin_with_fault(call, &format!("signal=KILL:when={number}"));
    let is_killed = eventually("the kill, or the certificate", || {
        if server.has_ended() {
            return Some(true);
        }
        server.has_logged("new certificate").then_some(false)
    });
    server.kill();
    is_killed
}

#[test]
fn a_server_that_is_killed_at_any_step_keeps_its_account_and_its_keys() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let mut accounts = Vec::new();
    for call in ["connect", "fsync"] {
        let app = app(&place, "\"a.test\"", "");
        let mut kills = 0;
        let mut before = None;
        for number in 1.. {
            if !is_killed_at(&app, call, number) {
                // The kill before was behind the note of the success.
                let pem = fs::read_to_string(state(&app, "a.test.pem")).ok();
                assert_ne!(pem, before, "{call}: the certificate is the one before");
                break;
            }
            kills += 1;
            let order = fs::read_to_string(state(&app, "a.test.order.json")).ok();
            let key_before = account(&app).map(|account| account["key"].clone());
            let server = app.start();
            eventually("the order is done", || (settled(&app)[0]["failures"] == 0).then_some(()));
            assert!(place.is_trusted("a.test"), "{call} {number}");
            let now = account(&app).unwrap();
            assert!(
                key_before.is_none_or(|key| key == now["key"]),
                "{call} {number}: the account key is lost"
            );
            accounts.push((call, now["url"].as_str().unwrap().to_owned()));
            let pem = fs::read_to_string(state(&app, "a.test.pem")).unwrap();
            assert_ne!(Some(&pem), before.as_ref(), "{call} {number}: the certificate is the one before");
            if let Some(order) = order.and_then(|order| order.parse::<Value>().ok()) {
                let key = order["key"].as_str().unwrap();
                assert!(pem.contains(key.trim_end()), "{call} {number}: the key of the order is lost");
            }
            before = Some(pem);
            server.kill();
            app.succeed(&["cert", "renew"]);
        }
        assert!(kills > 5, "{call}: {kills} kills");
    }
    accounts.dedup();
    assert_eq!(accounts.len(), 2, "one account for each folder: {accounts:?}");
}

#[test]
fn a_machine_answers_for_another_one_that_shares_the_folder() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    // Pebble reaches only the first machine, and the second one orders `b.test`.
    let first = app(&place, "\"a.test\"", "");
    let server = first.start();
    let elsewhere = Place::new();
    let folder = first.path().join("data/tls");
    let config = place.config("\"b.test\"", &format!("dir = {folder:?}"));
    let config = config.replace(&place.plain.to_string(), &elsewhere.plain.to_string());
    let config = config.replace(&place.tls.to_string(), &elsewhere.tls.to_string());
    let second = App::bare(&[("tollgate.toml", &config)]);
    let other = second.start();
    expect_trusted(&place, &server, "a.test");
    settled(&second);
    // The first machine takes the certificate of the second one without an order.
    first.write("tollgate.toml", &place.config("\"a.test\", \"b.test\"", ""));
    first.succeed(&["reload"]);
    expect_trusted(&place, &server, "b.test");
    let issued =
        |app: &App| sample(&get(app, "/metrics").content, "tollgate_acme_orders_total{result=\"issued\"}");
    assert_eq!((issued(&first), issued(&second)), (1, 1));
    drop(other);
}

#[test]
fn a_clock_that_is_a_year_ahead_orders_one_certificate_and_no_further_one() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let app = app(&place, "\"a.test\"", "");
    let folder = TempDir::new().unwrap();
    let library = clocks::library(&folder);
    let start_at = |days: u64| -> Running {
        let seconds = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + days * 86_400;
        let command = clocks::command(&library, i64::try_from(seconds).unwrap());
        app.begin_as(command).serving().unwrap_or_else(|end| panic!("no start: {end:?}"))
    };
    let issued = || sample(&get(&app, "/metrics").content, "tollgate_acme_orders_total{result=\"issued\"}");
    let server = start_at(365);
    let found =
        eventually("the first order", || certificates(&app).pop().filter(|one| one["state"] == "expired"));
    assert!(found["next_order_at"].as_str() > found["expires_at"].as_str(), "{found}");
    assert_eq!(issued(), 1);
    server.kill();
    // The clock is right again: the certificate is good.
    let server = start_at(0);
    assert_eq!(settled(&app)[0]["state"], "valid");
    assert!(place.is_trusted("a.test"));
    assert_eq!(issued(), 0);
    server.kill();
    // Two thirds of its life are over.
    let before = fs::read(state(&app, "a.test.pem")).unwrap();
    let _server = start_at(70);
    eventually("the renewal", || (issued() == 1).then_some(()));
    assert_ne!(fs::read(state(&app, "a.test.pem")).unwrap(), before);
}

#[test]
fn a_certificate_is_renewed_by_itself() {
    let place = Place::new();
    let _pebble = place.start(Behaviour::default());
    let app = app(&place, "\"a.test\"", "profile = \"minute\"\n");
    let server = app.start();
    expect_trusted(&place, &server, "a.test");
    let issued = || sample(&get(&app, "/metrics").content, "tollgate_acme_orders_total{result=\"issued\"}");
    eventually("the renewal", || (issued() >= 2).then_some(()));
    expect_trusted(&place, &server, "a.test");
}

#[test]
fn faults_of_acme_name_the_key() {
    let check = |from: &str, to: &str, expect: &str| {
        let place = Place::new();
        let app = app(&place, "\"a.test\"", "");
        let config = app.config();
        assert!(config.contains(from), "{config}");
        app.write("tollgate.toml", &config.replace(from, to));
        let output = app.run(&["check"]);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        assert!(printed(&output).contains(expect), "{}", printed(&output));
    };
    check("terms_agreed = true", "terms_agreed = false", "terms_agreed in [acme] is false");
    let wildcard = "the wildcard *.a.test, which needs challenge = \"dns-01\" and a hook in dns";
    check("\"a.test\"", "\"*.a.test\"", wildcard);
    check("\"a.test\"", "\"*.*.test\"", "allowed is a host name without a port, a wildcard, or an address");
    check("terms_agreed", "challenge = \"dns-01\"\nterms_agreed", "needs a hook for the DNS provider");
    check("terms_agreed", "dns = \"dns.luau\"\nterms_agreed", "dns in [acme] has no effect");
    let dns = "challenge = \"dns-01\"\ndns = \"dns.luau\"\nterms_agreed";
    check("terms_agreed", dns, "dns.luau cannot be read");
    check("\"a.test\"", "\"a.test:443\"", "allowed is a host name without a port");
    check("\"a.test\"", "\"a.test\", \"A.test\"", "domains in [acme] has \"a.test\" twice");
    check("https://", "http://", "directory in [acme] is \"http://");
    check("me@example.com", "me", "email in [acme] is \"me\"");
    check(", tls = true", "", "[acme] has no effect, because no address of listen has tls");
    check(
        "terms_agreed",
        "eab_key_id = \"k\"\nterms_agreed",
        "eab_key_id and eab_hmac_key in [acme] belong together",
    );
    let secret = "eab_key_id = \"k\"\neab_hmac_key = \"sesame\"\nterms_agreed";
    check("terms_agreed", secret, "eab_hmac_key in [acme] is a plain text, allowed is ${NAME} or file:PATH");
}
