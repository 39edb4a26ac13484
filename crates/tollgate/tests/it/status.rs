//! `tollgate status`, and the server's own log lines about a sink that is behind.

use std::net::TcpListener;

use rusqlite::Connection;
use rustix::process::Signal;
use tollgate_faults::{Backend, Fault};

use crate::admin::{get, sample};
use crate::program::{App, eventually, printed};
use crate::sinks::{OTHERS_LOAD, app, record};

/// Returns the line of the sink in `tollgate status --json`, if it has all of these texts.
fn status_with(app: &App, expected: &[&str]) -> Option<String> {
    let line = app.succeed(&["status", "--json"]);
    expected.iter().all(|part| line.contains(part)).then_some(line)
}

#[test]
fn a_sink_that_is_behind_is_told_by_status_and_by_the_log_until_it_caught_up() {
    let app = app("[load]\nlag_max = \"100ms\"\n");
    std::fs::create_dir(app.path().join("data")).unwrap();
    let blocker = Connection::open(app.path().join("data/tollgate.sqlite")).unwrap();
    let server = app.start();
    record(&mut server.connect(), "/a", 0..100);
    eventually("all is loaded", || {
        status_with(
            &app,
            &["\"state\":\"caught up\"", "\"rows\":100,", "\"lag_seconds\":0.0", "\"last_error\":null"],
        )
    });
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    record(&mut server.connect(), "/a", 100..200);
    let behind = [
        "\"sink\":\"main\"",
        "\"state\":\"retrying\"",
        "\"lag_segments\":1,",
        "is locked by another program",
    ];
    let line = eventually("it is behind", || status_with(&app, &behind).filter(|line| lag_of(line) > 0.1));
    assert!(!line.contains("\"lag_bytes\":0,") && !line.contains("\"backoff_seconds\":0.0,"), "{line}");
    let screen = app.succeed(&["status"]);
    assert!(screen.starts_with("READY, WITH WARNINGS   tollgate "), "{screen}");
    assert!(screen.contains("\nsink  state") && screen.contains("\nmain  retrying, "), "{screen}");
    assert!(screen.contains("\nWARNING: sink main takes no rows: database "), "{screen}");
    assert!(screen.contains("\n  -> check what the error names, usually the database"), "{screen}");
    // The loader checks its backlog once a second.
    eventually("it is behind for longer than that", || {
        status_with(&app, &behind).filter(|line| lag_of(line) > 1.5)
    });
    blocker.execute_batch("COMMIT").unwrap();
    eventually("it caught up", || status_with(&app, &["\"state\":\"caught up\"", "\"rows\":200,"]));
    let (_, log) = server.stop();
    let told = log.lines().find(|line| line.contains("\"the sink is behind\"")).expect(&log);
    for field in [
        "sink",
        "lag_seconds",
        "lag_bytes",
        "lag_segments",
        "rows",
        "rejects",
        "duplicates",
        "missing",
        "last_error",
    ] {
        assert!(told.contains(&format!("\"{field}\":")), "{field}: {told}");
    }
    assert!(log.contains("\"the sink caught up\""), "{log}");
}

