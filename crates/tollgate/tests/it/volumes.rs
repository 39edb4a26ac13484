//! Volumes that move: a server fills two disks in turn, another machine loads them, and they come back. Each
//! record is one row, also if a disk is pulled out in any state.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::admin::{get, get_until, sample};
use crate::alarms::check_alarms;
use crate::program::{App, Following, Running, eventually, printed};
use crate::sinks::{all, record};
use crate::volume_disk::{VolumeDisk, are_devices};

const STREAM: &str = r#"
workers = 2
[log]
node = "web 1"
segment_bytes_max = "4KiB"
retain = "0ms"
[stream.a]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;
/// Maximum number of journeys until everything is loaded.
const JOURNEYS_MAX: usize = 20;

/// A web machine with two disks, and a database machine.
struct Site {
    // Dropped first: it unmounts.
    disks: Vec<VolumeDisk>,
    folder: TempDir,
    web: App,
    db: App,
    same_device: bool,
}

impl Site {
    /// Makes both machines. `more` are further keys of the ship target.
    fn new(more: &str) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["a", "b", "db"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let same_device = !are_devices();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name).display().to_string());
        let ship = format!(
            "[ship.main]\nvolumes = [\"{a}\", \"{b}\"]\nsame_device = {same_device}\npoll = \"20ms\"\n\
             heartbeat = \"20ms\"\n{more}"
        );
        let web = App::new(&format!("{STREAM}{ship}"), &[]);
        let sink = "[log]\nnode = \"db 1\"\n[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n";
        let db = App::new(sink, &[]);
        let disks = ["disk a", "disk b"].map(|name| VolumeDisk::new(folder.path(), name));
        let mut site = Self { disks: disks.into(), folder, web, db, same_device };
        for (at, name) in ["a", "b"].into_iter().enumerate() {
            site.put(at, name);
            let made = site.ship("init", name);
            assert!(made.contains("generation 1: empty"), "{made}");
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&mut self, disk: usize, name: &str) {
        let place = self.path(name);
        self.disks[disk].put(&place);
    }

    /// Returns the arguments of a command on a folder.
    fn with_device<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let flag = self.same_device.then_some("--same-device");
        arguments.iter().copied().chain(flag).collect()
    }

    /// Runs `tollgate ship` with a command on the folder of a volume.
    fn ship(&self, command: &str, name: &str) -> String {
        let place = self.path(name).display().to_string();
        self.web.succeed(&self.with_device(&["ship", command, &place]))
    }

    /// Returns the state of the disk, as the command prints it.
    fn state(&self, disk: usize) -> String {
        let place = self.disks[disk].place().expect("it is in a machine");
        let text = self.ship("state", place.file_name().unwrap().to_str().unwrap());
        let (_, state) = text.trim().split_once(": ").unwrap();
        state.split(',').next().unwrap().to_owned()
    }

    /// Returns the id of the disk's volume.
    fn id(&self, disk: usize) -> String {
        let place = self.disks[disk].place().expect("it is in a machine");
        let file = fs::read_to_string(place.join("tollgate-volume")).unwrap();
        file.lines().find_map(|line| line.strip_prefix("id ")).unwrap().to_owned()
    }

    fn wait_for_state(&self, disk: usize, state: &str) {
        eventually(&format!("disk {disk} is {state}"), || (self.state(disk) == state).then_some(()));
    }

    /// Runs the loader once on the volume in the database machine.
    fn load(&self, more: &[&str]) -> (Option<i32>, String) {
        let place = self.path("db").display().to_string();
        let output = self.db.run(&self.with_device(&[&["load", "--once", "--from", &place], more].concat()));
        (output.status.code(), printed(&output))
    }

    /// Starts a loader that goes on until it gets a signal.
    fn follow(&self, more: &[&str]) -> Following {
        let place = self.path("db").display().to_string();
        self.db.follow(&self.with_device(&[&["load", "--from", &place], more].concat()))
    }

    /// Moves a disk to the database machine, loads it, and moves it back.
    fn carry(&mut self, disk: usize) {
        let home = self.disks[disk].place().unwrap().to_owned();
        self.disks[disk].pull();
        self.put(disk, "db");
        let (code, text) = self.load(&[]);
        assert!(code == Some(0) && text.contains(": done, "), "{text}");
        self.disks[disk].pull();
        self.disks[disk].put(&home);
    }

    /// Closes and carries disks until the database has this number of rows.
    fn carry_until_loaded(&mut self, count: u64) {
        for _ in 0..JOURNEYS_MAX {
            for disk in 0..self.disks.len() {
                match self.state(disk).as_str() {
                    "full" | "loading" => self.carry(disk),
                    "filling" => drop(self.ship("close", ["a", "b"][disk])),
                    _ => {}
                }
            }
            if numbers(&self.db).len() as u64 >= count {
                break;
            }
        }
        assert_eq!(numbers(&self.db), all(count));
    }

    /// Returns the report of the server on its volumes.
    fn report(&self) -> Value {
        let status: Value = self.web.succeed(&["status", "--json"]).parse().unwrap();
        status["ships"][0].clone()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.report()).filter(|ship| is_so(ship)))
    }

    /// Waits until each segment that is sealed now is on a volume, or is loaded.
    fn wait_until_shipped(&self) {
        self.wait_for("all is on a volume", |ship| {
            let count = |key: &str| ship[key].as_u64().unwrap();
            ship["unshipped_segments"] == 0
                && count("segments") + count("present_segments") > 0
                && ship["volumes"]["again_segments"] == 0
        });
    }

    fn stop(&self, server: Running) -> String {
        let (status, log) = server.stop();
        assert!(status.success(), "{log}");
        log
    }
}

