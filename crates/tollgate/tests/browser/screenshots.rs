//! The pictures of the admin page in the docs. `make screenshots` makes them.
//!
//! A real server gives the page and the form of the status. The numbers are made up, because a picture has to
//! show a day of a busy server.

use std::f64::consts::TAU;
use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::devtools::{Page, View};
use crate::program::App;
use crate::replay::{Replay, reply_of, status_of};

const CONFIG: &str = r#"
[[route]]
path = "/events"
collect = true
stream = "events"
[[route]]
path = "/hooks/github"
collect = true
stream = "events"
[[route]]
path = "/api/*"
proxy = "shop"
[[route]]
path = "/healthz"
reply = { body = "ok" }
[backend.shop]
urls = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
[stream.events]
columns = [{ name = "kind", type = "text", from = "record.kind" }]
"#;
const BYTES_MAX: usize = 100_000;
/// Seconds that the database has been away in the picture.
const AWAY_SECONDS: f64 = 95.0;

/// The state of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    Busy,
    DatabaseAway,
}

/// Returns the requests per second at an age in seconds.
fn rate_at(age: f64) -> f64 {
    let day = (age / 86_400.0 * TAU).cos() * 1_300.0;
    let noise = (age * 0.71).sin() * 90.0 + (age * 2.3).sin() * 70.0 + (age * 0.013).sin() * 320.0;
    3_900.0 + day + noise
}

/// Returns the values of a series of `cells` cells, the oldest first.
fn series(cells: u32, step: f64, value: impl Fn(f64) -> f64) -> Value {
    (0..cells).map(|cell| value(f64::from(cells - 1 - cell) * step)).collect()
}

fn grain(scene: Scene, cells: u32, step: f64, end: f64) -> Value {
    let is_away = |age: f64| scene == Scene::DatabaseAway && age < AWAY_SECONDS;
    let burst = |age: f64| if (310.0..330.0).contains(&age) { 1.0 } else { 0.0 };
    let ripple = |age: f64| 1.0 + (age * 1.7).sin() * 0.08 + (age * 0.4).sin() * 0.05;
    let of = |value: &dyn Fn(f64) -> f64| series(cells, step, value);
    let values = json!({
        "requests": of(&rate_at),
        "client_errors": of(&|age| rate_at(age) * 0.012),
        "failures": of(&|_| 0.4),
        "refusals": of(&|age| 6.0 + burst(age) * 700.0),
        "p50_seconds": of(&|age| 0.00019 * ripple(age)),
        "p99_seconds": of(&|age| (0.0028 + burst(age) * 0.006) * ripple(age)),
        "sync_p99_seconds": of(&|age| 0.0034 * ripple(age)),
        "unsynced_seconds": of(&|age| 0.0011 * ripple(age)),
        "log_bytes": of(&|age| rate_at(age) * 132.0),
        "rows": of(&|age| if is_away(age) { 0.0 } else { rate_at(age) * 0.62 }),
        "rejects": of(&|_| 0.2),
        "lag_seconds": of(&|age| if is_away(age) { AWAY_SECONDS - age } else { 0.3 * ripple(age) }),
        "free_bytes": of(&|age| 4.1e11 + age * 330_000.0),
        "cpu_share": of(&|age| rate_at(age) * 0.00019),
        "resident_bytes": of(&|age| 1.8e8 * (1.0 + (age * 0.002).sin() * 0.02)),
    });
    json!({ "step_seconds": step, "end": end, "values": values })
}

fn now() -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the page compares these times with the clock of its browser"
    )]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn history(scene: Scene) -> Value {
    let end = now().floor();
    json!({
        "now": now(),
        "fine": grain(scene, 600, 1.0, end),
        "coarse": grain(scene, 8_640, 10.0, (end / 10.0).floor() * 10.0),
    })
}

/// Puts the members of `news` into an object.
fn put(object: &mut Value, news: Value) {
    let Value::Object(news) = news else { panic!("{news}") };
    object.as_object_mut().unwrap().extend(news);
}

