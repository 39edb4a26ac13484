//! Broker, link, server and the loader of the topics fail while clients send. No acknowledged record is lost
//! or doubled, neither in the topic nor in the database that loads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tollgate_faults::kafka::Flow;

use super::site::{LogOnFailure, Sender, Site, item, outcome, until_taken};
use crate::program::{App, Following, Running};

/// Number of rounds that share a broker. Topic and database are read at their end.
const BLOCK: u64 = 10;
/// Number of clients that send at once.
const CLIENTS: i64 = 4;

/// Random numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// What fails in a round.
#[derive(Debug, Clone, Copy)]
enum Failure {
    BrokerKilled,
    BrokerFrozen,
    ServerKilled,
    ServerFrozen,
    LinkFrozen,
    LinkCut,
    LoaderKilled,
    LoaderFrozen,
}

impl Failure {
    const ALL: [Self; 8] = [
        Self::BrokerKilled,
        Self::ServerKilled,
        Self::LoaderKilled,
        Self::BrokerFrozen,
        Self::ServerFrozen,
        Self::LoaderFrozen,
        Self::LinkFrozen,
        Self::LinkCut,
    ];

    /// Returns the failure of a round. TOLLGATE_QUEUE_FAILURE names the only one.
    fn chosen(random: &mut Random) -> Self {
        let chosen = Self::ALL[random.below(Self::ALL.len() as u64) as usize];
        let Ok(name) = std::env::var("TOLLGATE_QUEUE_FAILURE") else { return chosen };
        let named = Self::ALL.into_iter().find(|failure| format!("{failure:?}") == name);
        named.unwrap_or_else(|| panic!("no failure {name:?} in {:?}", Self::ALL))
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// `make queue-crash` runs more rounds. Finished blocks of a seed are in target/queue-crash, and are not run
/// again.
#[test]
fn broker_link_server_and_loader_fail_and_no_acknowledged_record_is_lost_or_doubled() {
    let (rounds, seed) = (setting("TOLLGATE_QUEUE_CRASHES", 4), setting("TOLLGATE_SEED", 1));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/queue-crash");
    fs::create_dir_all(&folder).unwrap();
    let ledger = folder.join(format!("seed-{seed}"));
    let is_kept = std::env::var_os("TOLLGATE_QUEUE_CRASHES").is_some();
    let known = if is_kept { fs::read_to_string(&ledger).unwrap_or_default() } else { String::new() };
    let mut first: u64 =
        known.lines().map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    while first < rounds {
        let block = (rounds - first).min(BLOCK);
        let (acknowledged, rows) = Block::new(seed).run(first..first + block);
        if is_kept {
            let mut file = OpenOptions::new().append(true).create(true).open(&ledger).unwrap();
            writeln!(file, "{block} rounds: {acknowledged} acknowledged, {rows} rows").unwrap();
        }
        first += block;
    }
}

/// What clients saw.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: BTreeSet<i64>,
    refused: BTreeSet<i64>,
    next: i64,
}

/// Rounds with one broker, one server, and one loader of its topics.
struct Block {
    seed: u64,
    site: Site,
    server: Option<Running>,
    reader: App,
    loader: Option<Following>,
    seen: Seen,
}

impl Block {
    fn new(seed: u64) -> Self {
        let site = Site::new("2s", "");
        let server = Some(site.start().0);
        let reader = App::new("", &[]);
        let loader = Some(reader.follow(&["load", "--from", &site.place()]));
        Self { seed, site, server, reader, loader, seen: Seen::default() }
    }

    fn server(&self) -> &Running {
        self.server.as_ref().unwrap()
    }

    /// Waits until the broker takes records of the server.
    fn until_taken(&self) {
        let _shown = LogOnFailure(self.server());
        until_taken(&mut Sender::new(self.server().address()));
    }

    /// Runs rounds, and checks topic and database. Returns the number of acknowledged records and of rows.
    fn run(mut self, rounds: std::ops::Range<u64>) -> (usize, usize) {
        rounds.for_each(|round| self.round(round));
        self.until_taken();
        self.server.take().unwrap().kill();
        drop(self.loader.take().unwrap().end(Signal::KILL));
        self.check()
    }

