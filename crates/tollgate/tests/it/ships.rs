//! Ship targets: a server copies its sealed segments to a folder, and deletes only the segments that it may.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::admin::{after_retain_passes, get, get_until};
use crate::alarms::check_alarms;
use crate::client::Client;
use crate::gateway::{ACCESS_KEY, Gateway, SECRET_KEY};
use crate::program::{App, Running, eventually, printed};

/// Segments of a few records, deleted as soon as they may be.
const CONFIG: &str = r#"
workers = 2
[log]
node = "web 1"
segment_bytes_max = "4KiB"
retain = "0ms"
[stream.all]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/all"
collect = true
stream = "all"
"#;

const SINK: &str = "[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n";

/// Makes an app with these sections, and the folder of the store.
fn app(sections: &str) -> App {
    let app = App::new(&format!("{CONFIG}{sections}"), &[]);
    fs::create_dir(app.path().join("handover")).unwrap();
    app
}

/// Returns a target of this name whose folder has the same name.
fn target(name: &str, more: &str) -> String {
    format!("[ship.{name}]\ndir = \"{name}\"\npoll = \"20ms\"\nheartbeat = \"20ms\"\n{more}")
}

fn record(client: &mut Client, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let reply = client.post("/all", &format!("[{{\"n\":{n}}}]")).expect("a reply");
        assert!(reply.is_success(), "{reply:?}");
    }
}

fn stop(server: Running) -> String {
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    log
}

/// The contents of segments, by log and first record.
type Segments = BTreeMap<(String, String), Vec<u8>>;

/// Returns the files with this extension in the folders below a folder.
fn files(folder: &Path, extension: &str) -> Segments {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut found = Segments::new();
    for log in entries(folder).into_iter().filter(|path| path.is_dir()) {
        for file in entries(&log) {
            if file.extension().is_some_and(|found| found == extension) {
                // A server may delete it or give it another name meanwhile.
                found.extend(fs::read(&file).ok().map(|bytes| ((name(&log), name(&file)), bytes)));
            }
        }
    }
    found
}

fn local(app: &App) -> Segments {
    files(&app.log_dir(), "sealed")
}

fn stored(app: &App, folder: &str) -> Segments {
    files(&app.path().join(folder).join("v1/seg/web%201"), "seg")
}

/// Returns the numbers that the segments of a store have, as the command for logs prints them.
fn numbers(app: &App, folder: &str) -> Vec<u64> {
    for ((log, first), bytes) in stored(app, folder) {
        let folder = app.path().join("restored").join(log);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{first}.sealed")), bytes).unwrap();
    }
    let text = app.succeed(&["log", "cat", "restored"]);
    let number = |line: &str| line.parse::<Value>().unwrap()["n"].as_u64();
    let mut numbers: Vec<_> = text.lines().map(|line| number(line).expect(line)).collect();
    numbers.sort_unstable();
    numbers
}

fn status(app: &App) -> Value {
    app.succeed(&["status", "--json"]).parse().unwrap()
}

/// Waits until the report on the only target is as it should be.
fn wait_for(app: &App, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || Some(status(app)["ships"][0].clone()).filter(|ship| is_so(ship)))
}

/// Waits until the server has reported itself twice. It reads the positions of sinks at least once meanwhile.
fn after_reports(app: &App) {
    let report = || fs::read_to_string(app.path().join("handover/v1/node/web%201")).ok();
    for _ in 0..2 {
        let before = report();
        eventually("the server reports itself", || report().filter(|text| Some(text) != before.as_ref()));
    }
}

fn has_finding(app: &App, code: &str) -> bool {
    let document = status(app);
    let warnings = document["warnings"].as_array().unwrap();
    warnings.iter().any(|warning| warning["code"] == code)
}

