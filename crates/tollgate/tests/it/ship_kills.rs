//! A machine that records and ships, an S3 server, a machine that loads, and its database: each of them is
//! killed or frozen in turn. Every acknowledged record becomes one row, and nothing waits for a person.
//!
//! `make ship-kills` makes many more turns.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::Cluster;
use crate::crash::{Random, seed};
use crate::gateway::{ACCESS_KEY, Gateway, SECRET_KEY};
use crate::postgres::numbers_in;
use crate::program::{App, BINARY, Running, eventually, printed};

/// Turns, unless `TOLLGATE_SHIP_TURNS` says otherwise.
const TURNS: u64 = 10;
/// Requests of one turn.
const REQUESTS: u64 = 40;

const WEB: &str = r#"
[log]
node = "web"
segment_bytes_max = "16KiB"
segment_age_max = "50ms"
retain = "0ms"
[stream.a]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;

/// All parts, at work.
struct Site {
    gateway: Gateway,
    cluster: Cluster,
    database: String,
    web: App,
    server: Option<Running>,
    base: App,
    loader: Child,
    random: Random,
    /// Numbers whose records were acknowledged.
    acknowledged: BTreeSet<u64>,
    next: u64,
}

impl Site {
    fn start(random: Random) -> Self {
        let (gateway, cluster) = (Gateway::start(), Cluster::start(""));
        let database = cluster.database();
        let target = format!(
            "[ship.main]\nstore = \"s3://logs/a\"\nendpoint = \"http://{}\"\naccess_key = \"{ACCESS_KEY}\"\n\
             secret_key = \"file:key\"\npoll = \"100ms\"\nheartbeat = \"200ms\"\n",
            gateway.address
        );
        let web = App::new(&format!("{WEB}{target}"), &[]);
        web.write("key", &format!("{SECRET_KEY}\n"));
        let base = App::new(&format!("[sink.main]\npostgres = \"{}\"\n", cluster.url(&database)), &[]);
        let server = Some(web.start());
        let loader = start_loader(&base, &gateway);
        let acknowledged = BTreeSet::new();
        Self { gateway, cluster, database, web, server, base, loader, random, acknowledged, next: 0 }
    }

    /// Records numbers. A request without a reply may have been recorded.
    fn record(&mut self) {
        let Some(server) = &self.server else { return };
        let mut client = server.connect();
        for _ in 0..REQUESTS {
            let n = self.next;
            self.next += 1;
            if client.post("/a", &format!("[{{\"n\":{n}}}]")).is_some_and(|reply| reply.is_success()) {
                self.acknowledged.insert(n);
            }
        }
    }

    /// Kills or freezes one part at a random moment of the work.
    fn turn(&mut self, part: u64) {
        self.record();
        thread::sleep(Duration::from_millis(self.random.below(120)));
        let freezes = self.random.below(2) == 0;
        let frozen = Duration::from_millis(1_000 + self.random.below(2_000));
        match (part, freezes) {
            (0, true) => freeze(self.server.as_ref().map_or(0, Running::id), frozen),
            (0, false) => {
                if let Some(server) = self.server.take() {
                    server.kill();
                }
                self.server = Some(self.web.start());
            }
            (1, true) => freeze(self.gateway.id(), frozen),
            (1, false) => self.gateway.kill_and_restart(),
            (2, true) => freeze(self.loader.id(), frozen),
            (2, false) => {
                self.loader.kill().unwrap();
                self.loader.wait().unwrap();
                self.loader = start_loader(&self.base, &self.gateway);
            }
            _ => {
                self.cluster.kill();
                self.cluster.boot();
            }
        }
    }

    /// Waits until all acknowledged records are rows. Then checks that no number is there twice.
    fn check(&mut self) {
        eventually("every acknowledged record is a row", || {
            let rows: BTreeSet<_> = numbers_in(&self.cluster, &self.database, "a").into_iter().collect();
            self.acknowledged.is_subset(&rows).then_some(())
        });
        let rows = numbers_in(&self.cluster, &self.database, "a");
        let distinct: BTreeSet<_> = rows.iter().copied().collect();
        assert_eq!(rows.len(), distinct.len(), "no number is there twice");
        assert!(distinct.iter().all(|n| *n < self.next), "no number was made up");
        // Both machines may still ship and load. The accounts add up at every moment.
        for output in [self.web.run(&["audit", "--store", "main"]), self.audit_of_base()] {
            let text = printed(&output);
            assert!(output.status.success() && text.contains("\nexact: "), "{text}");
        }
        eventually("the machine deleted all that is loaded", || {
            let sealed = self.web.segments();
            sealed.iter().all(|path| path.extension().is_none_or(|found| found != "sealed")).then_some(())
        });
    }
}

impl Site {
    /// Counts the records of the machine that loads.
    fn audit_of_base(&self) -> Output {
        let command = ["audit", "--store", "s3://logs/a", "--endpoint"];
        command_of(&self.base, &self.gateway, &command).output().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.loader.kill());
        drop(self.loader.wait());
    }
}

/// Returns a command on the machine that loads. The arguments end with `--endpoint`.
fn command_of(base: &App, gateway: &Gateway, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .arg(format!("http://{}", gateway.address))
        .arg(base.path())
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    command
}

fn start_loader(base: &App, gateway: &Gateway) -> Child {
    command_of(base, gateway, &["load", "--from", "s3://logs/a", "--endpoint"])
        .stdout(Stdio::null())
        .stderr(fs::File::options().create(true).append(true).open(base.path().join("loader.log")).unwrap())
        .spawn()
        .unwrap()
}

fn freeze(id: u32, time: Duration) {
    let id = Pid::from_raw(id.cast_signed()).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    thread::sleep(time);
    kill_process(id, Signal::CONT).unwrap();
}

#[test]
fn parts_that_are_killed_or_frozen_cost_no_acknowledged_record_and_double_none() {
    let turns = std::env::var("TOLLGATE_SHIP_TURNS").map_or(TURNS, |turns| turns.parse().unwrap());
    let mut site = Site::start(Random(seed()));
    for at in 0..turns {
        let part = (at + site.random.below(4)) % 4;
        println!("turn {at}: part {part}");
        site.turn(part);
    }
    site.record();
    site.check();
    assert!(site.acknowledged.len() as u64 > turns * REQUESTS / 2, "most requests were acknowledged");
}
