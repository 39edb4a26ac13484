//! Stores that do not create each object once: two real servers with the protocol of S3. The check names
//! them, and no record is lost or doubled, because the database decides by the position and the chain of
//! checksums. `make stores` runs these tests.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "the tests of the program use the rest")]
#[path = "../it/client.rs"]
mod client;
#[path = "../../../tollgate-log/tests/log/forge.rs"]
mod forge;
mod fork;
#[allow(dead_code, reason = "the tests of stores that create each object once use the rest")]
#[path = "../../../tollgate-ship/tests/store/law.rs"]
mod law;
#[allow(dead_code, reason = "the tests of the program use the rest")]
#[path = "../it/program.rs"]
mod program;
#[path = "../../../tollgate-ship/tests/store/segments.rs"]
mod segments;
mod servers;

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Barrier;
use std::thread;

use tollgate_log::{DiskStorage, read_footer};
use tollgate_ship::{SegmentIdentity, Store};

use fork::{Forks, LAST, PENULTIMATE, RECORDS};
use program::{App, printed};
use servers::{ACCESS_KEY, SECRET_KEY, Weak, WeakServer};

/// Machines that ship one forked log at the same time.
const MACHINES: usize = 16;
/// Races of all machines. Which machine wins differs.
const RACES: usize = 5;

/// A machine that loads from a place into SQLite.
struct Loading {
    app: App,
    endpoint: String,
    place: String,
}

impl Loading {
    fn new(server: &WeakServer, place: &str) -> Self {
        let app = App::new("[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n", &[]);
        Self { app, endpoint: server.endpoint(), place: place.to_owned() }
    }

    fn load(&self) -> Output {
        Command::new(program::BINARY)
            .args(["load", "--once", "--from", &self.place, "--endpoint", &self.endpoint])
            .arg(self.app.path())
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .output()
            .unwrap()
    }

    fn numbers(&self) -> Vec<u64> {
        let numbers = self.app.query::<i64>("SELECT n FROM a ORDER BY n");
        numbers.into_iter().map(|n| n.try_into().unwrap()).collect()
    }
}

/// Checks the rows after a load: the rows of one fork to its end, or up to the segment at which the chain
/// breaks. Returns whether the whole fork is there.
fn is_whole(forks: &Forks, numbers: &[u64], output: &Output) -> bool {
    let text = printed(output);
    let winner = numbers.iter().find(|n| (PENULTIMATE..LAST).contains(*n)).expect("a row of a fork");
    let fork = winner - PENULTIMATE;
    let before: Vec<_> = forks.common.iter().copied().chain([*winner]).collect();
    let mut whole: Vec<_> = before.iter().chain(&forks.rest).copied().chain([LAST + fork]).collect();
    whole.sort_unstable();
    assert_eq!(whole.len() as u64, RECORDS);
    if output.status.success() {
        assert!(numbers == whole, "fork {fork}: {numbers:?}: {text}");
        return true;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(numbers == before, "fork {fork}: {numbers:?}: {text}");
    false
}

#[test]
fn a_weak_store_keeps_the_rest_of_the_law() {
    for kind in Weak::ALL {
        let server = WeakServer::start(kind);
        law::holds_apart_from_creates(&server.store("s3://logs"), kind.conditional_create());
    }
}

#[test]
fn the_check_of_stores_names_a_weak_store() {
    for kind in Weak::ALL {
        let server = WeakServer::start(kind);
        let app = App::new(
            &format!(
                "[log]\nnode = \"web\"\n[[route]]\npath = \"/\"\nreply = {{ body = \"hello\" }}\n[ship.main]\nstore = \"s3://logs\"\nendpoint = \"{}\"\n\
                 access_key = \"{ACCESS_KEY}\"\nsecret_key = \"file:key\"\n",
                server.endpoint()
            ),
            &[],
        );
        app.write("key", SECRET_KEY);
        let text = app.succeed(&["check", "--store"]);
        let expected = format!("store s3://logs: conditional create: {}\n", kind.conditional_create());
        assert!(text.ends_with(&expected), "{kind:?}: {text}");
    }
}

#[test]
fn of_sixteen_forks_of_a_log_one_is_loaded_or_the_chain_stops_the_load() {
    let forks = Forks::of(MACHINES);
    for kind in Weak::ALL {
        let server = WeakServer::start(kind);
        let mut results = BTreeMap::<_, u32>::new();
        for race in 0..RACES {
            let place = format!("s3://logs/race-{race}");
            let start = Barrier::new(MACHINES);
            thread::scope(|scope| {
                let ship = |fork| {
                    let store = server.store(&place);
                    start.wait();
                    forks.ship(fork, &store);
                };
                (0..MACHINES).for_each(|fork| drop(scope.spawn(move || ship(fork))));
            });
            let loading = Loading::new(&server, &place);
            let output = loading.load();
            let numbers = loading.numbers();
            let is_whole = is_whole(&forks, &numbers, &output);
            *results.entry(if is_whole { "whole" } else { "stopped" }).or_default() += 1;
            let again = loading.load();
            assert_eq!(again.status.code(), output.status.code(), "{}", printed(&again));
            assert!(loading.numbers() == numbers, "a second load changes nothing");
        }
        println!("{kind:?}: {results:?}");
    }
}

#[test]
fn a_segment_of_another_fork_stops_the_log_and_changes_no_row() {
    let forks = Forks::of(2);
    for kind in Weak::ALL {
        let server = WeakServer::start(kind);
        let place = "s3://logs/mixed";
        let store = server.store(place);
        forks.ship(0, &store);
        let (name, file) = forks.last_segment(1);
        let identity = SegmentIdentity::of(&read_footer(&DiskStorage, &file).unwrap().unwrap());
        store.replace(&name.to_string(), &file, &identity).unwrap();
        let loading = Loading::new(&server, place);
        for _ in 0..2 {
            let output = loading.load();
            assert!(!is_whole(&forks, &loading.numbers(), &output));
            println!("{}", printed(&output));
        }
    }
}