/// Returns the rows of the database machine, in order. There are none before the first load.
fn numbers(db: &App) -> Vec<u64> {
    let file = db.path().join("data/tollgate.sqlite");
    if file.exists() { crate::sinks::numbers_in(&file, "a") } else { Vec::new() }
}

fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn two_volumes_carry_each_record_once_come_back_empty_and_free_the_log() {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let server = site.web.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..2_000);
    site.wait_until_shipped();
    let closed = site.ship("close", "a");
    assert!(closed.contains(": full, ") && closed.contains("filled by web%201"), "{closed}");
    site.wait_for("it is away", |ship| ship["volumes"]["away_volumes"] == 1);
    let kept = site.web.segments().len();
    assert!(kept > 3, "nothing is loaded, so nothing is deleted: {kept}");
    record(&mut client, "/a", 2_000..3_000);
    site.wait_for_state(1, "filling");
    site.wait_until_shipped();
    assert_eq!(site.state(0), "full");
    site.carry(0);
    site.wait_for_state(0, "empty");
    assert!(numbers(&site.db).len() < 3_000, "the second volume is not loaded");
    let returned = site.wait_for("it is back", |ship| ship["volumes"]["returned_volumes"] == 1);
    assert_eq!(returned["volumes"]["again_segments"], 0, "{returned}");
    eventually("what is loaded is deleted", || (site.web.segments().len() < kept).then_some(()));
    let metrics = get(&site.web, "/metrics").content;
    let folders = |condition: &str| {
        sample(&metrics, &format!("tollgate_ship_volume_folders{{ship=\"main\",condition=\"{condition}\"}}"))
    };
    assert_eq!((folders("empty"), folders("filling"), folders("not_mounted")), (1, 1, 0), "{metrics}");
    let screen = site.web.succeed(&["status"]);
    let line = screen.lines().find(|line| line.contains("  filling ")).expect(&screen);
    assert!(line.starts_with(&site.path("b").display().to_string()), "{line}");
    site.stop(server);
    // Without a server, the command closes the volume, and the next start takes it back.
    let closed = site.ship("close", "b");
    assert!(closed.contains(": full, "), "{closed}");
    site.carry(1);
    assert_eq!(numbers(&site.db), all(3_000));
    let (code, text) = site.load(&["--volume"]);
    assert!(code == Some(1) && text.contains("is not mounted"), "{text}");
    let server = site.web.start();
    site.wait_for_state(1, "empty");
    eventually("all is deleted", || (site.web.segments().len() <= 1).then_some(()));
    site.stop(server);
    assert_eq!(site.db.query::<i64>("SELECT count(*) FROM tollgate_rejects"), [0]);
}

