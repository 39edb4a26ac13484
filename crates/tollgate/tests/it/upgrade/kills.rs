//! SIGKILL of either process at each step of an upgrade: the other one serves, and no answered record is
//! lost.
//!
//! The new process runs under strace, which stops or kills it at one of its messages. The messages of the
//! new process are `started`, `checked` and `serving`.

use std::fs;

use rustix::process::Signal;

use super::duties::begin_request;
use super::service::{Service, has_ended, send};
use super::{CONFIG, script};
use crate::client::Client;
use crate::program::{App, BINARY, eventually};

/// Messages of the new process before it serves.
const MESSAGES: [&str; 3] = ["started", "checked", "serving"];

/// Writes a program that is Tollgate, and that gets a signal at a message with this number.
fn program_with_signal(app: &App, signal: &str, message: usize) -> String {
    let (pid, out) = (app.path().join("pid"), app.path().join("strace.out"));
    let text = format!(
        "echo $$ >{}\nexec strace -D -f -q -o {} -e trace=sendmsg \
         -e inject=sendmsg:signal={signal}:when={message} {BINARY} \"$@\"",
        pid.display(),
        out.display()
    );
    script(app, "traced", &text)
}

/// Returns the id of the new process.
fn new_process(app: &App) -> u32 {
    eventually("the new process starts", || {
        fs::read_to_string(app.path().join("pid")).ok()?.trim().parse().ok()
    })
}

/// Returns whether strace has stopped the new process at its message.
fn is_stopped(app: &App) -> bool {
    fs::read_to_string(app.path().join("strace.out")).is_ok_and(|out| out.contains("stopped by SIGSTOP"))
}

/// Records a number, as a client that tries until it gets a success.
fn record(service: &Service<'_>, n: i64) {
    eventually("a record is answered", || {
        let reply = Client::try_connect(service.address())?.post("/collect", &format!("{{\"n\": {n}}}"))?;
        reply.is_success().then_some(())
    });
}

/// Ends the service, and checks that each number is a row.
fn expect_rows(app: &App, service: Service<'_>, rows: &[i64]) {
    service.stop();
    app.settle();
    assert_eq!(app.query::<i64>("SELECT DISTINCT n FROM events ORDER BY n"), rows);
}

#[test]
fn the_old_process_serves_on_if_the_new_one_dies_at_any_message() {
    for (message, name) in (1..).zip(MESSAGES) {
        let app = App::new(CONFIG, &[]);
        let mut service = Service::start(&app);
        record(&service, 1);
        let output = app.run(&["upgrade", &program_with_signal(&app, "KILL", message)]);
        let text = crate::program::printed(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains("signal: 9"), "{name}: {text}");
        record(&service, 2);
        service.upgrade(&["upgrade", BINARY]);
        record(&service, 3);
        expect_rows(&app, service, &[1, 2, 3]);
    }
}

#[test]
fn a_new_process_that_gets_sigterm_before_it_serves_ends_alone() {
    let app = App::new(CONFIG, &[]);
    let service = Service::start(&app);
    let upgrade = app.follow(&["upgrade", &program_with_signal(&app, "STOP", 1)]);
    let new = new_process(&app);
    eventually("the new process stops", || is_stopped(&app).then_some(()));
    send(new, Signal::TERM);
    send(new, Signal::CONT);
    let (status, text) = upgrade.wait();
    assert!(status.code() == Some(1) && text.contains("signal: 15"), "{text}");
    record(&service, 1);
    expect_rows(&app, service, &[1]);
}

#[test]
fn the_new_process_serves_if_the_old_one_dies_at_any_message() {
    for (message, name) in (1..).zip(MESSAGES) {
        let app = App::new(&CONFIG.replace("workers", "listen = [\"127.0.0.1:PORT\"]\nworkers"), &[]);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = app.config().replacen("listen = [\"127.0.0.1:0\"]\n", "", 1);
        app.write("tollgate.toml", &config.replace("PORT", &port.to_string()));
        let mut service = Service::start(&app);
        record(&service, 1);
        let program = program_with_signal(&app, "STOP", message);
        let upgrade = app.follow(&["upgrade", &program]);
        let new = new_process(&app);
        eventually(name, || is_stopped(&app).then_some(()));
        // After `serving`, the old process drains, and only the new one could answer.
        let is_yielding = name == "serving";
        if !is_yielding {
            record(&service, 2);
        }
        send(service.process(), Signal::KILL);
        service.wait_for_end_of(service.process());
        send(new, Signal::CONT);
        service.follow(new);
        record(&service, 3);
        assert!(!has_ended(new), "{name}: {}", service.logged());
        let (status, text) = upgrade.wait();
        assert!(is_yielding || status.code() == Some(1), "{name}: {text}");
        eventually("the new process takes its duties", || {
            app.run(&["status"]).status.success().then_some(())
        });
        expect_rows(&app, service, if is_yielding { &[1, 3] } else { &[1, 2, 3] });
    }
}

#[test]
fn the_new_process_loads_the_log_of_an_old_one_that_dies_while_it_drains() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    record(&service, 1);
    let mut client = begin_request(&service);
    let old = service.process();
    service.upgrade(&["upgrade"]);
    record(&service, 2);
    let again = app.run(&["upgrade"]);
    let text = crate::program::printed(&again);
    assert_eq!(again.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("process {old} of the upgrade before still drains")), "{text}");
    send(old, Signal::KILL);
    service.wait_for_end_of(old);
    assert!(client.ends());
    eventually("the rows of both logs", || {
        let is_loaded = app.has_table("events");
        (is_loaded && app.query::<i64>("SELECT n FROM events ORDER BY n") == [1, 2]).then_some(())
    });
    expect_rows(&app, service, &[1, 2]);
}

#[test]
fn the_old_process_starts_another_one_if_the_new_one_dies_while_it_drains() {
    let app = App::new(CONFIG, &[]);
    let mut service = Service::start(&app);
    record(&service, 1);
    let mut client = begin_request(&service);
    let old = service.process();
    service.upgrade(&["upgrade"]);
    record(&service, 2);
    send(service.process(), Signal::KILL);
    record(&service, 3);
    service.follow_the_log("the program of this process serves again");
    assert!(client.send("  4}"), "the old process still serves its last connection");
    let reply = client.reply().unwrap();
    assert!(reply.is_success(), "{}", reply.head);
    service.wait_for_end_of(old);
    record(&service, 5);
    expect_rows(&app, service, &[1, 2, 3, 4, 5]);
}