#[test]
fn a_server_without_a_sink_ships_every_sealed_segment_and_none_twice() {
    let app = app(&target("handover", ""));
    let server = app.start();
    record(&mut server.connect(), 0..300);
    let log = stop(server);
    assert!(log.contains("\"message\":\"shipped\""), "{log}");
    let kept = local(&app);
    assert!(kept.len() > 3, "{}", kept.len());
    // Nothing is loaded, so nothing is deleted.
    assert_eq!(stored(&app, "handover"), kept);
    assert_eq!(numbers(&app, "handover"), (0..300).collect::<Vec<_>>());
    let (id, _) = kept.keys().next().unwrap();
    let end = fs::read_to_string(app.path().join(format!("handover/v1/end/{id}"))).unwrap();
    assert_eq!(end, "node web%201\nlast 300\n");
    assert!(!app.path().join("data/tollgate.sqlite").exists());
    for command in [&["audit"][..], &["load", "--once"], &["sql", "SELECT 1"]] {
        let output = app.run(command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", printed(&output));
        assert!(printed(&output).contains("has no [sink.NAME]"), "{}", printed(&output));
    }
    let server = app.start();
    let count = kept.len() as u64;
    let ship = wait_for(&app, "the store is compared", |ship| ship["present_segments"] == count);
    assert_eq!(ship["segments"], 0, "{ship}");
    let screen = app.run(&["status"]);
    assert!(!printed(&screen).contains("--no-load"), "{}", printed(&screen));
    let row = printed(&screen);
    let row = row.lines().find(|line| line.starts_with("handover ")).expect("a row").to_owned();
    assert!(row.contains("caught_up") || row.contains("shipping"), "{row}");
    assert!(stop(server).contains("\"segments\":0"));
    assert_eq!(stored(&app, "handover"), kept);
}

#[test]
fn a_store_that_is_away_at_the_start_is_told_and_gets_everything_when_it_is_back() {
    let app = app(&target("away", "delete = \"shipped\"\n"));
    let server = app.start();
    record(&mut server.connect(), 0..300);
    let answer =
        get_until(&app, "/readyz", 200, "ship_stalled: the store of ship target away has failed for");
    assert!(answer.content.starts_with("ready\n") && answer.content.contains("away"), "{}", answer.content);
    let metrics = get(&app, "/metrics").content;
    assert!(metrics.contains("\ntollgate_ship_up{ship=\"away\"} 0\n"), "{metrics}");
    assert!(app.segments().len() > 3, "what the store lacks is kept");
    check_alarms(&app, &["TollgateShipStalled"], || {});
    fs::create_dir(app.path().join("away")).unwrap();
    eventually("it is well again", || (!has_finding(&app, "ship_stalled")).then_some(()));
    eventually("what it has is deleted", || (app.segments().len() <= 1).then_some(()));
    let log = stop(server);
    let line = log.lines().find(|line| line.contains("the store takes no segments")).expect(&log);
    assert!(line.contains("\"ship\":\"away\"") && line.matches("\"target\":").count() == 1, "{line}");
    assert_eq!(numbers(&app, "away"), (0..300).collect::<Vec<_>>());
}

#[test]
fn a_segment_stays_until_the_sinks_of_the_other_machine_have_loaded_it() {
    let app = app(&target("handover", "sinks = [\"one\", \"two\"]\n"));
    let server = app.start();
    record(&mut server.connect(), 0..300);
    let is_shipped = |ship: &Value| ship["segments"].as_u64() > Some(2) && ship["unshipped_segments"] == 0;
    wait_for(&app, "it is shipped", is_shipped);
    after_retain_passes(&app);
    assert!(app.segments().len() > 3, "nothing is loaded yet");
    let (id, _) = local(&app).into_keys().next().unwrap();
    let answer = |sink: &str, last: u64| {
        let folder = app.path().join("handover/v1/pos").join(sink);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(&id), format!("last {last}\nat_ms 1\n")).unwrap();
    };
    answer("one", 300);
    after_reports(&app);
    after_retain_passes(&app);
    assert!(app.segments().len() > 3, "the other sink lacks it");
    answer("two", 300);
    eventually("both have it", || (app.segments().len() <= 1).then_some(()));
    stop(server);
}

