//! Requests that the server refuses after it found their route, and before the handler of the route.

use std::process::Command;

use crate::admin::{get, sample};
use crate::program::{App, BINARY};

const CONFIG: &str = r#"
[stream.events]
columns = [{ name = "a", type = "int" }]

[[route]]
path = "/events"
collect = true
stream = "events"
body_bytes_max = "1KiB"
cors = { origins = ["https://app.example"] }

[[route]]
path = "/bare"
reply = {}

[[route]]
path = "/signed"
collect = true
stream = "events"
verify = { preset = "github", secret = "${PATH}" }
"#;

#[test]
fn a_refusal_before_the_handler_is_counted_for_its_route_and_has_a_debug_line() {
    let app = App::new(CONFIG, &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "RUST_LOG=tollgate_server=debug exec \"$@\"", "sh", BINARY]);
    let server = app.begin_as(command).serving().unwrap();
    let ask = |line: &str, fields: &str| {
        let mut client = server.connect();
        assert!(client.send(&format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")));
        client.reply().unwrap().status
    };
    let preflight = "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
    for (line, fields, status) in [
        ("POST /events", "Content-Type: image/png\r\nContent-Length: 1\r\n\r\nx", 415),
        ("POST /events", "Content-Encoding: compress\r\nContent-Length: 1\r\n\r\nx", 415),
        ("POST /events", "Content-Length: 2000\r\n", 413),
        ("PUT /events", "", 405),
        ("DELETE /bare", "", 405),
        ("OPTIONS /events", preflight, 403),
        ("OPTIONS /bare", preflight, 204),
        ("OPTIONS /bare", "", 204),
        ("POST /signed", "", 401),
        ("POST /signed", "X-Hub-Signature-256: sha256=00\r\n", 401),
        ("OPTIONS /signed", "", 204),
    ] {
        assert_eq!(ask(line, fields), status, "{line} {fields}");
    }
    let metrics = get(&app, "/metrics").content;
    for (route, reason) in [
        ("/events", "content_type"),
        ("/events", "content_coding"),
        ("/events", "content"),
        ("/events", "method"),
        ("/events", "preflight"),
        ("/bare", "method"),
        ("/bare", "preflight"),
    ] {
        let series = format!("tollgate_http_refused_total{{route=\"{route}\",reason=\"{reason}\"}}");
        assert_eq!(sample(&metrics, &series), 1, "{series}");
    }
    let signed = "tollgate_http_refused_total{route=\"/signed\",reason=\"signature\"}";
    assert_eq!(sample(&metrics, signed), 2);
    assert!(!metrics.contains("tollgate_refusals_total{reason=\"preflight\"}"), "{metrics}");
    let (_, log) = server.stop();
    for line in [
        r#""route":"/events","method":"POST","reason":"content_type","status":415,"content_type":"image/png""#,
        r#""reason":"content_coding","status":415,"content_encoding":"compress""#,
        r#""route":"/events","method":"POST","reason":"content","status":413"#,
        r#""route":"/bare","method":"DELETE","reason":"method","status":405"#,
        r#"signature refused: the request has no header x-hub-signature-256"#,
        r#"signature refused: no key makes this signature"#,
        r#""route":"/signed","method":"POST","reason":"signature","status":401"#,
        r#""reason":"preflight","status":403,"origin":"https://evil.example","requested_method":"POST""#,
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
}
