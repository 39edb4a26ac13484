//! Tests of reloads under load. Every second configuration is broken. No request fails, and the log has each
//! refusal with its reason.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::program::{App, Running, printed};

/// Number of reloads. `make reloads` sets it to 100.
const RELOADS: usize = 32;
const CLIENTS: usize = 4;

/// Returns a configuration that is correct, or broken in one of several ways, and the text of the refusal.
fn version(number: usize) -> (String, String, Option<String>) {
    let route = |rest: &str| format!("[[route]]\npath = \"/a\"\nscript = \"a.luau\"\n{rest}");
    let script = format!("return function() return \"{number}\" end");
    match number % 8 {
        1 => {
            (route(""), format!("return function( return {number} end"), Some("does not compile".to_owned()))
        }
        3 => (
            route(&format!("bodies_{number} = 1\n")),
            script,
            Some(format!("unknown key \"bodies_{number}\"")),
        ),
        5 => (route("[[route]\n"), script, Some("tollgate.toml:".to_owned())),
        7 => (route(""), format!("error('broken {number}')"), Some(format!("broken {number}"))),
        _ => (route(""), script, None),
    }
}

#[test]
fn reloads_half_of_them_broken_fail_no_request_and_each_says_why() {
    let reloads = std::env::var("TOLLGATE_RELOADS").map_or(RELOADS, |reloads| reloads.parse().unwrap());
    let (config, script, _) = version(0);
    let app = App::new(&config, &[("a.luau", &script)]);
    let server = app.start();
    let (is_over, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| ask_until(&server, &is_over, &served))).collect();
        let reloading = thread::Builder::new();
        let storm =
            reloading.spawn_scoped(scope, || (1..=reloads).for_each(|number| reload(&app, &served, number)));
        let storm = storm.unwrap().join();
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        storm.unwrap();
    });
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let count = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count("\"message\":\"reloaded\""), reloads / 2, "{log}");
    assert_eq!(count("reload refused: the present configuration stays"), reloads / 2, "{log}");
    for number in 1..=reloads {
        if let (_, _, Some(reason)) = version(number) {
            let reason = reason.replace('"', "\\\"");
            assert!(
                log.lines().any(|line| line.contains("not reloaded: ") && line.contains(&reason)),
                "{reason}"
            );
        }
    }
}

/// Sends requests without a pause. Every request must succeed.
fn ask_until(server: &Running, is_over: &AtomicBool, served: &AtomicU64) {
    let mut client = server.connect();
    while !is_over.load(Ordering::Relaxed) {
        let reply = client.get("/a").expect("the connection stays");
        assert_eq!(reply.status, 200, "{reply:?}");
        served.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reloads once, with requests served before and after.
fn reload(app: &App, served: &AtomicU64, number: usize) {
    let (config, script, refusal) = version(number);
    app.write("a.luau", &script);
    app.configure(&config);
    let before = served.load(Ordering::Relaxed);
    let output = app.run(&["reload"]);
    match refusal {
        None => assert!(output.status.success(), "{number}: {}", printed(&output)),
        Some(reason) => {
            assert_eq!(output.status.code(), Some(2), "{number}: {}", printed(&output));
            assert!(printed(&output).contains(&reason), "{number}: {}", printed(&output));
        }
    }
    crate::program::eventually("requests are served", || {
        (served.load(Ordering::Relaxed) > before).then_some(())
    });
}