#[test]
fn another_machine_loads_what_a_server_ships_and_the_server_then_deletes_it() {
    let app = app(&target("handover", ""));
    let loading = App::new(&format!("{CONFIG}{SINK}"), &[]);
    let store = app.path().join("handover").display().to_string();
    let server = app.start();
    record(&mut server.connect(), 0..300);
    let is_shipped = |ship: &Value| ship["segments"].as_u64() > Some(2) && ship["unshipped_segments"] == 0;
    wait_for(&app, "it is shipped", is_shipped);
    after_reports(&app);
    after_retain_passes(&app);
    assert!(app.segments().len() > 3, "nothing is loaded yet");
    loading.succeed(&["load", "--from", &store, "--once"]);
    eventually("what is loaded is deleted", || (app.segments().len() <= 1).then_some(()));
    record(&mut server.connect(), 300..400);
    stop(server);
    loading.succeed(&["load", "--from", &store, "--once"]);
    let rows = loading.query::<i64>("SELECT n FROM \"all\" ORDER BY n");
    assert_eq!(rows, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_server_that_loads_nothing_ships_and_deletes_nothing_that_its_sink_lacks() {
    let app = app(&format!("{SINK}{}", target("handover", "delete = \"shipped\"\n")));
    let server = app.start_with(&["--no-load"]);
    record(&mut server.connect(), 0..300);
    let is_shipped = |ship: &Value| ship["segments"].as_u64() > Some(2) && ship["unshipped_segments"] == 0;
    wait_for(&app, "it is shipped", is_shipped);
    after_reports(&app);
    after_retain_passes(&app);
    stop(server);
    let kept = local(&app);
    assert!(kept.len() > 3);
    assert_eq!(stored(&app, "handover"), kept);
    let server = app.start();
    eventually("both have it", || (app.segments().is_empty()).then_some(()));
    stop(server);
    assert_eq!(app.query::<i64>("SELECT n FROM \"all\" ORDER BY n"), (0..300).collect::<Vec<_>>());
}

#[test]
fn a_reload_adds_changes_and_removes_a_target() {
    let app = app(SINK);
    let configure = |sections: &str| {
        app.configure(&format!("{CONFIG}{sections}").replace("retain = \"0ms\"", "retain = \"1h\""));
    };
    let reload = |sections: &str| {
        configure(sections);
        app.succeed(&["reload"])
    };
    configure(SINK);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, 0..200);
    let one = target("handover", "delete = \"shipped\"\n");
    let answer = reload(&format!("{SINK}{one}"));
    assert!(answer.contains("changed: ship.handover: added"), "{answer}");
    record(&mut client, 200..400);
    wait_for(&app, "all is shipped", |ship| ship["unshipped_segments"] == 0 && ship["segments"] != 0);
    eventually("earlier segments too", || {
        let (local, stored) = (local(&app), stored(&app, "handover"));
        local.keys().all(|key| stored.contains_key(key)).then_some(())
    });
    // The folder of another store begins empty, and gets all segments that are kept.
    fs::create_dir(app.path().join("other")).unwrap();
    let other = one.replace("dir = \"handover\"", "dir = \"other\"");
    let answer = reload(&format!("{SINK}{other}"));
    assert!(answer.contains("changed: ship.handover.dir: "), "{answer}");
    eventually("the other store has them too", || {
        let (local, stored) = (local(&app), stored(&app, "other"));
        (local.len() > 3 && local.keys().all(|key| stored.contains_key(key))).then_some(())
    });
    let answer = reload(SINK);
    assert!(answer.contains("changed: ship.handover: removed"), "{answer}");
    assert_eq!(status(&app)["ships"].as_array().map(Vec::len), Some(0));
    let before = stored(&app, "other");
    record(&mut client, 400..600);
    stop(server);
    assert_eq!(stored(&app, "other"), before, "it is no target any more");
    assert!(local(&app).len() > before.len());
}

#[test]
fn segments_wait_for_a_target_that_a_reload_added_and_not_for_one_that_it_removed() {
    let app = app(SINK);
    let away = format!("{SINK}{}", target("away", "delete = \"shipped\"\n"));
    app.configure(&format!("{CONFIG}{away}"));
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, 0..200);
    let rows = |count: i64| {
        eventually("it is loaded", || {
            let is_there = app.path().join("data/tollgate.sqlite").exists() && app.has_table("all");
            let loaded = is_there.then(|| app.query::<i64>("SELECT count(*) FROM \"all\""));
            (loaded == Some(vec![count])).then_some(())
        });
    };
    rows(200);
    after_retain_passes(&app);
    assert!(app.segments().len() > 2, "they wait for the target");
    app.configure(&format!("{CONFIG}{SINK}"));
    app.succeed(&["reload"]);
    eventually("what waited is deleted", || (app.segments().len() <= 1).then_some(()));
    app.configure(&format!("{CONFIG}{away}"));
    app.succeed(&["reload"]);
    record(&mut client, 200..400);
    rows(400);
    after_retain_passes(&app);
    assert!(app.segments().len() > 2, "they wait for it again");
    stop(server);
}

