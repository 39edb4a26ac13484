//! HTTPS: certificates from files, requests by curl, and certificates that change while the server runs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use crate::admin::{get, get_until, sample};
use crate::alarms::check_alarms_of;
use crate::program::{App, Running, eventually, printed};

pub(crate) const CONFIG: &str = "[server]\nlisten = [{ address = \"127.0.0.1:0\", tls = true }]\n\
                      [[certificate]]\nfile = \"server.pem\"\nkey_file = \"server.key\"\n\
                      [stream.s]\ncolumns = [{ name = \"path\", type = \"text\", from = \"request.path\" }]\n\
                      [[route]]\npath = \"/*\"\nreply = { body = \"hello\" }\nstream = \"s\"\n";

/// Minutes until the alarm of a certificate that ends soon fires.
const CERTIFICATE_ALARM_MINUTES: u64 = 62;

/// Makes a self-signed certificate of a name, and its key, as files of the app.
pub(crate) fn make(app: &App, file: &str, name: &str) {
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

/// Makes a self-signed certificate that expired years ago.
fn make_expired(app: &App, file: &str) {
    make_valid_until(app, file, "-enddate 20200201000000Z");
}

/// Makes a self-signed certificate that is valid from the year 2020 on, until the end that these arguments of
/// openssl set.
fn make_valid_until(app: &App, file: &str, end: &str) {
    let config = "[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\n\
                  default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n";
    fs::write(app.path().join("ca.cnf"), config).unwrap();
    fs::write(app.path().join("index"), "").unwrap();
    fs::write(app.path().join("old.ext"), "subjectAltName=DNS:a.test\n").unwrap();
    let request = format!(
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=old -keyout {file}.key -out old.csr"
    );
    let sign = format!(
        "ca -batch -notext -selfsign -config ca.cnf -keyfile {file}.key -in old.csr -extfile old.ext \
         -startdate 20200101000000Z {end} -out {file}.pem"
    );
    for arguments in [request, sign] {
        let mut command = Command::new("openssl");
        let output = command.args(arguments.split_whitespace()).current_dir(app.path()).output().unwrap();
        assert!(output.status.success(), "{}", printed(&output));
    }
}

/// Renames a pair over another pair.
fn rename(app: &App, from: &str, to: &str) {
    for end in ["key", "pem"] {
        let path = |name: &str| app.path().join(format!("{name}.{end}"));
        fs::rename(path(from), path(to)).unwrap();
    }
}

fn expect_certificate(app: &App, server: &Running, file: &str) {
    eventually(file, || curl(app, server, "a.test", file).status.success().then_some(()));
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

#[test]
fn changed_files_are_served_without_a_reload_and_connections_stay() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    make(&app, "server", "a.test");
    fs::copy(app.path().join("server.pem"), app.path().join("first.pem")).unwrap();
    let server = app.start();
    expect_certificate(&app, &server, "first.pem");
    let address = server.address().to_string();
    let mut client = Command::new("openssl");
    client.args(["s_client", "-quiet", "-connect", &address, "-servername", "a.test"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = client.spawn().unwrap();
    let mut ask = |end: &str| {
        let request = format!("GET /a HTTP/1.1\r\nHost: a.test\r\n{end}\r\n");
        client.stdin.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
    };
    ask("");
    make(&app, "next", "a.test");
    fs::copy(app.path().join("next.pem"), app.path().join("second.pem")).unwrap();
    rename(&app, "next", "server");
    expect_certificate(&app, &server, "second.pem");
    ask("Connection: close\r\n");
    let replies = client.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&replies).matches("HTTP/1.1 200 OK").count(), 2);
    let metrics = get(&app, "/metrics").content;
    let series = format!(
        "tollgate_certificate_expires_seconds{{certificate=\"{}\"}}",
        app.path().join("server.pem").display()
    );
    let left = sample(&metrics, &series);
    assert!((24 * 3600..=48 * 3600).contains(&left), "{left}");
}

#[test]
fn a_pair_behind_a_link_is_swapped_and_a_broken_one_is_a_finding() {
    let config = CONFIG.replace("server.", "tls/server.");
    let app = App::bare(&[("tollgate.toml", &config)]);
    let path = |name: &str| app.path().join(name);
    fs::create_dir(path("tls")).unwrap();
    for version in ["v1", "v2", "v3"] {
        make(&app, version, "a.test");
        fs::create_dir(path("tls").join(version)).unwrap();
        for end in ["key", "pem"] {
            fs::copy(path(&format!("{version}.{end}")), path(&format!("tls/{version}/server.{end}")))
                .unwrap();
        }
    }
    let link = |version: &str| {
        symlink(version, path("tls/..new")).unwrap();
        fs::rename(path("tls/..new"), path("tls/..data")).unwrap();
    };
    link("v1");
    for end in ["key", "pem"] {
        symlink(format!("..data/server.{end}"), path(&format!("tls/server.{end}"))).unwrap();
    }
    let server = app.start();
    expect_certificate(&app, &server, "v1.pem");
    link("v2");
    expect_certificate(&app, &server, "v2.pem");
    fs::write(path("tls/v3/server.key"), "no key").unwrap();
    link("v3");
    let text = "certificate_unusable: ";
    let found = get_until(&app, "/readyz", 200, text).content;
    assert!(found.contains("server.key: it has no private key in PEM"), "{found}");
    expect_certificate(&app, &server, "v2.pem");
    fs::copy(path("v3.key"), path("tls/v3/server.key")).unwrap();
    expect_certificate(&app, &server, "v3.pem");
    eventually("the finding ends", || (!get(&app, "/readyz").content.contains(text)).then_some(()));
}

#[test]
fn an_expired_certificate_is_a_finding_and_a_note_of_check() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    make_expired(&app, "server");
    let checked = printed(&app.run(&["check"]));
    let file = app.path().join("server.pem");
    let expected = format!("note: certificate {} (a.test) expired at 2020-02-01T00:00:00Z", file.display());
    assert!(checked.contains(&expected), "{checked}");
    assert!(
        checked.contains(&format!("\ncertificate {} (a.test) expires at 2020-02-01", file.display())),
        "{checked}"
    );
    let _server = app.start();
    let found = get_until(&app, "/readyz", 200, "certificate_expires: ").content;
    assert!(found.contains("expired at 2020-02-01T00:00:00Z"), "{found}");
}