#[test]
fn hooks_move_the_volumes_without_an_operator() {
    let (tools, base) = (TempDir::new().unwrap(), "volume_age = \"0ms\"\nvolume_bytes = \"1B\"\n");
    let (away, back) = (tools.path().join("away"), tools.path().join("back"));
    let mut site = Site::new(&format!("{base}on_full = \"{}\"\n", away.display()));
    let (db, lock, tools) = (site.path("db"), tools.path().join("lock"), tools.path());
    let (db, lock, tools) = (db.display(), lock.display(), tools.display());
    // Each disk waits until the place in the database machine is free.
    let wait = format!("until mkdir {lock} 2>/dev/null; do sleep 0.02; done");
    let note = format!("echo $TOLLGATE_VOLUME_PATH >{tools}/$TOLLGATE_VOLUME_ID");
    let place = format!("place=$(cat {tools}/$TOLLGATE_VOLUME_ID)");
    let (to_db, to_web) = if site.same_device {
        (
            format!("rmdir {db}; mv $TOLLGATE_VOLUME_PATH {db}; mkdir $TOLLGATE_VOLUME_PATH"),
            format!("rmdir $place; mv {db} $place; mkdir {db}"),
        )
    } else {
        (
            format!(
                "device=$(findmnt -no SOURCE $TOLLGATE_VOLUME_PATH); image=$(losetup -nO BACK-FILE $device)\n\
                 echo \"$image\" >{tools}/$TOLLGATE_VOLUME_ID.image\n\
                 umount $TOLLGATE_VOLUME_PATH; mount -o loop \"$image\" {db}"
            ),
            format!(
                "until umount {db}; do sleep 0.02; done\n\
                 mount -o loop \"$(cat {tools}/$TOLLGATE_VOLUME_ID.image)\" $place"
            ),
        )
    };
    write_program(&away, &format!("{wait}\n{note}\n{to_db}"));
    write_program(&back, &format!("{place}\n{to_web}\nrmdir {lock}"));
    // The last records are sealed soon too.
    let quick = site.web.config().replace("[log]\n", "[log]\nsegment_age_max = \"1s\"\n");
    site.web.write("tollgate.toml", &quick);
    let server = site.web.start();
    let loader = site.follow(&["--volume", "--on-done", &back.display().to_string()]);
    record(&mut server.connect(), "/a", 0..1_000);
    let both = |ship: &Value| ship["volumes"]["returned_volumes"].as_u64() > Some(1);
    let report = site.wait_for("both came back", both);
    assert_eq!(report["volumes"]["hook_fault"], Value::Null, "{report}");
    eventually("all sealed segments are loaded", || {
        let ship = site.report();
        (ship["unshipped_segments"] == 0 && ship["volumes"]["away_volumes"] == 0).then_some(())
    });
    site.stop(server);
    let (status, log) = loader.end(Signal::TERM);
    assert!(status.success(), "{log}");
    let found = numbers(&site.db);
    assert!(found.len() >= 600, "{} rows", found.len());
    assert_eq!(found, all(found.len() as u64), "each record once, without a gap");
    // A hook may still be moving a disk.
    let places = ["a", "b", "db"].map(|name| site.path(name));
    site.disks.iter_mut().for_each(|disk| disk.unmount_from(&places));
}

/// States in which a disk is pulled out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Empty,
    Filling,
    Full,
    Loading,
    Done,
    Cleaning,
}