#[test]
fn a_reload_onto_a_log_that_cannot_be_shipped_is_refused() {
    let app = app(SINK);
    let without = |config: &str| config.replace("node = \"web 1\"", "node = \"web 1\"\ndigest = \"none\"");
    app.configure(&without(&format!("{CONFIG}{SINK}")));
    let server = app.start();
    app.configure(&format!("{CONFIG}{SINK}{}", target("handover", "")));
    let output = app.run(&["reload"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    let expected = "digest in [log] is \"none\", but [ship.NAME] needs a digest";
    assert!(printed(&output).contains(expected), "{}", printed(&output));
    stop(server);
}

#[test]
fn a_fork_and_a_machine_of_the_same_name_are_told_and_the_server_stays_ready() {
    let app = app(&target("handover", ""));
    let server = app.start();
    record(&mut server.connect(), 0..300);
    stop(server);
    let segments = local(&app);
    let ((log, first), _) = segments.first_key_value().unwrap();
    let (_, other) = segments.last_key_value().unwrap();
    fs::write(app.path().join(format!("handover/v1/seg/web%201/{log}/{first}.seg")), other).unwrap();
    let server = app.start();
    get_until(&app, "/readyz", 200, &format!("ship_forked: ship target handover does not ship log {log}"));
    assert!(app.succeed(&["status"]).contains("another segment 1: "));
    let namesake = "01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b";
    let report = app.path().join("handover/v1/node/web%201");
    eventually("the namesake is told", || {
        let text = format!("log {namesake}\nat_ms 1\nevery_ms 1\nunshipped_segments 0\nunshipped_bytes 0\n");
        // The own report may be written over it before it is read.
        fs::write(&report, text).unwrap();
        let warnings = get(&app, "/readyz").content;
        (warnings.contains("node_twice: ") && warnings.contains(namesake)).then_some(())
    });
    let metrics = get(&app, "/metrics").content;
    assert!(metrics.contains("\ntollgate_ship_forked_logs{ship=\"handover\"} 1\n"), "{metrics}");
    stop(server);
}

#[test]
fn ship_copies_what_is_sealed_beside_a_running_server_and_says_what_became_of_it() {
    let app = App::new(&format!("{CONFIG}{SINK}").replace("retain = \"0ms\"", "retain = \"1h\""), &[]);
    let ship = |arguments: &[&str]| {
        let output = app.run(&[&["ship", "--to"], arguments].concat());
        (output.status.code(), printed(&output))
    };
    let (code, text) = ship(&["handover"]);
    assert_eq!((code, text.contains("nothing was recorded yet")), (Some(1), true), "{text}");
    let server = app.start();
    record(&mut server.connect(), 0..300);
    let sealed = || status(&app)["log"]["segments"].as_u64().unwrap();
    let count = eventually("segments are sealed", || Some(sealed()).filter(|count| *count > 2));
    let (code, text) = ship(&["handover"]);
    assert_eq!((code, text.contains("does not exist or is no folder")), (Some(1), true), "{text}");
    fs::create_dir(app.path().join("handover")).unwrap();
    let (code, text) = ship(&["handover", "--dry-run"]);
    let lines = |text: &str, word: &str| text.lines().filter(|line| line.starts_with(word)).count() as u64;
    assert!(code == Some(0) && lines(&text, "lacking  v1/seg/web%201/") >= count, "{text}");
    assert!(text.contains(" segments lacking ("), "{text}");
    assert_eq!(fs::read_dir(app.path().join("handover")).unwrap().count(), 0);
    let (code, text) = ship(&["handover"]);
    assert!(code == Some(0) && lines(&text, "stored   v1/seg/web%201/") >= count, "{text}");
    stop(server);
    let (code, text) = ship(&["handover"]);
    assert!(code == Some(0) && lines(&text, "present  ") >= count, "{text}");
    assert_eq!(stored(&app, "handover"), local(&app));
    assert_eq!(numbers(&app, "handover"), (0..300).collect::<Vec<_>>());
    let (code, text) = ship(&["data/log/store"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--to is data/log/store, which overlaps dir in [log]"), "{text}");
    let (log, first) = local(&app).into_keys().next().unwrap();
    fs::write(app.path().join(format!("handover/v1/seg/web%201/{log}/{first}.seg")), "other").unwrap();
    for arguments in [&["handover"][..], &["handover", "--dry-run"]] {
        let (code, text) = ship(arguments);
        assert!(code == Some(1) && lines(&text, "forked   ") == 1, "{text}");
        assert!(text.contains(" 1 forked, 0 unsound"), "{text}");
    }
}

#[test]
fn a_configuration_says_what_its_stores_cost_and_which_rights_they_need() {
    let store = "[ship.main]\nstore = \"s3://my-bucket/logs\"\nregion = \"eu-west-1\"\n";
    let app = App::new(&format!("{CONFIG}{store}"), &[]);
    let cost = app.succeed(&["ship", "cost"]);
    assert!(cost.contains("main (s3://my-bucket/logs): ") && cost.contains("dollars a month"), "{cost}");
    let policy: Value = serde_json::from_str(&app.succeed(&["ship", "policy"])).unwrap();
    let text = policy.to_string();
    assert!(text.contains("arn:aws:s3:::my-bucket/logs/v1/seg/web%201/*"), "{text}");
    let policy = app.succeed(&["ship", "policy", "--load"]);
    assert!(policy.contains("arn:aws:s3:::my-bucket/logs/v1/pos/*"), "{policy}");
    let app = self::app(&target("handover", ""));
    for plan in ["cost", "policy"] {
        let output = app.run(&["ship", plan]);
        assert!(!output.status.success(), "a folder has neither: {}", printed(&output));
    }
}

#[test]
fn a_check_of_stores_says_whether_they_create_each_object_once() {
    let gateway = Gateway::start();
    let sections = format!(
        "{}[ship.cloud]\nstore = \"s3://logs\"\nendpoint = \"http://{}\"\naccess_key = \"{ACCESS_KEY}\"\n\
         secret_key = \"file:key\"\n",
        target("handover", ""),
        gateway.address
    );
    let app = App::new(&format!("{CONFIG}{sections}"), &[]);
    app.write("key", SECRET_KEY);
    let output = app.run(&["check", "--store"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "the folder does not exist: {text}");
    assert!(text.contains("ship cloud: store s3://logs: conditional create: atomic"), "{text}");
    assert!(text.contains("ship cloud: store s3://logs: lifecycle rules: "), "{text}");
    assert_eq!(text.matches(": lifecycle rules: ").count(), 1, "a folder has no rules: {text}");
    assert!(text.contains("ship handover: store ") && text.contains("cannot be used: "), "{text}");
    fs::create_dir(app.path().join("handover")).unwrap();
    let text = app.succeed(&["check", "--store"]);
    assert_eq!(text.matches("conditional create: atomic").count(), 2, "{text}");
}
