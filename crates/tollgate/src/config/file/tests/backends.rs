//! Backends, and routes that lead to them.

use tollgate_server::{EncodedSlashes, HandlerSpec};

use super::*;

const APP: &str = "[backend.app]\nurls = [\"http://127.0.0.1:9000\"]\n";

#[test]
fn a_backend_has_defaults_for_all_but_its_addresses() {
    let config = load(&format!("{APP}[[route]]\npath = \"/app/*\"\nproxy = \"app\"\n")).unwrap();
    let text = config.to_string();
    let expected = r#"
[backend.app]
urls = ["http://127.0.0.1:9000"]
connect_timeout = "2s"
first_byte_timeout = "30s"
idle_timeout = "30s"
timeout = "10m"
pool_idle_max = 64
pool_idle_timeout = "30s"
pool_age_max = "10m"
concurrency_max = 1024
queue_max = 128
queue_timeout = "500ms"
breaker_window = "10s"
breaker_requests_min = 20
breaker_failure_percent = 50
breaker_open = "5s"
breaker_probes = 3
retries_max = 1
retry_percent = 20
dns_refresh = "30s"
head_bytes_max = "32KiB"
reply_bytes_max = "4MiB"

[[route]]
path = "/app/*"
proxy = { backend = "app", strip_prefix = false, extension_methods = [], encoded_slashes = "refuse", rewrite_paths = true, host = "pass", set_headers = {  }, remove_headers = [], set_reply_headers = {  }, remove_reply_headers = [] }
"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_printed_backend_reads_back_to_the_same() {
    let text = r#"
        [backend.first]
        urls = ["http://App.internal", "http://[::1]:81/", "unix:/run/app.sock"]
        connect_timeout = "1s"
        first_byte_timeout = "2s"
        idle_timeout = "3s"
        timeout = "4s"
        pool_idle_max = 0
        pool_idle_timeout = "5s"
        pool_age_max = "6s"
        concurrency_max = 1
        queue_max = 0
        queue_timeout = "7ms"
        breaker_window = "8s"
        breaker_requests_min = 9
        breaker_failure_percent = 10
        breaker_open = "11s"
        breaker_probes = 12
        retries_max = 0
        retry_percent = 13
        dns_refresh = "14s"
        head_bytes_max = "15KiB"
        reply_bytes_max = "16KiB"
        [[route]]
        path = "/app/*"
        [route.proxy]
        backend = "first"
        strip_prefix = true
        prefix = "/v2"
        extension_methods = ["PROPFIND", "REPORT"]
        encoded_slashes = "pass"
        rewrite_paths = false
        host = "backend"
        set_headers = { "X-Key" = "${SECRET}", X-Literal = "$${A}" }
        remove_headers = ["Cookie"]
        set_reply_headers = { "Cache-Control" = "no-store" }
        remove_reply_headers = ["Server"]
    "#;
    let first = load(text).unwrap();
    let printed = first.to_string();
    assert!(
        printed.contains(r#"urls = ["http://app.internal:80", "http://[::1]:81", "unix:/run/app.sock"]"#),
        "{printed}"
    );
    let second = load(&printed).unwrap();
    assert_eq!(first.server.backends, second.server.backends);
    assert_eq!(second.to_string(), printed);
    let HandlerSpec::Proxy(proxy) = &second.server.routes[0].handler else { panic!("{printed}") };
    assert_eq!((proxy.encoded_slashes, proxy.rewrite_paths), (EncodedSlashes::Pass, false));
    assert_eq!(proxy.set_headers[0], ("X-Key".to_owned(), "0123456789abcdef".to_owned()));
}

#[test]
fn faults_of_backends_are_told() {
    check(
        "[backend.a]\n",
        &[
            "t.toml:1:1: missing key \"urls\" in [backend.a]: allowed is a list like [\"http://127.0.0.1:9000\"]",
        ],
    );
    check("[backend.a]\nurls = []\n", &["t.toml:2:8: urls has 0 addresses, allowed are 1 to 64"]);
    check(
        "[backend.\"a-b\"]\nurls = [\"http://a:1\", \"http://a:1\", \"https://a..b\", \"a:1\", \"http://a/b\"]\ntimout = \"1s\"\nretries_max = 17\n",
        &[
            "t.toml:1:10: backend is named \"a-b\", allowed is a letter or _, then letters, digits and _",
            "t.toml:2:23: urls has \"http://a:1\" twice",
            "t.toml:2:37: urls has \"https://a..b\": a certificate cannot have this name: allowed are labels of letters, digits, - and _",
            "t.toml:2:53: urls has \"a:1\": allowed is http://HOST:PORT, https://HOST:PORT or unix:/PATH",
            "t.toml:2:60: urls has \"http://a/b\": remove the path: routes have strip_prefix and prefix",
            "t.toml:3:1: unknown key \"timout\" in [backend.a-b], did you mean \"timeout\"?",
            "t.toml:4:15: retries_max in [backend.a-b] is 17, allowed is an integer from 0 to 16",
        ],
    );
}

#[test]
fn faults_of_proxied_routes_are_told() {
    let route = |text: &str| format!("{APP}[[route]]\npath = \"/app\"\n{text}");
    check(&route("proxy = \"ap\"\n"), &["t.toml:5:9: unknown backend \"ap\", did you mean \"app\"?"]);
    check(
        "[[route]]\npath = \"/\"\nproxy = \"app\"\n",
        &["t.toml:3:9: unknown backend \"app\": the file has no [backend.NAME]"],
    );
    check(
        &route("proxy = 1\n"),
        &[
            "t.toml:5:9: proxy in [[route]] is the integer 1, allowed is the name of a backend or a table { backend = \"NAME\", ... }",
        ],
    );
    check(
        &route(
            "proxy = { backend = \"app\", strip_prefix = true, prefix = \"v2/\", host = \"x\", set_headers = { Host = \"a\", \"a b\" = \"c\" }, remove_headers = [\"TE\"] }\n",
        ),
        &[
            "t.toml:4:8: path is \"/app\", allowed with strip_prefix is a path that ends in \"/*\"",
            "t.toml:5:58: prefix in proxy is \"v2/\", allowed is a path like \"/v2\", without escapes and \
             without a slash at the end",
            "t.toml:5:72: host in proxy is \"x\", allowed: pass, backend",
            "t.toml:5:100: set_headers has \"Host\", which only the server writes: remove it",
            "t.toml:5:113: set_headers has \"a b\", allowed is the name of a header",
            "t.toml:5:138: remove_headers has \"TE\", which only the server writes: remove it",
        ],
    );
    check(
        &route(
            "proxy = { backend = \"app\", set_headers = { via = \"a\", \"X-Request-Id\" = \"b\" }, set_reply_headers = { \"tollgate-ack\" = \"c\", Via = \"d\", \"X-Request-Id\" = \"e\" } }\n",
        ),
        &[
            "t.toml:5:50: set_headers has \"via\", to which the server only appends: remove it",
            "t.toml:5:118: set_reply_headers has \"tollgate-ack\", but only the server writes names that \
             begin with Tollgate-: choose another name",
        ],
    );
    let unnamed = "allowed is the name of a method that the server does not know, except CONNECT and TRACE, or \
                   \"*\" alone";
    check(
        &route(
            "proxy = { backend = \"app\", extension_methods = [\"GET\", \"TRACE\", \"*\", \"REPORT\"] }\n",
        ),
        &[
            &format!("t.toml:5:49: extension_methods in proxy has \"GET\", {unnamed}"),
            &format!("t.toml:5:56: extension_methods in proxy has \"TRACE\", {unnamed}"),
            &format!("t.toml:5:65: extension_methods in proxy has \"*\", {unnamed}"),
        ],
    );
    assert!(load(&route("proxy = { backend = \"app\", extension_methods = [\"*\"] }\n")).is_ok());
    check(
        &format!("{APP}[[route]]\npath = \"*\"\nproxy = \"app\"\n"),
        &["t.toml:3:1: path \"*\" has proxy, allowed are script and reply: the path is only for OPTIONS"],
    );
}

pub(super) fn openssl(folder: &std::path::Path, arguments: &str) {
    let output = std::process::Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("openssl: {error}; apt-get install -y openssl"));
    assert!(output.status.success(), "openssl {arguments}: {output:?}");
}

