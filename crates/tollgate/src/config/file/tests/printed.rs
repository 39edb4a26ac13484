//! The printed form of a text: the defaults, every key, and a second printing that gives the same text.

use tollgate_server::HandlerSpec;

use super::super::super::units::show_size;
use super::*;

#[test]
fn an_empty_file_is_all_defaults() {
    let config = load("").unwrap();
    let text = config.to_string();
    let expected = r#"[server]
listen = ["127.0.0.1:8080"]
backlog = 4096
workers = CORES
trusted_proxies = []
client_header = "x-forwarded-for"
head_bytes_max = "16KiB"
target_bytes_max = "8000B"
fields_max = 100
underscore_names = "refuse"
body_bytes_max = "1MiB"
body_memory_max = "256KiB"
spool_dir = "FOLDER/data/spool"
spool_bytes_max = "1GiB"
spool_encrypt = false
xml_doctype = "refuse"
head_timeout = "10s"
body_timeout = "10m"
idle_timeout = "75s"
idle_timeout_crowded = "5s"
write_timeout = "30s"
body_rate_min = "500B"
body_rate_grace = "5s"
write_rate_min = "500B"
pipeline_depth_max = 256
requests_per_connection_max = "off"
connections_max = 16384
connections_per_client_max = "off"
in_flight_bytes_max = "256MiB"
queue_age_max = "1s"
request_id = "trusted"
trace = "take"
drain_delay = "0ms"
drain_timeout = "10s"

[tls]
min_version = "1.2"
unknown_name = "first"
handshake_timeout = "5s"
redirect = "permanent"
redirect_port = 443
client_auth = "require"

[admin]
listen = "unix:FOLDER/data/log/admin.sock"
hosts = []
worker_stall_max = "10s"

[log]
dir = "FOLDER/data/log"
segment_bytes_max = "64MiB"
segment_age_max = "1m"
sync_age_max = "200ms"
retain = "24h"
retain_bytes_max = "10GiB"
reserve = "RESERVE"
queue_bytes_max = "64MiB"
queue_age_max = "5s"
transaction_bytes_max = "4MiB"
digest = "sha256"
node = "NODE"

[script]
cpu_budget = "50ms"
wall_budget = "30s"
heartbeat = "15s"
memory_bytes_max = "16MiB"
vm_bytes_max = "256MiB"
reply_bytes_max = "16MiB"
emit_records_max = 10000
shared_bytes_max = "16MiB"
env = []

[load]
in_server = true
lag_max = "1m"
store_retain = "7d"

[sink.main]
sqlite = "FOLDER/data/tollgate.sqlite"
from = "oldest"
rejects_max = 1000
"#;
    let folder = config.sinks[0].sqlite().unwrap().parent().unwrap().parent().unwrap().display().to_string();
    let expected = expected
        .replace("FOLDER", &folder)
        .replace("RESERVE", &show_size(config.log.reserve_bytes))
        .replace("CORES", &defaults::cores().to_string())
        .replace("RESERVE", &show_size(config.log.reserve_bytes))
        .replace("NODE", &defaults::host_name());
    assert_eq!(text, expected);
}

