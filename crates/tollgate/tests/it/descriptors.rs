//! A process that has no descriptor left, and what it owes to those that it serves already.

use std::net::TcpStream;
use std::process::Command;

use crate::admin::get_until;
use crate::program::{App, BINARY};

/// One segment for each of some records.
const CONFIG: &str = r#"
workers = 1
[log]
segment_age_max = "10ms"
[stream.kept]
columns = [{ name = "n", type = "int", from = "record.n" }]
ack = "synced"
[[route]]
path = "/kept"
script = "keep.luau"
stream = "kept"
"#;
const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

#[test]
fn a_log_goes_on_from_segment_to_segment_though_connections_have_every_descriptor() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 100; exec \"$@\"", "sh", BINARY]);
    let server = app.begin_as(shell).serving().unwrap();
    let mut client = server.connect();
    assert!(client.get("/kept?n=0").unwrap().is_success());
    let flood: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(server.address()).ok()).collect();
    get_until(&app, "/readyz", 503, "descriptors_full");
    let begun_with = app.segments().len();
    let mut recorded = 1;
    while app.segments().len() < begun_with + 30 {
        let reply = client.get(&format!("/kept?n={recorded}")).unwrap();
        assert!(reply.is_success(), "{reply:?}");
        recorded += 1;
    }
    drop((flood, client));
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM kept ORDER BY n"), (0..recorded).collect::<Vec<_>>());
}
