//! Signed webhooks: one row however often a webhook is sent, and secrets that change while the server runs.

use std::fs;

use tollgate_signature::{Hash, Hmac};

use crate::admin::get;
use crate::client::Client;
use crate::program::App;

const CONFIG: &str = r#"
[stream.deliveries]
key = "request.header.x-github-delivery"
columns = [
  { name = "delivery", type = "text", from = "request.header.x-github-delivery" },
  { name = "action", type = "text" },
]
[[route]]
path = "/hook"
collect = true
stream = "deliveries"
verify = { preset = "github", secret = ["file:new.key", "file:old.key"] }
"#;

const BODY: &str = r#"{"action":"opened"}"#;

fn app() -> App {
    App::new(CONFIG, &[("new.key", "the new sesame\n"), ("old.key", "the old sesame\n")])
}

fn deliver(client: &mut Client, secret: &str, delivery: &str) -> u16 {
    let mut mac = Hmac::new(Hash::Sha256, secret.as_bytes());
    mac.update(BODY.as_bytes());
    let code: String = mac.finish().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(client.send(&format!(
        "POST /hook HTTP/1.1\r\nHost: a\r\nX-GitHub-Delivery: {delivery}\r\nX-Hub-Signature-256: sha256={code}\r\n\
         Content-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    )));
    client.reply().unwrap().status
}

#[test]
fn a_webhook_that_is_sent_five_times_is_one_row_also_with_a_kill_between() {
    let app = app();
    let server = app.start();
    let mut client = server.connect();
    for delivery in ["one", "one", "two"] {
        assert_eq!(deliver(&mut client, "the old sesame", delivery), 200);
    }
    assert_eq!(deliver(&mut client, "another", "three"), 401);
    server.kill();
    let server = app.start();
    let mut client = server.connect();
    for delivery in ["one", "one", "one"] {
        assert_eq!(deliver(&mut client, "the new sesame", delivery), 200);
    }
    server.stop();
    assert_eq!(app.query::<String>("SELECT delivery FROM deliveries ORDER BY delivery"), ["one", "two"]);
    let audit = app.succeed(&["audit"]);
    assert!(audit.ends_with("exact: every record is pending, loaded, rejected or a duplicate\n"), "{audit}");
}

#[test]
fn a_reload_changes_the_secrets_and_no_output_has_them() {
    let app = app();
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(deliver(&mut client, "the old sesame", "one"), 200);
    fs::write(app.path().join("old.key"), "the newest sesame\n").unwrap();
    let told = app.succeed(&["reload"]);
    assert!(told.contains("changed: route \"/hook\".verify.secret: changed\n"), "{told}");
    assert_eq!(deliver(&mut client, "the old sesame", "two"), 401);
    assert_eq!(deliver(&mut client, "the newest sesame", "two"), 200);
    // A broken file is a fault, and the present secrets stay.
    fs::write(app.path().join("old.key"), "").unwrap();
    let refused = app.run(&["reload"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(deliver(&mut client, "the newest sesame", "three"), 200);
    fs::write(app.path().join("old.key"), "the newest sesame\n").unwrap();
    let printed = app.succeed(&["check", "--print"]);
    assert!(printed.contains("secret = [\"file:new.key\", \"file:old.key\"]"), "{printed}");
    let seen = [printed, told, get(&app, "/status").content, get(&app, "/metrics").content];
    let (_, log) = server.stop();
    assert!(seen.iter().chain([&log]).all(|text| !text.contains("sesame")), "{seen:?} {log}");
}