/// Makes a folder with an authority, two self-signed certificates, and their keys.
pub(super) fn with_certificates() -> tempfile::TempDir {
    let dir = app();
    for name in ["ca", "me", "other"] {
        let kind = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
        openssl(dir.path(), &format!("{kind} -subj /CN={name} -keyout {name}.key -out {name}.pem"));
    }
    dir
}

const SECURE: &str =
    "[backend.app]\nurls = [\"https://app.internal\", \"https://10.0.0.1:8443\", \"unix:/a\"]\n";

#[test]
fn a_printed_backend_over_tls_reads_back_to_the_same() {
    let dir = with_certificates();
    let file = dir.path().join("t.toml");
    let text = format!(
        "{SECURE}ca_file = \"ca.pem\"\nclient_certificate = \"me.pem\"\nclient_key = \"me.key\"\nserver_name = \"a.b\"\n"
    );
    let first = resolve(&file, &text, &env).unwrap();
    let printed = first.to_string();
    let folder = dir.path().display();
    let expected = format!(
        "urls = [\"https://app.internal:443\", \"https://10.0.0.1:8443\", \"unix:/a\"]\nca_file = \"{folder}/ca.pem\"\n\
         client_certificate = \"{folder}/me.pem\"\nclient_key = \"{folder}/me.key\"\nserver_name = \"a.b\"\nconnect_timeout"
    );
    assert!(printed.contains(&expected), "{printed}");
    let second = resolve(&file, &printed, &env).unwrap();
    assert_eq!(first.server.backends, second.server.backends);
    fs::copy(dir.path().join("other.pem"), dir.path().join("ca.pem")).unwrap();
    let third = resolve(&file, &printed, &env).unwrap();
    assert_ne!(second.server.backends, third.server.backends, "another authority is another backend");
}