/// Pulls the first disk out in a state without warning. The server works on meanwhile, and the disk comes
/// back.
fn pull_out(state: State) {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let mut server = site.web.start();
    let count = if state == State::Empty { 0 } else { 1_000 };
    if count > 0 {
        record(&mut server.connect(), "/a", 0..count);
        site.wait_until_shipped();
    }
    if !matches!(state, State::Empty | State::Filling) {
        site.ship("close", "a");
        site.wait_for("it is away", |ship| ship["volumes"]["away_volumes"] == 1);
    }
    let mut home = site.path("a");
    match state {
        State::Empty | State::Filling | State::Full => site.disks[0].rip(),
        State::Loading => {
            site.disks[0].pull();
            site.put(0, "db");
            rip_while_loading(&mut site);
            home = site.path("db");
        }
        State::Done | State::Cleaning => {
            site.disks[0].pull();
            site.put(0, "db");
            let (code, text) = site.load(&[]);
            assert_eq!(code, Some(0), "{text}");
            site.disks[0].pull();
            if state == State::Done {
                site.stop(server);
                site.put(0, "a");
                site.disks[0].rip();
            } else {
                site.put(0, "a");
                // The server has begun to clean, or has just cleaned.
                site.wait_for("the answers are here", |ship| ship["volumes"]["away_volumes"] == 0);
                site.disks[0].rip();
                server.kill();
            }
            server = site.web.start();
        }
    }
    let is_expected = matches!(state, State::Full | State::Loading | State::Done);
    let fault = format!("{} is not mounted: ", site.path("a").display());
    if is_expected {
        let ship =
            site.wait_for("it is away", |ship| ship["volumes"]["folders"][0]["condition"] == "not_mounted");
        assert_eq!(ship["volumes"]["folders"][0]["is_missing"], false, "{ship}");
    } else {
        get_until(
            &site.web,
            "/readyz",
            200,
            &format!("volume_not_mounted: ship target main: volume {fault}"),
        );
    }
    record(&mut server.connect(), "/a", count..count + 1_000);
    // The other volume takes the segments.
    site.wait_for_state(1, "filling");
    site.wait_until_shipped();
    site.disks[0].put(&home);
    if state == State::Loading {
        let (code, text) = site.load(&[]);
        assert_eq!(code, Some(0), "{text}");
        site.disks[0].pull();
        site.put(0, "a");
    }
    site.wait_for("it is found again", |ship| ship["volumes"]["folders"][0]["fault"].is_null());
    site.stop(server);
    let server = site.web.start();
    site.wait_for("the last run is on a volume too", |ship| ship["unshipped_segments"] == 0);
    site.carry_until_loaded(count + 1_000);
    eventually("all volumes are empty", || {
        for disk in 0..2 {
            // Segments that were sent twice travel too.
            match site.state(disk).as_str() {
                "full" => site.carry(disk),
                "filling" => drop(site.ship("close", ["a", "b"][disk])),
                _ => {}
            }
        }
        ((site.state(0), site.state(1)) == ("empty".to_owned(), "empty".to_owned())).then_some(())
    });
    eventually("all is deleted", || (site.web.segments().len() <= 1).then_some(()));
    let ship = site.wait_for("nothing is away", |ship| ship["volumes"]["away_volumes"] == 0);
    assert_eq!(ship["volumes"]["gone_segments"], 0, "{ship}");
    site.stop(server);
    assert_eq!(numbers(&site.db), all(count + 1_000));
}

/// Pulls the first disk out of the database machine while it is being loaded.
fn rip_while_loading(site: &mut Site) {
    fs::create_dir_all(site.db.path().join("data")).unwrap();
    let database = Connection::open(site.db.path().join("data/tollgate.sqlite")).unwrap();
    // The loader can commit nothing while this transaction is open.
    database.execute_batch("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE").unwrap();
    let loader = site.follow(&[]);
    site.wait_for_state(0, "loading");
    site.disks[0].rip();
    database.execute_batch("ROLLBACK").unwrap();
    let (status, log) = loader.end(Signal::TERM);
    assert!(status.success(), "{log}");
}

#[test]
fn an_empty_volume_is_pulled_out_and_put_back() {
    pull_out(State::Empty);
}

#[test]
fn a_filling_volume_is_pulled_out_and_put_back() {
    pull_out(State::Filling);
}

#[test]
fn a_full_volume_is_pulled_out_and_put_back() {
    pull_out(State::Full);
}

#[test]
fn a_loading_volume_is_pulled_out_and_put_back() {
    pull_out(State::Loading);
}