    fn round(&mut self, round: u64) {
        let mut random = Random(self.seed.wrapping_mul(1_000_003) ^ round);
        let failure = Failure::chosen(&mut random);
        let delay = Duration::from_millis(random.below(300));
        let held = Duration::from_millis(100 + random.below(3_500));
        let begun = Instant::now();
        self.until_taken();
        let recovered = begun.elapsed();
        let (address, done, first) = (self.server().address(), AtomicBool::new(false), self.seen.next);
        let before = self.seen.acknowledged.len();
        let results: Vec<_> = thread::scope(|scope| {
            let done = &done;
            let senders: Vec<_> =
                (0..CLIENTS).map(|client| scope.spawn(move || send(address, first + client, done))).collect();
            thread::sleep(delay);
            self.fail(failure);
            thread::sleep(held);
            self.mend(failure);
            done.store(true, Ordering::SeqCst);
            senders.into_iter().map(|sender| sender.join().unwrap()).collect()
        });
        for seen in results {
            self.seen.acknowledged.extend(seen.acknowledged);
            self.seen.refused.extend(seen.refused);
            self.seen.next = self.seen.next.max(seen.next);
        }
        self.start_again(failure);
        let acknowledged = self.seen.acknowledged.len() - before;
        println!("seed {} round {round}: recovered after {recovered:?}", self.seed);
        println!("    {failure:?} after {delay:?} for {held:?}, {acknowledged} acknowledged");
    }

    fn fail(&mut self, failure: Failure) {
        match failure {
            Failure::BrokerKilled => self.site.kafka.kill(),
            Failure::BrokerFrozen => self.site.kafka.freeze(),
            Failure::ServerKilled => self.server().signal(Signal::KILL),
            Failure::ServerFrozen => self.server().signal(Signal::STOP),
            Failure::LinkFrozen => self.site.kafka.link().set(Flow::Frozen),
            Failure::LinkCut => self.site.kafka.link().set(Flow::Cut),
            Failure::LoaderKilled => self.loader.as_ref().unwrap().signal(Signal::KILL),
            Failure::LoaderFrozen => self.loader.as_ref().unwrap().signal(Signal::STOP),
        }
    }

    fn mend(&mut self, failure: Failure) {
        match failure {
            Failure::BrokerKilled => self.site.kafka.run(),
            Failure::BrokerFrozen => self.site.kafka.thaw(),
            Failure::ServerKilled | Failure::LoaderKilled => {}
            Failure::ServerFrozen => self.server().signal(Signal::CONT),
            Failure::LinkFrozen | Failure::LinkCut => self.site.kafka.link().set(Flow::Open),
            Failure::LoaderFrozen => self.loader.as_ref().unwrap().signal(Signal::CONT),
        }
    }

    /// Starts a process that was killed.
    fn start_again(&mut self, failure: Failure) {
        match failure {
            Failure::ServerKilled => {
                self.server.take().unwrap().kill();
                self.server = Some(self.site.app.start());
            }
            Failure::LoaderKilled => {
                drop(self.loader.take().unwrap().end(Signal::KILL));
                self.loader = Some(self.reader.follow(&["load", "--from", &self.site.place()]));
            }
            _ => {}
        }
    }

    fn check(&self) -> (usize, usize) {
        let Self { seed, seen, .. } = self;
        let found = self.site.numbers();
        let lost: Vec<_> = seen.acknowledged.iter().filter(|n| !found.contains_key(n)).collect();
        assert!(lost.is_empty(), "seed {seed}: acknowledged and not in the topic: {lost:?}");
        let doubled: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
        assert!(doubled.is_empty(), "seed {seed}: in the topic twice: {doubled:?}");
        let told: Vec<_> = seen.refused.iter().filter(|n| found.contains_key(n)).collect();
        assert!(told.is_empty(), "seed {seed}: refused and in the topic: {told:?}");
        assert!(!seen.acknowledged.is_empty());
        self.reader.succeed(&["load", "--once", "--from", &self.site.place()]);
        let mut rows: BTreeMap<i64, u64> = BTreeMap::new();
        for n in self.reader.query::<i64>("SELECT n FROM a WHERE n >= 0") {
            *rows.entry(n).or_default() += 1;
        }
        assert_eq!(rows, found, "seed {seed}: the database has the rows of the topic");
        let kafka = format!("--kafka={}", self.site.kafka.address());
        let audit = self.reader.succeed(&["audit", &kafka]);
        assert!(audit.contains("no row is missing or doubled"), "seed {seed}: {audit}");
        (seen.acknowledged.len(), rows.len())
    }
}

/// Sends every fourth number from `first` on, until the failure is over.
fn send(address: SocketAddr, first: i64, done: &AtomicBool) -> Seen {
    let mut seen = Seen { next: first + 1, ..Seen::default() };
    let mut client = Sender::new(address);
    for n in (first..).step_by(CLIENTS as usize) {
        if done.load(Ordering::SeqCst) {
            break;
        }
        seen.next = n + CLIENTS;
        match client.post("/a", &item(n)) {
            Some(reply) if reply.is_success() => drop(seen.acknowledged.insert(n)),
            Some(reply) if outcome(&reply) == "refused" => {
                seen.refused.insert(n);
                thread::sleep(Duration::from_millis(5));
            }
            Some(_) => {}
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
    seen
}
