//! A loader that is killed at any system call, and two loaders at once: each record is in a file once, and
//! all files have the bytes of a load without a fault.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tollgate_load::{
    CatalogPlace, IcebergOptions, LoadOptions, Loader, ParquetOptions, RestOptions, SinkKind, SinkOptions,
};
use tollgate_log::DiskStorage;

use crate::iceberg;
use crate::logs::PATIENCE;
use crate::rest;
use crate::site::Site;

/// Names the folder of the site for the process that loads.
const SITE: &str = "TOLLGATE_LAKE_SITE";
/// Names the catalog for the process that loads, if the sink is of Iceberg.
const CATALOG: &str = "TOLLGATE_LAKE_CATALOG";
const ROWS: i64 = 400;
/// System calls at which a loader is killed.
const CALLS: &str = "renameat2,fsync,mkdir,openat,write,unlinkat";
/// System calls of a catalog of SQLite.
const CATALOG_CALLS: &str = "pwrite64,unlink";
/// System calls of a REST catalog.
const REST_CALLS: &str = "connect,writev,recvfrom";

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A generator of numbers that a seed repeats (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Starts a process that loads the site, and that is killed at a call if `kill` names one.
fn start(site: &Site, kill: Option<(&str, u64)>) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = match kill {
        None => Command::new(&program),
        Some((call, count)) => {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            strace.args(["-e", &format!("inject={call}:signal=KILL:when={count}")]).arg(&program);
            strace
        }
    };
    spawn(&mut command, site)
}

