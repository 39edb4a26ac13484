//! Routes of the whole program: a backend that is the server itself, and request ids in log lines.

use std::fmt::Write;

use crate::program::App;

/// Returns a request with a request id.
fn request(path: &str, id: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\nX-Request-Id: {id}\r\n\r\n")
}

#[test]
fn a_backend_that_is_the_server_itself_is_asked_a_few_times_until_it_is_a_loop() {
    let app = App::bare(&[]);
    let socket = app.path().join("own.sock").display().to_string();
    app.write(
        "tollgate.toml",
        &format!(
            "[server]\nlisten = [\"127.0.0.1:0\", \"unix:{socket}\"]\n[backend.own]\nurls = [\"unix:{socket}\"]\n\
             [stream.asked]\ncolumns = [{{ name = \"status\", type = \"int\", from = \"reply.status\" }}]\n\
             [[route]]\npath = \"/*\"\nproxy = \"own\"\nstream = \"asked\"\n"
        ),
    );
    let server = app.start();
    let reply = server.connect().get("/a").unwrap();
    assert_eq!(
        (reply.status, reply.content.as_str()),
        (508, "a backend sends the request back to this server in a loop\n")
    );
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("its backend sends it back in a loop"), "{log}");
    assert_eq!(app.query::<i64>("SELECT status FROM asked"), [508; 9]);
}

#[test]
fn log_lines_about_a_request_tell_its_id() {
    let config = "[[route]]\npath = \"/a\"\nscript = \"a.luau\"\n[[route]]\npath = \"/fail\"\nscript = \"fail.luau\"\n";
    let said = "print('loading') return function(req) tollgate.log.warn('hello') return 204 end";
    let config = format!("request_id = \"take\"\n{config}");
    let app = App::new(&config, &[("a.luau", said), ("fail.luau", "return function() error('broken') end")]);
    let server = app.start();
    let mut client = server.connect();
    for (path, id, status) in [("/a", "first-1", 204), ("/a", "second:2", 204), ("/fail", "third=3", 500)] {
        assert!(client.send(&request(path, id)));
        let reply = client.reply().unwrap();
        assert_eq!(reply.status, status);
        assert!(reply.head.contains(&format!("\r\nX-Request-Id: {id}\r\n")), "{}", reply.head);
    }
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let ids = |what: &str| -> Vec<_> {
        let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let told = lines.filter(|line| line["message"].as_str().is_some_and(|text| text.contains(what)));
        told.map(|line| line["id"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(ids("hello"), [Some("first-1".to_owned()), Some("second:2".to_owned())], "{log}");
    assert_eq!(ids("broken"), [Some("third=3".to_owned())], "{log}");
    // The check before the start loads the script once, and each worker loads it once.
    let loading = ids("loading");
    assert!(!loading.is_empty() && loading.iter().all(Option::is_none), "{log}");
}

#[test]
fn each_of_ten_thousand_routes_is_found() {
    let mut config = String::new();
    for route in 0..10_000 {
        writeln!(config, "[[route]]\npath = \"/r{route}/{{id}}\"\nreply = {{ body = \"{route}\" }}").unwrap();
    }
    let app = App::new(&config, &[]);
    let server = app.start();
    let mut client = server.connect();
    for route in (0..10_000).step_by(97) {
        assert_eq!(client.get(&format!("/r{route}/x")).unwrap().content, route.to_string());
    }
    assert_eq!(client.get("/r10000/x").unwrap().status, 404);
    assert!(server.stop().0.success());
}
