//! `tollgate load --from`: any number of loaders load the records that other machines shipped, each record
//! once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tollgate_log::DiskStorage;
use tollgate_ship::{FolderStore, NodeName, Pacer, ship_once};

use crate::cluster::shared;
use crate::crash::{Random, seed};
use crate::forge::Forged;
use crate::gateway::{ACCESS_KEY, Gateway, SECRET_KEY};
use crate::postgres::numbers_of;
use crate::program::{App, BINARY, eventually, printed};
use crate::sinks::{STREAMS, all, record};

/// Number of loaders that are killed.
const KILLS: u64 = 5;
/// Maximum of the random time until a loader is killed. This maximum is about the duration of the whole load.
const LIFE_US_MAX: u64 = 300_000;

/// Web machines that share a store with a database machine.
pub(crate) struct Fleet {
    store: TempDir,
    machines: Vec<App>,
}

impl Fleet {
    pub(crate) fn of(count: usize) -> Self {
        let machine = |at| App::new(&STREAMS.replace("[log]", &format!("[log]\nnode = \"web/{at}\"")), &[]);
        Self { store: TempDir::new().unwrap(), machines: (0..count).map(machine).collect() }
    }

    /// Runs a machine that records numbers in one run and ships them.
    pub(crate) fn run(&self, machine: usize, numbers: std::ops::Range<u64>) {
        let server = self.machines[machine].start_with(&["--no-load"]);
        record(&mut server.connect(), "/a", numbers);
        assert!(server.stop().0.success());
        self.ship(machine);
    }

    fn ship(&self, machine: usize) {
        let store = FolderStore::new(self.store.path(), Arc::new(Pacer::new(None)));
        let node = NodeName::encode(&format!("web/{machine}")).unwrap();
        let dir = self.machines[machine].log_dir();
        ship_once(&DiskStorage, &dir, &node, &store, false, |_| {}).unwrap();
    }

    pub(crate) fn store(&self) -> &str {
        self.store.path().to_str().unwrap()
    }

    /// Returns the segments in the store, sorted.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.store.path().join("v1/seg")];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }
}

/// Makes the database machine. Its configuration has only a sink.
pub(crate) fn database_machine(sink: &str) -> App {
    App::new(&format!("[sink.main]\n{sink}\n"), &[])
}

pub(crate) const SQLITE: &str = "sqlite = \"data/tollgate.sqlite\"";

fn numbers(app: &App) -> Vec<u64> {
    app.query::<i64>("SELECT n FROM a ORDER BY n").into_iter().map(|n| n.try_into().unwrap()).collect()
}