#[test]
fn a_certificate_that_ends_soon_is_a_finding_and_has_its_alarm() {
    let app = App::bare(&[("tollgate.toml", CONFIG)]);
    make_valid_until(&app, "server", "-days 1");
    let _server = app.start();
    get_until(&app, "/readyz", 200, "certificate_expires: ");
    let scrape = || get(&app, "/metrics").content;
    check_alarms_of(scrape, &["TollgateCertificateExpires"], CERTIFICATE_ALARM_MINUTES);
}

#[test]
fn a_test_sends_requests_of_a_client_with_a_certificate() {
    let config = format!(
        "{CONFIG}script = \"who.luau\"\nclient_certificate = {{ san = [\"dns:billing\"] }}\n\
         [tls]\nclient_ca = \"server.pem\"\n"
    );
    let config = config
        .replace("reply = { body = \"hello\" }\n", "")
        .replace("request.path", "request.tls.client_san");
    let app = App::bare(&[
        ("tollgate.toml", &config),
        ("who.luau", "--!strict\nreturn function(req: Request) return req.client_certificate.subject end"),
        (
            "tests/who.luau",
            "--!strict
            local function of(names: { string }) return { names = names, subject = 'CN=b' } end
            return {
              ['a service is known by its name'] = function(t: Test)
                local reply = t:request{ path = '/who', client_certificate = of{ 'dns:a', 'dns:billing' } }
                t.equal(reply.status, 200)
                t.equal(reply.body, 'CN=b')
              end,
              ['others are refused'] = function(t: Test)
                t.equal(t:request{ path = '/who', client_certificate = of{ 'dns:reports' } }.status, 403)
                t.equal(t:request{ path = '/who' }.status, 403)
              end,
              ['a name that does not exist is told'] = function(t: Test)
                local sent, problem = pcall(function()
                  return t:request{ path = '/who', client_certificate = { name = 'x' } :: any }
                end)
                t.equal(sent, false)
                assert(string.find(problem, 'client_certificate has no field \"name\"', 1, true), problem)
              end,
            }",
        ),
    ]);
    make(&app, "server", "a.test");
    let output = app.run(&["test"]);
    assert!(output.status.success(), "{}", printed(&output));
}
