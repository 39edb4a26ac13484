//! Upgrades of a running server: a new process takes the sockets, and the old one drains and ends.

mod duties;
mod kills;
mod load;
mod service;
mod versions;

use crate::program::{App, BINARY, eventually, printed};
use service::Service;

/// A stream whose rows have the process of their log, and a fixed reply.
const CONFIG: &str = r#"
workers = 2
connections_max = 1000
[stream.events]
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "log", type = "uuid", from = "log.id" },
]
[[route]]
path = "/collect"
collect = true
stream = "events"
[[route]]
path = "/fixed"
reply = {}
"#;

#[test]
fn an_upgrade_moves_a_server_to_a_new_process() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    let old = service.process();
    let mut client = service.connect();
    assert!(client.post("/collect", "{\"n\": 1}").unwrap().is_success());
    let text = service.upgrade(&["upgrade"]);
    assert!(text.starts_with(&format!("upgraded: process {}", service.process())), "{text}");
    assert_ne!(service.process(), old);
    assert!(service.connect().post("/collect", "{\"n\": 2}").unwrap().is_success());
    assert!(client.ends(), "the old process closes idle connections");
    service.wait_for_end_of(old);
    assert!(service.connect().post("/collect", "{\"n\": 3}").unwrap().is_success());
    let log = service.stop();
    assert!(log.contains("upgraded: the old process has ended"), "{log}");
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM events ORDER BY n"), [1, 2, 3]);
    assert_eq!(app.query::<i64>("SELECT count(DISTINCT log) FROM events"), [2]);
}

#[test]
fn a_server_can_be_upgraded_again_and_again() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    for n in 1..=4 {
        let old = service.process();
        assert!(service.connect().post("/collect", &format!("{{\"n\": {n}}}")).unwrap().is_success());
        service.upgrade(&["upgrade", BINARY]);
        service.wait_for_end_of(old);
    }
    let log = service.stop();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM events ORDER BY n"), [1, 2, 3, 4]);
}

/// Upgrades with a program that cannot take over. The server has to serve on. Returns the reason.
fn refused(service: &Service<'_>, app: &App, program: &str, code: i32) -> String {
    let output = app.run(&["upgrade", program]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(&format!("not upgraded, process {} still serves", service.process())), "{text}");
    assert!(service.connect().get("/fixed").unwrap().is_success());
    text
}

/// Writes a shell script. Returns its path.
fn script(app: &App, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    app.write(name, &format!("#!/bin/sh\n{text}\n"));
    let path = app.path().join(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_program_that_cannot_take_over_is_refused_and_the_old_one_serves_on() {
    let app = App::new(CONFIG, &[]);
    let service = Service::start(&app);
    let check = |program: &str, expected: &str| {
        let text = refused(&service, &app, program, 1);
        assert!(text.contains(expected), "{program}: {text}");
    };
    let missing = app.path().join("missing");
    check(missing.to_str().unwrap(), "cannot start");
    app.write("data.bin", "no program");
    check(app.path().join("data.bin").to_str().unwrap(), "cannot start");
    let ended = "ended before it began to upgrade, exit status: ";
    check("/bin/true", &format!("{ended}0"));
    check(&script(&app, "crashes", "kill -SEGV $$"), "ended before it began to upgrade, signal: 11");
    // A Tollgate that knows no upgrade: the lock of the log stops it.
    let without =
        script(&app, "without", &format!("unset TOLLGATE_UPGRADE; exec {BINARY} \"$@\" </dev/null"));
    check(&without, &format!("{ended}1"));
    check(&script(&app, "talks", "printf HTTP/1.1 >&0; exec sleep 100"), "sent a message of another program");
    let later =
        script(&app, "later", "printf '{\"message\":\"started\",\"version\":2,\"program\":\"9\"}' >&0");
    check(&later, "uses version 2 of the upgrade protocol, this one knows 1 to 1");
    check(
        &script(&app, "hangs", "exec sleep 1000"),
        "sent nothing for 20 s, expected was started: it was killed",
    );
    let folder = app.run(&["upgrade", "."]);
    assert_eq!(folder.status.code(), Some(2));
    assert!(printed(&folder).contains("name a configuration by --config"), "{}", printed(&folder));
    let log = service.stop();
    assert!(log.contains("upgrade refused: this process serves on"), "{log}");
}

#[test]
fn a_wrong_configuration_is_refused_with_its_faults() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    let config = app.config();
    app.write("tollgate.toml", &config.replace("collect = true", "collect = 7"));
    let text = refused(&service, &app, BINARY, 2);
    assert!(text.contains("tollgate.toml:") && text.contains("collect"), "{text}");
    app.write("tollgate.toml", &config.replace("[log]\n", "[log]\ndir = \"other\"\n"));
    let other = app.run(&["upgrade", BINARY, app.log_dir().to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(2), "{}", printed(&other));
    assert!(
        printed(&other).contains("another folder than that of the running server"),
        "{}",
        printed(&other)
    );
    app.write("tollgate.toml", &config);
    service.upgrade(&["upgrade"]);
    service.stop();
}

#[test]
fn a_signal_upgrades_too() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    let old = service.process();
    service.upgrade_by_signal();
    service.wait_for_end_of(old);
    assert!(service.connect().get("/fixed").unwrap().is_success());
    eventually("the duties are taken", || app.run(&["status"]).status.success().then_some(()));
    service.stop();
}
