//! A disk whose syncs last seconds: requests that would wait too long are refused. The server logs this state
//! once, and accepts requests again when the queue is short.

use std::time::Duration;

use crate::admin::{get as ask, get_until};
use crate::client::get;
use crate::program::{App, eventually_within};

/// Delay of each sync, in microseconds.
const SYNC_TAKES: &str = "delay_enter=3000000";
const PATIENCE: Duration = Duration::from_secs(300);

const CONFIG: &str = r#"
workers = 2
[log]
queue_age_max = "50ms"
[stream.kept]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/kept"
script = "keep.luau"
stream = "kept"
[[route]]
path = "/fixed"
reply = { body = "fixed" }
"#;
const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

fn queue_age(metrics: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix("tollgate_log_queue_age_seconds "));
    line.unwrap().parse().unwrap()
}

#[test]
fn readiness_says_that_the_disk_is_behind_and_the_log_says_it_once() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.begin_with_fault("fdatasync", SYNC_TAKES).serving().unwrap();
    let mut client = server.connect();
    let mut refused = 0;
    let mut next = 1;
    // On a slow machine, a sync of seconds may end between two requests. The test then tries again.
    eventually_within(PATIENCE, "a request is refused", || {
        assert!(client.send(&get(&format!("/kept?n={next}"))));
        eventually_within(PATIENCE, "the queue is old", || {
            (queue_age(&ask(&app, "/metrics").content) > 0.05).then_some(())
        });
        let mut other = server.connect();
        for _ in 0..5 {
            let reply = other.get("/kept?n=0").expect("a reply");
            refused += u64::from(reply.field("retry-after") == Some("1") && reply.status == 503);
        }
        let is_said = ask(&app, "/readyz").content.contains("reason: log_behind: the disk is behind");
        assert!(other.get("/fixed").unwrap().is_success());
        assert!(client.reply().expect("a reply").is_success());
        next += 1;
        (refused > 1 && is_said).then_some(())
    });
    let count = format!("tollgate_refusals_total{{reason=\"log_queue\"}} {refused}\n");
    assert!(ask(&app, "/metrics").content.contains(&count), "{count}");
    get_until(&app, "/readyz", 200, "ready");
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let (begun, over) = (log.matches("the disk is behind").count(), log.matches("the disk keeps up").count());
    assert!(begun == over && begun >= 1 && begun < next, "{begun}, {over}: {log}");
    let rows = app.query::<i64>("SELECT n FROM kept WHERE n > 0 ORDER BY n");
    assert_eq!(rows, (1..next as i64).collect::<Vec<_>>());
}