#[test]
fn a_done_volume_is_pulled_out_and_put_back() {
    pull_out(State::Done);
}

#[test]
fn a_volume_is_pulled_out_while_it_is_cleaned_and_put_back() {
    pull_out(State::Cleaning);
}

#[test]
fn a_volume_that_is_only_read_answers_by_a_report() {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let server = site.web.start();
    record(&mut server.connect(), "/a", 0..1_000);
    site.wait_until_shipped();
    site.ship("close", "a");
    site.wait_for("it is away", |ship| ship["volumes"]["away_volumes"] == 1);
    // The rest of the log goes to the other volume.
    site.stop(server);
    let kept = site.web.segments().len();
    let full = fs::read(site.path("a").join("tollgate-volume")).unwrap();
    site.disks[0].pull();
    let place = site.path("db");
    site.disks[0].put_to_read(&place);
    let report = site.path("report").display().to_string();
    let (code, text) = site.load(&["--report", &report]);
    assert!(code == Some(0) && text.contains("generation 1: done"), "{text}");
    assert_eq!(fs::read(place.join("tollgate-volume")).unwrap(), full, "the volume is not written");
    let loaded = numbers(&site.db).len() as u64;
    assert!(loaded > 0 && numbers(&site.db) == all(loaded), "{loaded} rows");
    let accepted = site.web.succeed(&["ship", "accept", &report]);
    assert!(accepted.contains("loaded by db%201, 1 position answered, 0 segments asked for"), "{accepted}");
    let server = site.web.start();
    site.wait_for("the answers are here", |ship| ship["volumes"]["away_volumes"] == 0);
    eventually("what is loaded is deleted", || (site.web.segments().len() < kept).then_some(()));
    site.disks[0].pull();
    site.put(0, "a");
    site.wait_for_state(0, "empty");
    site.carry_until_loaded(1_000);
    site.stop(server);
}

#[test]
fn a_lost_volume_is_forgotten_and_its_segments_travel_again() {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let server = site.web.start();
    record(&mut server.connect(), "/a", 0..1_000);
    site.wait_until_shipped();
    site.ship("close", "a");
    site.wait_for("it is away", |ship| ship["volumes"]["away_volumes"] == 1);
    let id = site.id(0);
    site.disks[0].pull();
    site.wait_for("it left", |ship| ship["volumes"]["folders"][0]["condition"] == "not_mounted");
    let screen = site.web.succeed(&["status"]);
    let line = screen.lines().find(|line| line.contains("  away ")).expect(&screen);
    assert!(line.ends_with(&id), "{line}");
    assert_eq!(site.state(1), "empty");
    let forgotten = site.web.succeed(&["ship", "forget", &id]);
    assert!(forgotten.contains("its segments are sent again"), "{forgotten}");
    site.wait_for_state(1, "filling");
    let output = site.web.run(&["ship", "forget", &id]);
    assert!(output.status.code() == Some(1) && printed(&output).contains("no closed volume with the id"));
    get_until(&site.web, "/readyz", 200, "volume_not_mounted: ");
    check_alarms(&site.web, &["TollgateVolumeNotMounted"], || {});
    site.stop(server);
    site.ship("close", "b");
    site.carry(1);
    assert_eq!(numbers(&site.db), all(1_000));
}