#[test]
fn what_several_machines_shipped_is_loaded_once_however_often_the_command_runs() {
    let fleet = Fleet::of(2);
    for (machine, first) in [(0, 0), (1, 1_000), (0, 2_000), (1, 3_000)] {
        fleet.run(machine, first..first + 1_000);
    }
    let loader = database_machine(SQLITE);
    for _ in 0..2 {
        let output = loader.run(&["load", "--once", "--from", fleet.store()]);
        assert!(output.status.success(), "{}", printed(&output));
        assert!(numbers(&loader) == all(4_000), "{}", printed(&output));
    }
    fleet.run(0, 4_000..4_500);
    let output = loader.run(&["load", "--once", "--from", fleet.store()]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(numbers(&loader) == all(4_500), "{}", printed(&output));
    assert_eq!(loader.query::<i64>("SELECT count(*) FROM tollgate_rejects"), [0]);
}

#[test]
fn a_missing_and_a_damaged_segment_are_named_and_the_other_logs_are_loaded() {
    let fleet = Fleet::of(3);
    (0..3).for_each(|machine| fleet.run(machine, machine as u64 * 3_000..(machine as u64 + 1) * 3_000));
    let of_machine = |machine: &str| {
        let is_of = |path: &PathBuf| path.to_str().unwrap().contains(&format!("web%2F{machine}"));
        fleet.segments().into_iter().filter(is_of).collect::<Vec<_>>()
    };
    let (first, second) = (of_machine("0"), of_machine("1"));
    assert!(first.len() > 2 && second.len() > 2, "several segments a log");
    fs::remove_file(&first[0]).unwrap();
    let mut bytes = fs::read(&second[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&second[0], bytes).unwrap();
    let loader = database_machine(SQLITE);
    let output = loader.run(&["load", "--once", "--from", fleet.store()]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("of web%2F0: the segment that begins with record 1 is missing in the store"),
        "{text}"
    );
    assert!(
        text.contains("of web%2F1: the segment that begins with record 1 is damaged in the store"),
        "{text}"
    );
    assert!(numbers(&loader) == (6_000..9_000).collect::<Vec<_>>(), "{text}");
    fs::remove_file(&second[0]).unwrap();
    (0..2).for_each(|machine| fleet.ship(machine));
    fs::remove_dir_all(fleet.store.path().join("v1/want")).unwrap();
    let output = loader.run(&["load", "--once", "--from", fleet.store()]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(numbers(&loader) == all(9_000));
}

/// Changes the last value of a segment, and computes the digest of the footer again. The checksum of the
/// batch stays the old one.
fn lie(segment: &Path) {
    let mut bytes = fs::read(segment).unwrap();
    let batch = Forged::parse(&bytes).batches.pop().unwrap();
    let footer_bytes = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap());
    let footer = bytes.len() - footer_bytes as usize;
    let padding = batch.payload.len().next_multiple_of(8) - batch.payload.len();
    bytes[footer - padding - 8] ^= 1;
    let digest = Sha256::digest(&bytes[..footer]);
    bytes[footer + 56..][..32].copy_from_slice(&digest);
    let end = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[footer..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    fs::write(segment, bytes).unwrap();
}

#[test]
fn a_segment_that_lies_with_a_right_digest_brings_no_wrong_row() {
    let fleet = Fleet::of(1);
    fleet.run(0, 0..3_000);
    let segments = fleet.segments();
    assert!(segments.len() > 2, "several segments");
    lie(&segments[1]);
    let loader = database_machine(SQLITE);
    let output = loader.run(&["load", "--once", "--from", fleet.store()]);
    let (text, numbers) = (printed(&output), numbers(&loader));
    assert!(
        text.contains("\"message\":\"records are missing\"") && text.contains("payload checksum is"),
        "{text}"
    );
    // The wrong value would be a number twice.
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
    assert!(
        numbers.starts_with(&all(1_000)) && numbers.ends_with(&[2_999]) && numbers.len() < 3_000,
        "{text}"
    );
}

#[test]
fn a_store_that_is_away_is_a_fault_and_not_an_empty_store() {
    let loader = database_machine(SQLITE);
    let output = loader.run(&["load", "--once", "--from", "/nonexistent/handover"]);
    let text = printed(&output);
    assert!(!output.status.success() && text.contains("/nonexistent/handover does not exist"), "{text}");
}

/// Starts a loader in a separate process, with a separate folder of fetched segments.
fn start_loader(loader: &App, store: &str, spool: &Path) -> std::process::Child {
    Command::new(BINARY)
        .args(["load", "--once", "--from", store, "--spool"])
        .arg(spool)
        .arg(loader.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn loaders_of_three_machines_that_are_killed_load_every_record_once() {
    let fleet = Fleet::of(3);
    for round in 0..2 {
        (0..3).for_each(|machine| {
            let first = (round * 3 + machine as u64) * 1_000;
            fleet.run(machine, first..first + 1_000);
        });
    }
    let database = shared().database();
    let loader = database_machine(&format!("postgres = \"{}\"", shared().url(&database)));
    let (spools, mut random) = (TempDir::new().unwrap(), Random(seed()));
    let spool = |at: usize| spools.path().join(at.to_string());
    for _ in 0..KILLS {
        let mut loaders: Vec<_> = (0..3).map(|at| start_loader(&loader, fleet.store(), &spool(at))).collect();
        thread::sleep(Duration::from_micros(random.below(LIFE_US_MAX)));
        loaders.iter_mut().for_each(|loader| loader.kill().unwrap());
        loaders.into_iter().for_each(|loader| drop(loader.wait_with_output().unwrap()));
    }
    let loaders: Vec<_> = (0..3).map(|at| start_loader(&loader, fleet.store(), &spool(at))).collect();
    for loader in loaders {
        let output = loader.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", printed(&output));
    }
    assert!(numbers_of(&database, "a") == all(6_000), "{} rows", numbers_of(&database, "a").len());
}

#[test]
fn a_loader_that_follows_loads_what_is_shipped_later_and_answers_how_far_it_is() {
    let fleet = Fleet::of(1);
    let loader = database_machine(SQLITE);
    let following = loader.follow(&["load", "--from", fleet.store()]);
    fleet.run(0, 0..500);
    let has = |count: usize| loader.has_table("a") && numbers(&loader).len() == count;
    eventually("the first run is loaded", || has(500).then_some(()));
    fleet.run(0, 500..900);
    eventually("the second run is loaded", || has(900).then_some(()));
    assert!(numbers(&loader) == all(900));
    following.end(rustix::process::Signal::TERM);
    let answers = fs::read_dir(fleet.store.path().join("v1/pos/main")).unwrap();
    let answers = answers.map(|answer| fs::read_to_string(answer.unwrap().path()).unwrap());
    let lasts: Vec<u64> = answers
        .map(|answer| answer.lines().find_map(|line| line.strip_prefix("last ")).unwrap().parse().unwrap())
        .collect();
    assert_eq!(lasts.iter().sum::<u64>(), 900, "each log is answered to its end");
}

#[test]
fn what_machines_shipped_to_an_s3_server_is_loaded_once_and_answered() {
    let (gateway, fleet) = (Gateway::start(), Fleet::of(2));
    for (machine, first) in [(0, 0), (1, 1_000)] {
        let server = fleet.machines[machine].start_with(&["--no-load"]);
        record(&mut server.connect(), "/a", first..first + 1_000);
        assert!(server.stop().0.success());
        let node = NodeName::encode(&format!("web/{machine}")).unwrap();
        let dir = fleet.machines[machine].log_dir();
        ship_once(&DiskStorage, &dir, &node, &gateway.store(), false, |_| {}).unwrap();
    }
    let loader = database_machine(SQLITE);
    for _ in 0..2 {
        let output = Command::new(BINARY)
            .args(["load", "--once", "--from", "s3://logs"])
            .args(["--endpoint", &format!("http://{}", gateway.address)])
            .arg(loader.path())
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .output()
            .unwrap();
        let text = printed(&output);
        assert!(output.status.success() && !text.contains(SECRET_KEY), "{text}");
        assert!(numbers(&loader) == all(2_000), "{text}");
    }
    assert_eq!(fs::read_dir(gateway.path_of("v1/pos/main")).unwrap().count(), 2, "both logs are answered");
}