/// Returns the lag in a line of status.
fn lag_of(line: &str) -> f64 {
    let (_, rest) = line.split_once("\"lag_seconds\":").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_loader_in_another_process_is_in_the_status_of_the_server_while_it_lives() {
    let app = app(OTHERS_LOAD);
    let server = app.start();
    record(&mut server.connect(), "/a", 0..100);
    assert!(status_with(&app, &["\"sink\":\"main\",\"state\":\"no loader\"}"]).is_some());
    let loader = app.follow(&["load"]);
    eventually("it reports", || status_with(&app, &["\"state\":\"caught up\"", "\"rows\":100,"]));
    loader.end(Signal::KILL);
    eventually("it is gone", || status_with(&app, &["\"state\":\"no loader\""]));
    server.stop();
    let server = app.start_with(&["--no-load"]);
    let output = app.run(&["status"]);
    assert!(
        output.status.success() && printed(&output).contains("it was started with --no-load"),
        "{}",
        printed(&output)
    );
    server.stop();
    for path in [".", "data/log"] {
        let output = app.run(&["status", path]);
        assert_eq!(output.status.code(), Some(1));
        assert!(printed(&output).contains("no server answers at "), "{}", printed(&output));
    }
}

#[test]
fn a_watch_without_a_server_says_where_it_would_be_and_why_its_configuration_fails() {
    let app = app("");
    let config = app.config();
    app.write("tollgate.toml", &config.replace("[log]\n", "[log]\ndir = \"later/log\"\n"));
    let nobody = format!("no server answers at {}", app.path().join("later/log/control.sock").display());
    let output = app.run(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains(&nobody), "{}", printed(&output));
    app.write("tollgate.toml", &config.replace("[log]\n", "[log]\ndir = \"later/log\"\nretian = 1\n"));
    let watching = app.follow(&["status", "--watch"]);
    assert_eq!(watching.line(), format!("{nobody}: trying again"));
    let fault = watching.line();
    assert!(fault.contains("tollgate.toml:") && fault.contains("did you mean \"retain\"?"), "{fault}");
    watching.end(Signal::KILL);
    // The server of a configuration is asked even if the text of the file is not UTF-8.
    let broken = [app.config().as_bytes(), b"# \xff\n"].concat();
    std::fs::write(app.path().join("tollgate.toml"), broken).unwrap();
    assert!(printed(&app.run(&["status"])).contains(&nobody));
}

#[test]
fn a_server_that_hangs_is_not_taken_for_one_that_is_not_there() {
    let app = app("");
    let server = app.start();
    server.signal(Signal::STOP);
    let output = app.run(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("process {}, has not answered for 1 s", server.id());
    assert!(printed(&output).contains(&expected), "{}", printed(&output));
    server.signal(Signal::CONT);
    assert!(app.succeed(&["status"]).starts_with("ALL WELL"));
    server.stop();
}

#[test]
fn a_reload_that_takes_long_tells_on_whom_it_waits() {
    let app = app("");
    let server = app.start();
    server.signal(Signal::STOP);
    let asking = app.follow(&["reload"]);
    let expected = format!("control.sock, process {}, which reloads, hangs", server.id());
    eventually("it tells on whom it waits", || asking.has_printed(&expected).then_some(()));
    server.signal(Signal::CONT);
    let (status, told) = asking.wait();
    assert!(status.success(), "{told}");
    server.stop();
}

#[test]
fn an_address_of_several_that_is_dead_and_a_name_that_is_missing_are_told() {
    let sound = Backend::start(Fault::None).unwrap();
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let urls =
        format!("[\"http://{dead}\", \"http://{}\", \"http://no-such-host.invalid\"]", sound.address());
    let app = app(&format!("[backend.half]\nurls = {urls}\n[[route]]\npath = \"/half\"\nproxy = \"half\"\n"));
    let server = app.start();
    for _ in 0..30 {
        assert_eq!(server.connect().get("/half").unwrap().status, 200);
    }
    let screen = app.succeed(&["status"]);
    assert!(screen.starts_with("READY, WITH WARNINGS   tollgate "), "{screen}");
    let told = format!("backend half: {dead} is unreachable, name no-such-host.invalid is not found");
    assert!(screen.contains(&format!("\nWARNING: {told}\n  -> check these addresses")), "{screen}");
    assert!(screen.contains("\nhalf     closed   1 of 2 "), "{screen}");
    assert!(get(&app, "/readyz").content.contains(&format!("ready\nwarning: backend_impaired: {told}")));
    let metrics = get(&app, "/metrics").content;
    for (state, count) in [("closed", 1), ("untried", 0), ("half-open", 0), ("open", 0), ("unreachable", 1)] {
        let name = format!("tollgate_backend_address_states{{backend=\"half\",state=\"{state}\"}}");
        assert_eq!(sample(&metrics, &name), count, "{state}");
    }
    server.stop();
}

#[test]
fn a_backend_without_an_address_is_told_as_one_that_is_down() {
    let backend = "[backend.lost]\nurls = [\"http://no-such-host.invalid:80\"]\n[[route]]\npath = \"/lost\"\nproxy = \"lost\"\n";
    let app = app(backend);
    let server = app.start();
    let reply = server.connect().get("/lost").unwrap();
    assert_eq!(reply.status, 503, "{reply:?}");
    let screen = app.succeed(&["status"]);
    assert!(screen.starts_with("READY, WITH WARNINGS   tollgate "), "{screen}");
    assert!(
        screen.contains(
            "\nWARNING: backend lost has no address: no name in its urls was found\n  -> check the names"
        ),
        "{screen}"
    );
    assert!(screen.contains("\nlost     no address  "), "{screen}");
    assert!(
        get(&app, "/readyz").content.contains("warning: backend_unresolved: backend lost has no address")
    );
    assert_eq!(sample(&get(&app, "/metrics").content, "tollgate_backend_addresses{backend=\"lost\"}"), 0);
    server.stop();
}

#[test]
fn a_watched_status_is_printed_again_and_a_server_that_went_away_is_waited_for() {
    let app = app("");
    let server = app.start();
    record(&mut server.connect(), "/a", 0..100);
    let watching = app.follow(&["status", "--watch"]);
    let next = |start: &str| eventually(start, || watching.line().starts_with(start).then_some(()));
    next("ALL WELL");
    next("ALL WELL");
    server.stop();
    next("no server answers at ");
    let server = app.start();
    next("ALL WELL");
    watching.end(Signal::KILL);
    server.stop();
}

#[test]
fn a_backend_that_failed_is_down_until_what_tries_it_succeeds() {
    let backend = Backend::start(Fault::Reset).unwrap();
    let app = app(&format!(
        "[backend.b]\nurls = [\"http://{}\"]\nbreaker_requests_min = 1\nbreaker_open = \"10ms\"\nbreaker_probes = 1\n\
         [[route]]\npath = \"/tried\"\nproxy = \"b\"\n",
        backend.address()
    ));
    let server = app.start();
    assert_eq!(server.connect().get("/tried").unwrap().status, 502);
    eventually("its time is over", || {
        app.succeed(&["status"]).contains("\nb        half-open  0 of 1 ").then_some(())
    });
    let screen = app.succeed(&["status"]);
    assert!(screen.starts_with("READY, WITH WARNINGS   tollgate "), "{screen}");
    assert!(screen.contains("\nWARNING: the breaker of backend b is half-open\n"), "{screen}");
    let metrics = get(&app, "/metrics").content;
    for (state, count) in [("closed", 0), ("untried", 0), ("half-open", 1), ("open", 0)] {
        let name = format!("tollgate_backend_breaker{{backend=\"b\",state=\"{state}\"}}");
        assert_eq!(sample(&metrics, &name), count, "{state}");
    }
    backend.turn(Fault::None).unwrap();
    assert_eq!(server.connect().get("/tried").unwrap().status, 200);
    assert!(app.succeed(&["status"]).starts_with("ALL WELL"));
    server.stop();
}

#[test]
fn the_exit_code_of_a_status_is_the_state_of_the_server() {
    let route = "[[route]]\npath = \"/\"\nreply = { status = 204 }\n";
    let app = App::new(&format!("drain_delay = \"10m\"\n{route}"), &[]);
    let code = || {
        let output = app.run(&["status", "--exit-code"]);
        (output.status.code().unwrap(), printed(&output))
    };
    let check = |expected: i32, text: &str| {
        eventually(text, || (code().0 == expected).then_some(()));
        let (found, printed) = code();
        assert!(found == expected && printed.contains(text), "{found}: {printed}");
    };
    check(3, "no server answers at ");
    let server = app.start();
    check(0, "ALL WELL");
    let config = app.config();
    app.write("tollgate.toml", &format!("{config}\n[nothing]\n"));
    assert_eq!(app.run(&["reload"]).status.code(), Some(2));
    check(1, "READY, WITH WARNINGS");
    assert_eq!(app.run(&["status"]).status.code(), Some(0), "only --exit-code asks for the state");
    assert_eq!(app.run(&["status", "--json", "--exit-code"]).status.code(), Some(1));
    server.signal(Signal::TERM);
    check(2, "NOT READY");
    server.kill();
    check(3, "no server answers at ");
}
