//! `tollgate status --web`: the admin page on loopback, for the user who has its token.

use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::Value;

use crate::admin::{AdminReply, exchange};
use crate::program::{App, Following, PATIENCE, printed};

const ROUTE: &str = "[[route]]\npath = \"/\"\nreply = { body = \"hello\" }\n";

/// The command, its address, and the token of its URL.
struct Page {
    command: Following,
    address: SocketAddr,
    token: String,
}

impl Page {
    fn open(app: &App, arguments: &[&str]) -> Self {
        let command = app.follow(&[&["status", "--web"], arguments].concat());
        let line = command.line();
        let (address, token) =
            line.strip_prefix("http://").and_then(|url| url.split_once("/#token=")).unwrap();
        Self { address: address.parse().unwrap(), token: token.to_owned(), command }
    }

    fn ask(&self, line: &str, fields: &str) -> AdminReply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(&mut stream, &format!("{line} HTTP/1.1\r\n{fields}\r\n")).unwrap()
    }

    /// Asks with the token, as the page does.
    fn get(&self, path: &str) -> AdminReply {
        let Self { address, token, .. } = self;
        self.ask(&format!("GET {path}"), &format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n"))
    }
}

#[test]
fn the_page_of_status_web_shows_the_state_only_with_its_token() {
    let app = App::new(ROUTE, &[]);
    let server = app.start();
    let page = Page::open(&app, &[]);
    assert!(page.address.ip().is_loopback() && page.token.len() == 32, "{} {}", page.address, page.token);
    let status: Value = page.get("/status").content.parse().unwrap();
    assert_eq!(status["process_id"], server.id());
    assert_eq!(page.get("/metrics").status, 404, "only what the page needs");

    let own = format!("Host: {}\r\n", page.address);
    let token = format!("Authorization: Bearer {}\r\n", page.token);
    let first = page.ask("GET /", &own);
    assert!(first.status == 200 && first.head.contains("Content-Security-Policy: default-src 'none';"));
    assert!(!first.content.contains(&page.token));
    let check = |line: &str, fields: &[&str], status: u16| {
        let answer = page.ask(line, &fields.concat());
        assert_eq!(answer.status, status, "{line} {fields:?}: {answer:?}");
    };
    check("GET /status", &[&own], 401);
    check("GET /history?since=1", &[&own], 401);
    check("GET /status", &[&own, "Authorization: Bearer x\r\n"], 401);
    check(&format!("GET /status?token={}", page.token), &[&own], 401);
    // DNS rebinding, and pages of other origins. They lack the token too, so it is sent here.
    check("GET /status", &["Host: evil.example\r\n", &token], 421);
    check("GET /", &["Host: evil.example\r\n"], 421);
    check("GET /status", &[&own, &token, "Origin: https://evil.example\r\n"], 403);
    check("GET /status", &[&own, &token, "Sec-Fetch-Site: cross-site\r\n"], 403);
    check("POST /status", &[&own, &token, "Content-Length: 0\r\n"], 405);
    // Another port leads here through `ssh -L`.
    check("GET /status", &["Host: localhost:9999\r\n", &token], 200);

    let again = Page::open(&app, &["."]);
    assert_ne!(again.token, page.token);
    let (status, stderr) = page.command.end(Signal::INT);
    assert!(!status.success() && stderr.contains("open this address in a browser"), "{stderr}");
    assert!(TcpStream::connect(page.address).is_err());
    drop(again);
    server.stop();
}

#[test]
fn the_page_of_status_web_outlives_the_server_and_finds_the_next_one() {
    let app = App::new(ROUTE, &[]);
    let server = app.start();
    let page = Page::open(&app, &[]);
    server.stop();
    let gone = page.get("/status");
    assert!(gone.status == 502 && gone.content.starts_with("the server does not answer: "), "{gone:?}");
    assert_eq!(page.ask("GET /", &format!("Host: {}\r\n", page.address)).status, 200);
    let server = app.start();
    let status: Value = page.get("/status").content.parse().unwrap();
    assert_eq!(status["process_id"], server.id());
    server.stop();
}

#[test]
fn status_web_says_why_it_cannot_show_a_page() {
    let app = App::new(ROUTE, &[]);
    let check = |arguments: &[&str], expected: &str| {
        let output = app.run(&[&["status", "--web"], arguments].concat());
        assert!(!output.status.success() && printed(&output).contains(expected), "{}", printed(&output));
    };
    check(&[], "no server answers");
    check(&["--json"], "cannot be used with");
    let server = app.start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(&["--port", &port], &format!("cannot listen on 127.0.0.1:{port}: choose another --port"));
    server.stop();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (listen, expected) in [
        (free.to_string(), format!("the page is at http://{free}/ already")),
        ("off".to_owned(), "listen in [admin] is off".to_owned()),
    ] {
        app.configure(&format!("[admin]\nlisten = \"{listen}\"\n{ROUTE}"));
        let server = app.start();
        check(&[], &expected);
        server.stop();
    }
}

#[test]
fn status_web_finds_a_socket_at_a_long_path_that_the_configuration_names() {
    let folder = "a".repeat(120);
    let app = App::new(&format!("[admin]\nlisten = \"unix:{folder}/own.sock\"\n{ROUTE}"), &[]);
    let server = app.start();
    let page = Page::open(&app, &[]);
    assert_eq!(page.get("/status").status, 200);
    server.stop();
}