#[test]
fn a_host_takes_a_volume_over_only_if_its_operator_orders_it() {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let server = site.web.start();
    record(&mut server.connect(), "/a", 0..1_000);
    site.wait_until_shipped();
    site.stop(server);
    site.disks[0].pull();
    site.put(0, "db");
    let (code, text) = site.load(&[]);
    assert!(code == Some(1) && text.contains("is filling: this machine cannot load it"), "{text}");
    site.ship("close", "db");
    rip_while_loading(&mut site);
    site.put(0, "db");
    let other = App::new("[log]\nnode = \"db 2\"\n[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n", &[]);
    let place = site.path("db").display().to_string();
    let load = |more: &[&str]| {
        let output = other.run(&site.with_device(&[&["load", "--once", "--from", &place], more].concat()));
        (output.status.code(), printed(&output))
    };
    let (code, text) = load(&[]);
    assert!(code == Some(1) && text.contains("is being loaded by host db%201"), "{text}");
    let (code, text) = load(&["--take-over"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(numbers(&other), all(1_000));
    assert_eq!(site.state(0), "done");
}

#[test]
fn a_damaged_segment_is_asked_for_by_the_volume_and_comes_with_the_next_one() {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let server = site.web.start();
    record(&mut server.connect(), "/a", 0..1_000);
    site.wait_until_shipped();
    site.stop(server);
    site.ship("close", "a");
    let mut segments = Vec::new();
    let mut folders = vec![site.path("a").join("v1/seg")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { segments.push(path) }
        }
    }
    segments.sort();
    let mut bytes = fs::read(&segments[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&segments[1], bytes).unwrap();
    site.disks[0].pull();
    site.put(0, "db");
    let (code, text) = site.load(&[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("is damaged in the store") && text.contains(": done, "), "{text}");
    site.disks[0].pull();
    site.put(0, "a");
    let server = site.web.start();
    site.wait_for("it is back", |ship| ship["volumes"]["returned_volumes"] == 1);
    site.wait_until_shipped();
    site.carry_until_loaded(1_000);
    site.stop(server);
}

#[test]
fn faults_of_volumes_are_told_by_the_commands() {
    let site = Site::new("");
    site.stop(site.web.start());
    let failing = |app: &App, arguments: &[&str], code: i32, expected: &str| {
        let output = app.run(arguments);
        let text = printed(&output);
        assert!(output.status.code() == Some(code) && text.contains(expected), "{arguments:?}: {text}");
    };
    let [a, db] = ["a", "db"].map(|name| site.path(name).display().to_string());
    failing(&site.web, &site.with_device(&["ship", "init", &a]), 1, "is a volume already");
    failing(
        &site.web,
        &site.with_device(&["ship", "close", &a]),
        1,
        "is empty: this machine cannot close it",
    );
    failing(&site.web, &["ship", "state", &db, "--same-device"], 1, "it has no file tollgate-volume");
    failing(&site.web, &["ship", "init", &db], 1, "is not mounted: it is on the device of its parent folder");
    failing(&site.web, &["ship", "--to", &a], 1, "is a volume: ");
    failing(&site.web, &["ship", "forget", "x"], 2, "allowed are 32 hexadecimal digits");
    failing(&site.web, &["ship", "accept", &format!("{a}/tollgate-volume")], 1, "is damaged");
    failing(&site.db, &["ship", "accept", "report"], 2, "no [ship.NAME] has volumes");
    failing(&site.web, &["ship", "accept", "report", "--ship", "x"], 2, "[ship.x] lacks volumes");
    failing(&site.db, &["load", "--take-over"], 2, "--from");
    let checked = site.web.succeed(&["check", "--store"]);
    assert!(checked.contains("a is empty (volume "), "{checked}");
    let (code, text) = site.load(&["--volume"]);
    assert!(code == Some(1) && text.contains("is not mounted"), "{text}");
}

#[test]
fn a_reload_changes_the_options_of_volumes_and_keeps_what_they_hold() {
    let mut site = Site::new("volume_age = \"0ms\"\n");
    let server = site.web.start();
    record(&mut server.connect(), "/a", 0..1_000);
    site.wait_until_shipped();
    let before = fs::read_to_string(site.path("a").join("tollgate-volume")).unwrap();
    let text = site.web.config();
    site.web.write("tollgate.toml", &text.replace("volume_age = \"0ms\"", "volume_age = \"1ms\""));
    let answer = site.web.succeed(&["reload"]);
    assert!(answer.contains("changed: ship.main.volume_age: \"0ms\" -> \"1ms\""), "{answer}");
    site.wait_for_state(0, "full");
    let after = fs::read_to_string(site.path("a").join("tollgate-volume")).unwrap();
    let segments = |text: &str| text.lines().filter(|line| line.starts_with("segment ")).count();
    assert_eq!(segments(&before), segments(&after));
    site.stop(server);
    site.carry_until_loaded(1_000);
}