/// Gives the status of an idle server the figures of the scene, `age` seconds after the page opened.
fn dress(mut status: Value, scene: Scene, age: f64) -> Value {
    let rate = rate_at(-age);
    let served = (rate_at(0.0) * (271_000.0 + age)).floor();
    let rows = if scene == Scene::Busy { rate * 0.62 } else { 0.0 };
    status["uptime_seconds"] = (271_000.0 + age).into();
    status["config"]["source"] = "/etc/tollgate/tollgate.toml".into();
    put(
        &mut status["rates"],
        json!({
            "requests": rate, "failures": 0.4, "refusals": 6.0, "connections": 74.0, "records": rate * 0.62,
            "received_bytes": rate * 390.0, "sent_bytes": rate * 170.0, "log_bytes": rate * 132.0,
            "rows": rows,
        }),
    );
    put(
        &mut status["latency"],
        json!({
            "p50_seconds": 0.00019, "p99_seconds": 0.0028, "p999_seconds": 0.011,
            "sync": { "p50_seconds": 0.0009, "p99_seconds": 0.0034 },
        }),
    );
    put(
        &mut status["requests"],
        json!({
            "2xx": served, "3xx": (served / 60.0).floor(), "4xx": (served / 85.0).floor(), "5xx": 812,
            "in_flight": 31,
        }),
    );
    put(&mut status["connections"], json!({ "now": 1_284, "in_flight_bytes": 3_900_000 }));
    put(&mut status["refusals"], json!({ "rate": (served / 700.0).floor(), "too_large": 214 }));
    put(
        &mut status["log"],
        json!({
            "free_bytes": 4.1e11, "reserve_reached_seconds": 1_240_000.0, "records": (served * 0.62).floor(),
            "segments": 311, "segments_bytes": 20_700_000_000u64, "unsynced_seconds": 0.0011,
        }),
    );
    status["process"]["cpu_seconds"] = (age * 0.78).into();
    status["process"]["resident_bytes"] = 180_000_000.into();
    put(&mut status["backends"][0], json!({ "requests": (served / 9.0).floor(), "in_flight": 6 }));
    for (route, part) in status["routes"].as_array_mut().unwrap().iter_mut().zip([0.11, 0.41, 0.01, 0.21]) {
        put(
            route,
            json!({
                "requests_per_second": rate * part, "p50_seconds": 0.0002, "p99_seconds": 0.0028,
                "2xx": (served * part).floor(),
            }),
        );
    }
    put(
        &mut status["sinks"][0],
        json!({
            "state": "loading", "rows": (served * 0.62).floor(), "lag_seconds": 0.3, "lag_records": 740,
        }),
    );
    status["recent_lines"] = json!([]);
    if scene == Scene::DatabaseAway {
        take_database_away(&mut status, rate, age);
    }
    status
}

fn take_database_away(status: &mut Value, rate: f64, age: f64) {
    let error = "cannot connect to 10.0.4.2:5432: Connection refused (os error 111)";
    let lag = AWAY_SECONDS + age;
    put(
        &mut status["sinks"][0],
        json!({
            "state": "retrying", "last_error": error, "lag_seconds": lag,
            "lag_records": (rate * 0.62 * lag).floor(),
        }),
    );
    let advice =
        "check what the error names, usually the database: records wait in the log and are loaded later";
    let text = format!("sink main takes no rows: {error}");
    status["warnings"] = json!([{ "code": "sink_failing", "text": text, "advice": advice }]);
}

fn write(name: &str, picture: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to").join(name);
    assert!(picture.len() < BYTES_MAX, "{name}: {} bytes, limit {BYTES_MAX} bytes", picture.len());
    println!("{}: {} bytes", path.display(), picture.len());
    fs::write(path, picture).unwrap();
}

fn shoot(app: &App, scene: Scene, view: View, name: &str) {
    let (base, begun) = (status_of(app), Instant::now());
    let status = move || dress(base.clone(), scene, begun.elapsed().as_secs_f64());
    let replay = Replay::serve(reply_of(app, "/"), status, history(scene));
    let mut page = Page::open(&replay.url(), view);
    page.wait_for("document.querySelectorAll('.plot path.c1').length === 9");
    // The rates between polls need several polls.
    page.wait_for(
        "performance.getEntriesByType('resource').filter(item => item.name.endsWith('/status')).length > 4",
    );
    write(name, &page.picture(70));
}

#[test]
#[ignore = "it writes pictures of the docs: make screenshots"]
fn the_pictures_of_the_docs_are_of_the_page() {
    let app = App::new(CONFIG, &[]);
    let server = app.start();
    shoot(&app, Scene::Busy, View { width: 1280, height: 860, is_dark: false }, "page-busy.webp");
    shoot(
        &app,
        Scene::DatabaseAway,
        View { width: 1280, height: 860, is_dark: false },
        "page-database-away.webp",
    );
    shoot(&app, Scene::DatabaseAway, View { width: 360, height: 780, is_dark: true }, "page-phone.webp");
    server.stop();
}