#[test]
fn every_key_is_taken() {
    let config = load(
        r#"
        [server]
        listen = [
          "${TOLLGATE_TEST}", "[::1]:0", "unix:/run/a.sock", "systemd:web",
          { address = "10.0.0.2:81", proxy_protocol = true, deferred = true },
          { address = "10.0.0.3:81", deferred = false },
          { address = "unix:/run/b.sock", mode = "0600" },
        ]
        backlog = 16
        workers = 3
        trusted_proxies = ["10.0.0.0/8", "::1", "unix"]
        client_header = "forwarded"
        head_bytes_max = "8KiB"
        target_bytes_max = "4000B"
        fields_max = 50
        underscore_names = "drop"
        body_bytes_max = "2MiB"
        body_memory_max = "64KiB"
        spool_dir = "/var/spool/tollgate"
        spool_bytes_max = "2GiB"
        spool_encrypt = true
        xml_doctype = "skip"
        head_timeout = "1s"
        body_timeout = "2s"
        idle_timeout = "3s"
        idle_timeout_crowded = "1s"
        write_timeout = "4s"
        body_rate_min = "1KiB"
        body_rate_grace = "2s"
        write_rate_min = "0B"
        pipeline_depth_max = 5
        requests_per_connection_max = 1000
        connections_max = 100
        connections_per_client_max = 10
        in_flight_bytes_max = "64MiB"
        queue_age_max = "500ms"
        request_id = "silent"
        trace = "pass"
        drain_delay = "5s"
        drain_timeout = "0ms"
        [admin]
        listen = "0.0.0.0:9080"
        token = "${SECRET}"
        hosts = ["Admin.Internal"]
        worker_stall_max = "30s"
        [log]
        dir = "/var/log/tollgate"
        segment_bytes_max = "1GiB"
        segment_age_max = "24h"
        sync_age_max = "5ms"
        retain = "0ms"
        retain_bytes_max = "500GiB"
        reserve = "20GiB"
        queue_bytes_max = "100MiB"
        queue_age_max = "20ms"
        transaction_bytes_max = "8MiB"
        digest = "none"
        node = "web-1"
        [script]
        cpu_budget = "10ms"
        wall_budget = "2m"
        heartbeat = "20s"
        memory_bytes_max = "1MiB"
        vm_bytes_max = "64MiB"
        reply_bytes_max = "2MiB"
        shared_bytes_max = "1GiB"
        env = ["API_KEY", "a \"b\""]
        [stream.scores]
        ack = "loaded"
        ack_timeout = "3s"
        unknown = "ignore"
        columns = [
          { name = "n", type = "int" },
          { name = "agent", type = "text", from = "request.header.user-agent" },
        ]
        [[route]]
        path = "/a/{id}/*"
        host = "Example.ORG"
        methods = ["POST", "GET"]
        script = "a.luau"
        stream = "scores"
        body_bytes_max = "10B"
        body_timeout = "5m"
        body_rate_min = "2KiB"
        body_rate_grace = "3s"
        cors = "*"
        concurrency_max = 12
        rate_limit = { rate = "100/s" }
        [[route]]
        path = "/b"
        collect = true
        stream = "scores"
        cors = { origins = ["https://a.example", "http://localhost:3000"], methods = ["POST"], headers = ["X-A"], expose = ["ETag"], credentials = true, max_age = "1h" }
        rate_limit = [{ rate = "10/m", burst = 3, by = "request.header.x-key", keys_max = 1000 }, { rate = "5/h", by = "route" }]
        [[route]]
        path = "/c"
        reply = { status = 404, content_type = "text/html", body = "<p>\"no\"\n$${X}</p>" }
        [sink.other]
        sqlite = "x.sqlite"
        "#,
    )
    .unwrap();
    let folder = config.sinks[0].sqlite().unwrap().parent().unwrap();
    let expected = r#"[server]
listen = ["10.0.0.1:80", "[::1]:0", "unix:/run/a.sock", "systemd:web", { address = "10.0.0.2:81", proxy_protocol = true, deferred = true }, "10.0.0.3:81", { address = "unix:/run/b.sock", mode = "0600" }]
backlog = 16
workers = 3
trusted_proxies = ["10.0.0.0/8", "::1/128", "unix"]
client_header = "forwarded"
head_bytes_max = "8KiB"
target_bytes_max = "4000B"
fields_max = 50
underscore_names = "drop"
body_bytes_max = "2MiB"
body_memory_max = "64KiB"
spool_dir = "/var/spool/tollgate"
spool_bytes_max = "2GiB"
spool_encrypt = true
xml_doctype = "skip"
head_timeout = "1s"
body_timeout = "2s"
idle_timeout = "3s"
idle_timeout_crowded = "1s"
write_timeout = "4s"
body_rate_min = "1KiB"
body_rate_grace = "2s"
write_rate_min = "0B"
pipeline_depth_max = 5
requests_per_connection_max = 1000
connections_max = 100
connections_per_client_max = 10
in_flight_bytes_max = "64MiB"
queue_age_max = "500ms"
request_id = "silent"
trace = "pass"
drain_delay = "5s"
drain_timeout = "0ms"

[tls]
min_version = "1.2"
unknown_name = "first"
handshake_timeout = "5s"
redirect = "permanent"
redirect_port = 443
client_auth = "require"

[admin]
listen = "0.0.0.0:9080"
token = "${SECRET}"
hosts = ["admin.internal"]
worker_stall_max = "30s"

[log]
dir = "/var/log/tollgate"
segment_bytes_max = "1GiB"
segment_age_max = "24h"
sync_age_max = "5ms"
retain = "0ms"
retain_bytes_max = "500GiB"
reserve = "20GiB"
queue_bytes_max = "100MiB"
queue_age_max = "20ms"
transaction_bytes_max = "8MiB"
digest = "none"
node = "web-1"

[script]
cpu_budget = "10ms"
wall_budget = "2m"
heartbeat = "20s"
memory_bytes_max = "1MiB"
vm_bytes_max = "64MiB"
reply_bytes_max = "2MiB"
emit_records_max = 10000
shared_bytes_max = "1GiB"
env = ["API_KEY", 'a "b"']

[stream.scores]
ack = "loaded"
ack_timeout = "3s"
unknown = "ignore"
columns = [
  { name = "n", type = "int", from = "record.n" },
  { name = "agent", type = "text", from = "request.header.user-agent" },
]

[[route]]
path = "/a/{id}/*"
host = "example.org"
methods = ["GET", "POST"]
script = "FOLDER/a.luau"
stream = "scores"
body_bytes_max = "10B"
body_timeout = "5m"
body_rate_min = "2KiB"
body_rate_grace = "3s"
cors = { origins = ["*"], headers = ["*"], expose = [], credentials = false, max_age = "10m" }
concurrency_max = 12
rate_limit = [{ rate = "100/s", burst = 100, by = "request.remote_addr", keys_max = 65536 }]
refused = false

[[route]]
path = "/b"
collect = { types = ["default"], reply = "summary", status = 200 }
stream = "scores"
body_bytes_max = "2MiB"
body_timeout = "2s"
body_rate_min = "1KiB"
body_rate_grace = "2s"
cors = { origins = ["https://a.example", "http://localhost:3000"], methods = ["POST"], headers = ["X-A"], expose = ["ETag"], credentials = true, max_age = "1h" }
concurrency_max = "off"
rate_limit = [{ rate = "10/m", burst = 3, by = "request.header.x-key", keys_max = 1000 }, { rate = "5/h", burst = 5, by = "route", keys_max = 65536 }]
refused = false

"#;
    let text = config.to_string();
    assert!(text.starts_with(&expected.replace("FOLDER", &folder.display().to_string())), "{text}");
    let HandlerSpec::Reply { body, .. } = &config.server.routes[2].handler else { panic!("{text}") };
    assert_eq!(body.as_ref(), b"<p>\"no\"\n${X}</p>");
}