#[test]
fn faults_of_tls_to_backends_are_told_with_their_files() {
    let dir = with_certificates();
    fs::write(dir.path().join("empty.pem"), "").unwrap();
    let folder = format!("{}/", dir.path().display());
    let check = |text: &str, expected: &[&str]| {
        let found = match resolve(&dir.path().join("t.toml"), text, &env) {
            Ok(_) => Vec::new(),
            Err(error) => error.faults.iter().map(|fault| fault.to_string().replace(&folder, "")).collect(),
        };
        assert_eq!(found, expected, "{text}");
    };
    let secure = |text: &str, expected: &[&str]| {
        check(&format!("{SECURE}ca_file = \"ca.pem\"\n{text}"), expected);
    };
    secure("", &[]);
    check(
        "[backend.a]\nurls = [\"http://a\", \"unix:/a\", \"https://a\"]\nca_file = \"ca.pem\"\n",
        &["t.toml:2:32: urls has \"https://a\" and \"http://a:80\", allowed is https for all or for none: \
             requests to the others are not encrypted"],
    );
    check(
        "[backend.a]\nurls = [\"http://a\"]\nca_file = \"ca.pem\"\nserver_name = \"b\"\n",
        &[
            "t.toml:3:11: ca_file in [backend.a] needs https, urls has no https:// address",
            "t.toml:4:15: server_name in [backend.a] needs https, urls has no https:// address",
        ],
    );
    let ca = |file: &str, expected: &str| {
        check(
            &format!("{SECURE}ca_file = \"{file}\"\n"),
            &[&format!("t.toml:3:11: ca_file in [backend.app]{expected}")],
        );
    };
    ca("missing.pem", ": missing.pem: No such file or directory (os error 2)");
    ca("empty.pem", ": empty.pem: it has no certificate in PEM");
    ca("ca.key", ": ca.key: it has no certificate in PEM");
    ca("", " is \"\", allowed is the path of a file");
    secure(
        "client_certificate = \"me.pem\"\n",
        &["t.toml:4:22: client_certificate in [backend.app] needs client_key too: set both or neither"],
    );
    secure(
        "client_key = \"me.key\"\n",
        &["t.toml:4:14: client_key in [backend.app] needs client_certificate too: set both or neither"],
    );
    secure(
        "client_certificate = \"me.pem\"\nclient_key = \"other.key\"\n",
        &[
            "t.toml:5:14: client_key in [backend.app]: other.key is not the key of the certificate in me.pem: keys may not be consistent: KeyMismatch",
        ],
    );
    secure(
        "client_certificate = \"me.key\"\nclient_key = \"me.key\"\n",
        &["t.toml:4:22: client_certificate in [backend.app]: me.key: it has no certificate in PEM"],
    );
    secure(
        "server_name = \"a b\"\n",
        &["t.toml:4:15: server_name in [backend.app]: \"a b\" is neither a host name nor an address"],
    );
    secure(
        "client_certificate = \"me.pem\"\nclient_key = \"me.key\"\n[[route]]\npath = \"/*\"\nfiles = \".\"\n",
        &[
            "t.toml:6:1: files of route \"/*\" is ., where clients could fetch files of the server: dir in [log] (data/log), \
             spool_dir (data/spool), the development authority (data/tls), the configuration (t.toml), sqlite in [sink.main] (data/tollgate.sqlite), \
             client_key in [backend.app] (me.key). Choose a separate folder",
        ],
    );
}

#[test]
fn certificates_are_for_everybody_to_read_and_not_for_scripts_to_write_over() {
    let dir = with_certificates();
    fs::write(dir.path().join("a.luau"), "").unwrap();
    fs::create_dir(dir.path().join("tls")).unwrap();
    for file in ["ca.pem", "me.pem"] {
        fs::rename(dir.path().join(file), dir.path().join("tls").join(file)).unwrap();
    }
    let fault = |route: &str| {
        let backend =
            "ca_file = \"tls/ca.pem\"\nclient_certificate = \"tls/me.pem\"\nclient_key = \"me.key\"\n";
        let text = format!("{SECURE}{backend}[[route]]\npath = \"/*\"\n{route}\n");
        resolve(&dir.path().join("t.toml"), &text, &env).err().map(|error| error.to_string())
    };
    assert_eq!(fault("files = \"tls\""), None);
    let error = fault("script = \"a.luau\"\nupload_dir = \"tls\"").unwrap();
    for own in ["ca_file in [backend.app] (", "client_certificate in [backend.app] ("] {
        assert!(error.contains(own), "{error}");
    }
}
