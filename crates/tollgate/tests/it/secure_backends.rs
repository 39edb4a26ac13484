//! A TLS backend that OpenSSL serves, and certificate files that change while the server runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::program::{App, printed};

const CONFIG: &str = "[server]\nlisten = [\"127.0.0.1:0\"]\n[backend.app]\nurls = [\"https://localhost:PORT\"]\n\
                      ca_file = \"ca.pem\"\n[[route]]\npath = \"/*\"\nproxy = \"app\"\n[[route]]\npath = \"/ask\"\n\
                      script = \"ask.luau\"\n";
const ASK: &str =
    "return function() local r = tollgate.fetch('app') return r.error and r.message or r.body end";

fn openssl(app: &App, arguments: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(app.path()).stderr(Stdio::null());
    command
}

fn make(app: &App, name: &str) {
    let arguments = format!(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -addext subjectAltName=DNS:localhost \
         -addext basicConstraints=critical,CA:FALSE -keyout {name}.key -out {name}.pem"
    );
    let status = openssl(app, &arguments).status().unwrap_or_else(|error| panic!("openssl: {error}"));
    assert!(status.success(), "{arguments}");
}

/// The process `openssl s_server`. It answers each request with a page, and closes the connection after it.
struct Server(Child);

impl Server {
    fn start(app: &App) -> (Self, u16) {
        let arguments = "s_server -accept 127.0.0.1:0 -cert server.pem -key server.key -www";
        let mut child = openssl(app, arguments).stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.filter_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.parse().ok());
        let port = { port }.next().expect("it says where it listens");
        (Self(child), port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn authorities_are_taken_anew_by_a_reload_and_refused_by_their_names() {
    let app = App::bare(&[("ask.luau", ASK)]);
    make(&app, "server");
    make(&app, "stranger");
    let (_backend, port) = Server::start(&app);
    app.write("tollgate.toml", &CONFIG.replace("PORT", &port.to_string()));
    let missing = app.run(&["check"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        printed(&missing).contains("ca_file in [backend.app]: ")
            && printed(&missing).contains("ca.pem: No such")
    );
    let trust = |name: &str| fs::copy(app.path().join(name), app.path().join("ca.pem")).unwrap();
    trust("server.pem");
    let server = app.start();
    let get = |path: &str| server.connect().get(path).unwrap();
    let page = get("/ask").content;
    assert!(page.contains("TLSv1.3"), "{page}");
    trust("server.key");
    let refused = app.run(&["reload"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = printed(&refused);
    assert!(text.contains("ca.pem: it has no certificate in PEM") && !text.contains("BEGIN"), "{text}");
    assert!(get("/ask").content.contains("TLSv1.3"), "what was loaded goes on");
    trust("stranger.pem");
    app.succeed(&["reload"]);
    let text = get("/ask").content;
    assert!(text.contains("handshake: its certificate is not signed by an authority of "), "{text}");
    let failed = get("/");
    assert_eq!(
        (failed.status, failed.content.as_str()),
        (502, "the TLS handshake with the backend failed\n")
    );
    let status = app.succeed(&["status", "--json"]);
    assert!(status.contains("\"untrusted\": 2") || status.contains("\"untrusted\":2"), "{status}");
    trust("server.pem");
    app.succeed(&["reload"]);
    assert!(get("/ask").content.contains("TLSv1.3"));
    let (_, log) = server.stop();
    let expected = format!(
        "at 127.0.0.1:{port} (localhost), handshake: its certificate is not signed by an authority of "
    );
    assert!(log.contains(&expected), "{log}");
}