#[test]
fn a_printed_configuration_reads_back_to_the_same() {
    let dir = app();
    let file = dir.path().join("t.toml");
    let nasty = r#"
        [log]
        node = "a'b\"c\\d"
        [stream.b]
        columns = [{ name = "x y", type = "json", from = "record" }, { name = "l", type = "uuid", from = "log.id" },
          { name = "m", type = "text", from = "log.node" }]
        [stream.a]
        key = "request.header.idempotency-key"
        key_window = "90m"
        columns = [
          { name = "'", type = "text", default = "it's $${HOME}" },
          { name = "i", type = "int", default = -5 },
          { name = "f", type = "float", default = 1e300 },
          { name = "b", type = "bool", default = false },
          { name = "t", type = "timestamp", default = 2026-01-02T03:04:05Z },
          { name = "j", type = "json", default = '{"a":[1,"x"]}' },
          { name = "n", type = "json", default = 5 },
          { name = "m", type = "text", required = true, max = "1KiB", over = "truncate" },
          { name = "e", type = "text", redact = { hash = "${SECRET}" } },
          { name = "d", type = "text", redact = "drop" },
          { name = "c", type = "inet", from = "request.remote_addr", redact = "truncate" },
        ]
        [[route]]
        path = "/x'y"
        reply = { body = "line\nline\t'''\"\"\"$${HOME} \\ \u0007 ü" }
        [[route]]
        path = "/s"
        host = "[0:0::1]"
        script = "a.luau"
        stream = "a"
        cors = { origins = ["https://a.example"], credentials = true, expose = ["X-A", "B!"] }
        [[route]]
        path = "*"
        script = "a.luau"
        cors = "*"
        rate_limit = { rate = "7/s", by = "request.cookie.it's" }
        [sink.s]
        sqlite = "$${HOME}/it's.sqlite"
    "#;
    let mut first = resolve(&file, nasty, &env).unwrap();
    let second = resolve(&file, &first.to_string(), &env).unwrap();
    // The printed form sets every value.
    assert!(!first.is_connections_max_written && second.is_connections_max_written);
    first.is_connections_max_written = true;
    assert_eq!(second.to_string(), first.to_string());
    assert_eq!(format!("{second:?}"), format!("{first:?}"));
    assert_eq!(first.server.streams[0].name, "b", "streams keep the order of the file");
    let printed = first.to_string();
    for line in [
        r#"key = "request.header.idempotency-key""#,
        r#"key_window = "90m""#,
        r#"{ name = "j", type = "json", from = "record.j", default = '{"a":[1,"x"]}' },"#,
        r#"{ name = "m", type = "text", from = "record.m", required = true, max = "1KiB", over = "truncate" },"#,
        r#"{ name = "e", type = "text", from = "record.e", redact = { hash = "${SECRET}" } },"#,
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
    let shown = format!("{printed}{first:?}");
    assert!(!shown.contains("0123456789abcdef"), "a secret is never printed");
}
