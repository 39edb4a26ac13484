//! HTTPS: certificates from files, requests by curl, and certificates that change while the server runs.

use std::fs;
use std::process::{Command, Output};

use crate::admin::{get, sample};
use crate::program::{App, Running, eventually, printed};

const CONFIG: &str = "[server]\nlisten = [{ address = \"127.0.0.1:0\", tls = true }]\n\
                      [[certificate]]\nfile = \"server.pem\"\nkey_file = \"server.key\"\n\
                      [stream.s]\ncolumns = [{ name = \"path\", type = \"text\", from = \"request.path\" }]\n\
                      [[route]]\npath = \"/*\"\nreply = { body = \"hello\" }\nstream = \"s\"\n";

/// Makes a self-signed certificate of a name, and its key, as files of the app.
fn make(app: &App, file: &str, name: &str) {
    let arguments = format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
         -addext subjectAltName=DNS:{name} -addext basicConstraints=critical,CA:FALSE \
         -keyout {file}.key -out {file}.pem"
    );
    let mut command = Command::new("openssl");
    let output = command.args(arguments.split_whitespace()).current_dir(app.path()).output();
    let output = output.unwrap_or_else(|error| panic!("openssl: {error}"));
    assert!(output.status.success(), "{}", printed(&output));
}

/// Asks for `https://NAME/path` with curl, which trusts only `file`.
fn curl(app: &App, server: &Running, name: &str, file: &str) -> Output {
    let address = server.address();
    let resolve = format!("{name}:{}:{}", address.port(), address.ip());
    let url = format!("https://{name}:{}/path", address.port());
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "60", "--resolve", &resolve, "--cacert", file, &url]);
    command.current_dir(app.path()).output().unwrap_or_else(|error| panic!("curl: {error}"))
}

fn expect_hello(app: &App, server: &Running, name: &str, file: &str) {
    let output = curl(app, server, name, file);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{}", printed(&output));
}

#[test]
fn a_request_over_https_becomes_a_row() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    make(&app, "server", "a.test");
    let server = app.start();
    expect_hello(&app, &server, "a.test", "server.pem");
    let rows = || app.has_table("s").then(|| app.query::<String>("SELECT path FROM s"));
    eventually("the row", || rows().filter(|rows| rows == &["/path"]));
    let metrics = get(&app, "/metrics").content;
    assert_eq!(sample(&metrics, "tollgate_tls_handshakes_total{result=\"full\"}"), 1);
}

#[test]
fn a_reload_takes_new_certificates_and_a_broken_file_leaves_the_old_ones() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    make(&app, "server", "a.test");
    make(&app, "next", "a.test");
    let server = app.start();
    expect_hello(&app, &server, "a.test", "server.pem");
    fs::copy(app.path().join("server.pem"), app.path().join("before.pem")).unwrap();
    fs::copy(app.path().join("next.pem"), app.path().join("server.pem")).unwrap();
    let refused = app.run(&["reload"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = printed(&refused);
    assert!(text.contains("key_file in [[certificate]]: ") && text.contains("is not the key of"), "{text}");
    assert!(!text.contains("BEGIN"), "{text}");
    expect_hello(&app, &server, "a.test", "before.pem");
    fs::copy(app.path().join("next.key"), app.path().join("server.key")).unwrap();
    app.succeed(&["reload"]);
    eventually("the workers use the new certificate", || {
        curl(&app, &server, "a.test", "next.pem").status.success().then_some(())
    });
    assert!(!curl(&app, &server, "a.test", "before.pem").status.success());
}

#[test]
fn faults_of_https_name_the_key() {
    let check = |config: &str, expect: &str| {
        let app = App::bare(&[("tollgate.toml", config)]);
        make(&app, "server", "a.test");
        let output = app.run(&["check"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(printed(&output).contains(expect), "{}", printed(&output));
    };
    let no_certificate =
        CONFIG.replace("[[certificate]]\nfile = \"server.pem\"\nkey_file = \"server.key\"\n", "");
    check(&no_certificate, "listen in [server] has tls = true, which needs a [[certificate]]");
    check(
        &CONFIG.replace(", tls = true", ""),
        "[[certificate]] has no effect, because no address of listen has tls",
    );
    check(&CONFIG.replace("server.key", "server.pem"), "server.pem: it has no private key in PEM");
    check(&CONFIG.replace("key_file = \"server.key\"\n", ""), "missing key \"key_file\" in [[certificate]]");
    check(&format!("{CONFIG}[[route]]\npath = \"/f/*\"\nfiles = \".\"\n"), "key_file in [[certificate]]");
}
