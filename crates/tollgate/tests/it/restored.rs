//! Log folders that are restored, cloned or part of a snapshot: each record that any of the servers
//! acknowledged is exactly one row.

use std::fs;
use std::path::Path;

use crate::cluster::shared;
use crate::postgres::numbers_of;
use crate::program::{App, Running, eventually};
use crate::sinks::{STREAMS, all, record};

/// A database, and apps that load into it as one sink.
struct SharedDatabase {
    database: String,
}

impl SharedDatabase {
    fn new() -> Self {
        Self { database: shared().database() }
    }

    fn app(&self) -> App {
        let sink = format!("[sink.main]\npostgres = \"{}\"\n", shared().url(&self.database));
        App::new(&format!("{STREAMS}{sink}").replace("retain = \"0ms\"", "retain = \"1h\""), &[])
    }

    fn numbers(&self) -> Vec<u64> {
        numbers_of(&self.database, "a")
    }

    fn wait_for(&self, count: u64) {
        eventually("all is loaded", || (self.numbers().len() as u64 == count).then_some(()));
    }

    /// Checks that every number occurs once, and that the audit of each app is exact.
    fn check(&self, count: u64, apps: &[&App]) {
        assert!(self.numbers() == all(count), "{} rows, {count} records", self.numbers().len());
        for app in apps {
            let audit = app.succeed(&["audit"]);
            assert!(audit.contains("exact: "), "{audit}");
        }
    }
}

fn run(app: &App, numbers: std::ops::Range<u64>) {
    let server = app.start();
    record(&mut server.connect(), "/a", numbers);
    stop(server);
}

fn stop(server: Running) {
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
}

/// Copies a folder, also while a server writes into it. Sockets, and files that are deleted during the copy,
/// are left out.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&entry.path(), &target),
            kind if kind.is_file() => drop(fs::copy(entry.path(), target)),
            _ => {}
        }
    }
}

#[test]
fn a_log_folder_restored_from_an_older_copy_costs_no_record_and_doubles_none() {
    let place = SharedDatabase::new();
    let (app, backup) = (place.app(), tempfile::tempdir().unwrap());
    run(&app, 0..1000);
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 1000..1500);
    copy(&app.log_dir(), backup.path());
    record(&mut client, "/a", 1500..3000);
    stop(server);
    run(&app, 3000..3500);
    place.wait_for(3500);
    fs::remove_dir_all(app.log_dir()).unwrap();
    copy(backup.path(), &app.log_dir());
    run(&app, 3500..4000);
    run(&app, 4000..4100);
    place.check(4100, &[&app]);
}

#[test]
fn a_log_folder_cloned_to_a_second_server_costs_no_record_and_doubles_none() {
    let place = SharedDatabase::new();
    let (app, clone) = (place.app(), place.app());
    // The log is cloned before it is loaded, so both servers find it unloaded.
    let server = app.start_with(&["--no-load"]);
    record(&mut server.connect(), "/a", 0..3000);
    stop(server);
    copy(&app.log_dir(), &clone.log_dir());
    let servers = [app.start(), clone.start()];
    record(&mut servers[0].connect(), "/a", 3000..3500);
    record(&mut servers[1].connect(), "/a", 3500..4000);
    servers.into_iter().for_each(stop);
    place.check(4000, &[&app, &clone]);
}

#[test]
fn a_machine_that_runs_from_a_snapshot_beside_the_first_costs_and_doubles_no_record() {
    let place = SharedDatabase::new();
    let (app, resumed) = (place.app(), place.app());
    let server = app.start();
    let mut client = server.connect();
    record(&mut client, "/a", 0..1234);
    // The copy is a snapshot of the disk of a running machine. Its segment is open, and its records may or
    // may not be loaded.
    copy(&app.log_dir(), &resumed.log_dir());
    let other = resumed.start();
    record(&mut client, "/a", 1234..2000);
    record(&mut other.connect(), "/a", 2000..2500);
    record(&mut client, "/a", 2500..3000);
    other.kill();
    let other = resumed.start();
    record(&mut other.connect(), "/a", 3000..3100);
    [server, other].into_iter().for_each(stop);
    place.check(3100, &[&app, &resumed]);
}