fn spawn(command: &mut Command, site: &Site) -> Child {
    match &site.catalog {
        Some(CatalogPlace::Sqlite(path)) => drop(command.env(CATALOG, path)),
        Some(CatalogPlace::Rest(rest)) => drop(command.env(CATALOG, &rest.address)),
        Some(CatalogPlace::Postgres(_)) | None => {}
    }
    command.args(["--ignored", "--exact", "kills::a_process_loads_the_site", "--nocapture"]);
    command.env(SITE, site.folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Returns the names of the calls at which a loader of a site is killed.
fn names_of_calls(site: &Site) -> Vec<&'static str> {
    let own = match &site.catalog {
        Some(CatalogPlace::Rest(_)) => REST_CALLS,
        Some(_) => CATALOG_CALLS,
        None => "",
    };
    CALLS.split(',').chain(own.split(',')).filter(|call| !call.is_empty()).collect()
}

/// Removes everything that loads made.
fn empty(site: &Site) {
    drop(fs::remove_dir_all(site.lake()));
    if let Some(CatalogPlace::Sqlite(path)) = &site.catalog {
        let journal = path.with_extension("sqlite-journal");
        [path, &journal].into_iter().for_each(|file| drop(fs::remove_file(file)));
    }
    if let Some(server) = &site.rest {
        server.state().tables = Default::default();
    }
}

/// Returns the calls of a whole load, each with the largest number of such calls that one thread makes.
fn calls_of(site: &Site) -> Vec<(String, u64)> {
    let trace = site.folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", &format!("trace={}", names_of_calls(site).join(",")), "-o"]).arg(&trace);
    strace.arg(std::env::current_exe().unwrap());
    assert!(!wait(spawn(&mut strace, site)));
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in fs::read_to_string(&trace).unwrap().lines() {
        let mut words = line.split_whitespace();
        let (thread, call) = (words.next().unwrap(), words.next().unwrap_or_default());
        if let Some((call, _)) = call.split_once('(') {
            *counts.entry((call.to_owned(), thread.to_owned())).or_default() += 1;
        }
    }
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for ((call, _), count) in counts {
        let most = calls.entry(call).or_default();
        *most = count.max(*most);
    }
    calls.into_iter().collect()
}

/// Waits for a process. Returns whether it was killed.
fn wait(mut process: Child) -> bool {
    let status = process.wait().unwrap();
    let is_killed = status.signal() == Some(9);
    assert!(is_killed || status.success(), "{status}");
    is_killed
}

#[test]
#[ignore = "the other tests start it in a process of its own"]
fn a_process_loads_the_site() {
    let Ok(folder) = std::env::var(SITE) else { return };
    let folder = PathBuf::from(folder);
    let parquet =
        ParquetOptions { file_bytes: Site::FILE_BYTES, ..ParquetOptions::in_folder(folder.join("lake")) };
    let kind = match std::env::var(CATALOG) {
        Err(_) => SinkKind::Parquet(Box::new(parquet)),
        Ok(path) => {
            let catalog = match path.starts_with("http://") {
                true => CatalogPlace::Rest(Box::new(RestOptions::new(&path))),
                false => CatalogPlace::Sqlite(path.into()),
            };
            let options = IcebergOptions::new(parquet, catalog);
            SinkKind::Iceberg(Box::new(IcebergOptions { namespace: "web".to_owned(), ..options }))
        }
    };
    let sink = SinkOptions::new("lake", kind);
    let options = LoadOptions::new(folder.join("log"), sink);
    Loader::start(options, Arc::new(DiskStorage), None).unwrap().finish(PATIENCE).unwrap();
}

/// Returns the bytes of all data files, by their names.
fn contents(site: &Site) -> BTreeMap<String, Vec<u8>> {
    let files = site.files("visits").into_iter();
    files.map(|file| (file.clone(), fs::read(site.lake().join(file)).unwrap())).collect()
}

/// Returns a site, and the files that a load without a fault makes of it.
fn loaded(site: Site) -> (Site, BTreeMap<String, Vec<u8>>) {
    site.write(ROWS);
    site.load();
    let expected = contents(&site);
    assert!(expected.len() > 2);
    empty(&site);
    (site, expected)
}

#[test]
fn a_loader_that_is_killed_at_any_call_brings_each_record_once() {
    kill_loaders(Site::new());
}

#[test]
fn a_loader_of_tables_that_is_killed_at_any_call_brings_each_record_once() {
    let site = kill_loaders(iceberg::site());
    iceberg::check_engines(&site, ROWS.cast_unsigned());
}

#[test]
fn a_loader_of_a_rest_catalog_that_is_killed_at_any_call_brings_each_record_once() {
    let site = kill_loaders(rest::site());
    rest::check_engines(&site, ROWS.cast_unsigned());
}

fn kill_loaders(site: Site) -> Site {
    let (rounds, seed) = (number_of("TOLLGATE_LAKE_ROUNDS", 12), number_of("TOLLGATE_SEED", 1));
    let (site, expected) = loaded(site);
    let calls = calls_of(&site);
    assert_eq!(calls.len(), names_of_calls(&site).len(), "{calls:?}");
    let mut killed = 0;
    for round in 0..rounds {
        let mut random = Random(seed.wrapping_add(round));
        empty(&site);
        for turn in 0..=random.below(3) {
            let (call, count) = &calls[usize::try_from(random.below(calls.len() as u64)).unwrap()];
            let process = start(&site, Some((call, 1 + random.below(*count))));
            // Another loader runs beside it in a third of the later turns.
            let beside = (turn > 0 && random.below(3) == 0).then(|| start(&site, None));
            killed += u64::from(wait(process));
            beside.map(wait);
        }
        assert!(!wait(start(&site, None)));
        site.check_all(ROWS);
        assert!(contents(&site) == expected, "round {round} of seed {seed} made other files");
        if rounds > 20 && round % 50 == 49 {
            println!("{} rounds of seed {seed}, {killed} kills", round + 1);
        }
    }
    println!("{rounds} rounds of seed {seed}, {killed} kills");
    assert!(killed >= rounds, "{killed} kills in {rounds} rounds");
    site
}

#[test]
fn two_loaders_at_once_make_the_same_files() {
    load_at_once(Site::new());
}

#[test]
fn two_loaders_of_tables_at_once_make_the_same_files() {
    load_at_once(iceberg::site());
}

fn load_at_once(site: Site) {
    let (site, expected) = loaded(site);
    for round in 0..number_of("TOLLGATE_LAKE_ROUNDS", 12).min(100) {
        empty(&site);
        let processes: Vec<_> = (0..3).map(|_| start(&site, None)).collect();
        processes.into_iter().for_each(|process| assert!(!wait(process)));
        site.check_all(ROWS);
        assert!(contents(&site) == expected, "round {round} made other files");
    }
}

#[test]
fn loaders_that_disagree_about_the_size_of_files_bring_each_record_once() {
    let (site, _) = loaded(Site::new());
    for round in 0..20 {
        empty(&site);
        let loaders: Vec<_> = [1, 20 << 10, 1 << 30]
            .map(|file_bytes| {
                let mut sink = site.sink();
                if let SinkKind::Parquet(parquet) = &mut sink.kind {
                    parquet.file_bytes = file_bytes;
                }
                Loader::start(site.options(sink), Arc::new(DiskStorage), None).unwrap()
            })
            .into();
        // The end of each loader begins its loads, so all of them begin at about the same time.
        std::thread::scope(|scope| {
            for loader in loaders {
                scope.spawn(|| loader.finish(PATIENCE).unwrap());
            }
        });
        site.check_all(ROWS);
        assert!(!contents(&site).is_empty(), "round {round} made no file");
    }
}
