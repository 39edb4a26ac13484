//! `ack = "queued"`: when a reply reports success, its records are committed by a real Kafka broker, and the
//! console consumer of Kafka reads them. Any other reply has the outcome `refused`, `unknown` or `rejected`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tollgate_faults::kafka::{Flow, Kafka, KafkaOptions};

use crate::client::{Client, Reply};
use crate::program::{App, Running, eventually};

const CONFIG: &str = r#"
workers = 2
drain_timeout = "4s"
[stream.a]
ack = "queued"
ack_timeout = "TIMEOUT"
WHEN_AWAY
columns = [{ name = "n", type = "int", from = "record.n" }, { name = "t", type = "text", from = "record.t" }]
[stream.b]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
body_bytes_max = "4MiB"
[[route]]
path = "/b"
collect = true
stream = "b"
[sink.bus]
kafka = "BROKER"
topic = "tg.{stream}"
partitions = 3
request_timeout = "2s"
delivery_timeout = "3s"
transaction_timeout = "10s"
"#;

/// A broker, and a server that hands over to it.
struct Site {
    // The broker ends before its folder.
    kafka: Kafka,
    app: App,
    _folder: TempDir,
}

impl Site {
    fn new(timeout: &str, when_away: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let kafka = Kafka::start(&folder.path().join("kafka"), &KafkaOptions::default());
        let config = CONFIG
            .replace("TIMEOUT", timeout)
            .replace("WHEN_AWAY", when_away)
            .replace("BROKER", &kafka.address());
        Self { kafka, app: App::new(&config, &[]), _folder: folder }
    }

    /// Starts the server, and waits until it takes records for the broker.
    fn start(&self) -> (Running, Client) {
        let server = self.app.start();
        let mut client = server.connect();
        let mut next = -1;
        eventually("the broker takes a record", || {
            let reply = client.post("/a", &item(next))?;
            next -= 1;
            let is_taken = reply.is_success() && reply.field("tollgate-ack").is_none();
            is_taken.then_some(())
        });
        (server, client)
    }

    /// Returns how often each positive number is in the topic. Checks that no record is there twice.
    fn numbers(&self) -> BTreeMap<i64, u64> {
        let (mut numbers, mut ids) = (BTreeMap::new(), BTreeSet::new());
        for record in self.kafka.read("tg.a") {
            let id = (record.headers["tollgate-log"].clone(), record.headers["tollgate-seq"].clone());
            assert!(ids.insert(id.clone()), "{id:?} is in the topic twice");
            let row: serde_json::Value = serde_json::from_str(&record.value).unwrap();
            let number = row["n"].as_i64().unwrap();
            if number >= 0 {
                *numbers.entry(number).or_default() += 1;
            }
        }
        numbers
    }
}

fn item(n: i64) -> String {
    format!("{{\"n\":{n}}}")
}

fn outcome(reply: &Reply) -> &str {
    reply.field("tollgate-outcome").unwrap_or_default()
}

#[test]
fn a_record_is_committed_in_its_topic_when_its_reply_comes() {
    let site = Site::new("20s", "");
    let (server, mut client) = site.start();
    for n in 0..100 {
        let reply = client.post("/a", &item(n)).unwrap();
        assert!(reply.is_success(), "{reply:?}");
        assert_eq!(reply.field("tollgate-ack"), None);
    }
    server.kill();
    let expected: BTreeMap<_, _> = (0..100).map(|n| (n, 1)).collect();
    assert_eq!(site.numbers(), expected);
}

#[test]
fn a_broker_that_goes_away_makes_replies_unknown_or_refused_and_recovers() {
    let mut site = Site::new("1s", "");
    let (server, mut client) = site.start();
    assert!(client.post("/a", &item(0)).unwrap().is_success());
    site.kafka.kill();
    let (mut unknown, mut refused, mut next) = (Vec::new(), Vec::new(), 1..);
    eventually("the breaker is open", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        match outcome(&reply) {
            "refused" => refused.push(n),
            "unknown" => unknown.push(n),
            _ => panic!("{reply:?}"),
        }
        (!refused.is_empty()).then_some(())
    });
    assert!(!unknown.is_empty());
    assert!(client.post("/b", &item(1)).unwrap().is_success(), "other streams go on");
    site.kafka.run();
    eventually("it is taken again", || client.post("/a", &item(1000)).unwrap().is_success().then_some(()));
    assert!(server.stop().0.success());
    let found = site.numbers();
    assert_eq!(found.get(&0), Some(&1));
    assert_eq!(found.get(&1000), Some(&1));
    unknown.iter().for_each(|n| assert_eq!(found.get(n), Some(&1), "{n} is in the log, so it is handed on"));
    refused.iter().for_each(|n| assert_eq!(found.get(n), None, "{n} was never recorded"));
}

#[test]
fn with_when_away_a_reply_waits_for_the_disk_and_says_so() {
    let mut site = Site::new("1s", "when_away = \"synced\"");
    let (server, mut client) = site.start();
    site.kafka.kill();
    let (mut sent, mut next) = (Vec::new(), 0..);
    let synced = eventually("a reply waits for the disk", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        sent.push(n);
        match reply.field("tollgate-ack") {
            Some(level) => Some((reply.status, level.to_owned())),
            None => {
                assert_eq!(outcome(&reply), "unknown", "{reply:?}");
                None
            }
        }
    });
    assert_eq!(synced, (200, "synced".to_owned()));
    site.kafka.run();
    eventually("replies wait for the queue again", || {
        let n = next.next().unwrap();
        let reply = client.post("/a", &item(n)).unwrap();
        assert!(reply.is_success(), "{reply:?}");
        sent.push(n);
        reply.field("tollgate-ack").is_none().then_some(())
    });
    assert!(server.stop().0.success());
    let expected: BTreeMap<_, _> = sent.into_iter().map(|n| (n, 1)).collect();
    assert_eq!(site.numbers(), expected, "records that waited for the disk are handed on, in order");
}

#[test]
fn a_record_that_the_broker_refuses_for_its_size_gets_422_and_is_kept() {
    let site = Site::new("20s", "");
    let (server, mut client) = site.start();
    let large = format!("[{},{{\"n\":2,\"t\":\"{}\"}}]", item(1), "x".repeat(1_500_000));
    let reply = client.post("/a", &large).unwrap();
    assert_eq!((reply.status, outcome(&reply)), (422, "rejected"), "{reply:?}");
    let content: serde_json::Value = serde_json::from_str(&reply.content).unwrap();
    assert_eq!((&content["recorded"], &content["rejected"][0]["index"]), (&1.into(), &1.into()));
    assert!(server.stop().0.success());
    assert_eq!(site.numbers(), BTreeMap::from([(1, 1)]));
    let rejects = site.kafka.read("__tollgate_rejects");
    assert!(rejects.iter().any(|part| part.value.contains("refuses the record for its size")));
    let pieces: usize =
        rejects.iter().filter(|part| part.value.contains("xxx")).map(|part| part.value.len()).sum();
    assert!(pieces > 1_500_000, "the copy has {pieces} bytes");
}

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

/// Number of rounds that share a broker. Its topic is read at their end.
const BLOCK: u64 = 10;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// `make queue-crash` runs more rounds. Finished blocks of a seed are in target/queue-crash, and are not run
/// again.
#[test]
fn broker_link_and_server_fail_and_no_acknowledged_record_is_lost_or_doubled() {
    let (rounds, seed) = (setting("TOLLGATE_QUEUE_CRASHES", 3), setting("TOLLGATE_SEED", 1));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/queue-crash");
    fs::create_dir_all(&folder).unwrap();
    let ledger = folder.join(format!("seed-{seed}"));
    let known = fs::read_to_string(&ledger).unwrap_or_default();
    let mut first: u64 = known.lines().map(|line| line.parse::<u64>().unwrap()).sum();
    while first < rounds {
        let block = (rounds - first).min(BLOCK);
        crash_block(seed, first..first + block);
        if std::env::var_os("TOLLGATE_QUEUE_CRASHES").is_some() {
            let mut file = OpenOptions::new().append(true).create(true).open(&ledger).unwrap();
            writeln!(file, "{block}").unwrap();
        }
        first += block;
    }
}

fn crash_block(seed: u64, rounds: std::ops::Range<u64>) {
    let mut site = Site::new("2s", "");
    let (mut server, _) = site.start();
    let (mut acknowledged, mut refused, mut next) = (BTreeSet::new(), BTreeSet::new(), 0);
    for round in rounds {
        let mut random = Random(seed.wrapping_mul(1_000_003) ^ round);
        let address = server.address();
        let (fault, delay) = (random.below(6), Duration::from_millis(random.below(300)));
        let held = Duration::from_millis(100 + random.below(3_500));
        // Clients send until the fault is over.
        let (done, begun) = (std::sync::atomic::AtomicBool::new(false), next);
        let results: Vec<_> = thread::scope(|scope| {
            let senders: Vec<_> = (0..4)
                .map(|client| {
                    let done = &done;
                    scope.spawn(move || send(address, (begun + client, 4), done))
                })
                .collect();
            thread::sleep(delay);
            match fault {
                0 => site.kafka.kill(),
                1 => site.kafka.freeze(),
                2 => server.signal(Signal::KILL),
                3 => server.signal(Signal::STOP),
                4 => site.kafka.link().set(Flow::Frozen),
                _ => site.kafka.link().set(Flow::Cut),
            }
            thread::sleep(held);
            match fault {
                0 => site.kafka.run(),
                1 => site.kafka.thaw(),
                2 => {}
                3 => server.signal(Signal::CONT),
                _ => site.kafka.link().set(Flow::Open),
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
            senders.into_iter().map(|sender| sender.join().unwrap()).collect()
        });
        for (good, bad, last) in results {
            acknowledged.extend(good);
            refused.extend(bad);
            next = next.max(last + 1);
        }
        if fault == 2 {
            server.kill();
            server = site.app.start();
        }
        println!(
            "seed {seed} round {round}: fault {fault} after {delay:?} for {held:?}, {} acknowledged",
            acknowledged.len()
        );
    }
    let mut client = server.connect();
    eventually("the broker takes a record", || {
        let reply = client.post("/a", &item(-1))?;
        reply.is_success().then_some(())
    });
    server.kill();
    let found = site.numbers();
    let lost: Vec<_> = acknowledged.iter().filter(|n| !found.contains_key(n)).collect();
    assert!(lost.is_empty(), "seed {seed}: acknowledged and not in the topic: {lost:?}");
    let doubled: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "seed {seed}: in the topic twice: {doubled:?}");
    let told: Vec<_> = refused.iter().filter(|n| found.contains_key(n)).collect();
    assert!(told.is_empty(), "seed {seed}: refused and in the topic: {told:?}");
    assert!(!acknowledged.is_empty());
}

/// Sends numbers until the fault is over and a request was sent after it. Returns the acknowledged and the
/// refused numbers, and the last one that was sent.
fn send(
    address: std::net::SocketAddr,
    (first, step): (i64, usize),
    done: &std::sync::atomic::AtomicBool,
) -> (Vec<i64>, Vec<i64>, i64) {
    let (mut good, mut refused, mut last) = (Vec::new(), Vec::new(), first);
    let mut client = Client::try_connect(address);
    for n in (first..).step_by(step) {
        if done.load(std::sync::atomic::Ordering::SeqCst) {
            break;
        }
        last = n;
        match client.as_mut().and_then(|client| client.post("/a", &item(n))) {
            Some(reply) if reply.is_success() => good.push(n),
            Some(reply) if outcome(&reply) == "refused" => {
                refused.push(n);
                thread::sleep(Duration::from_millis(5));
            }
            Some(_) => {}
            None => {
                thread::sleep(Duration::from_millis(5));
                client = Client::try_connect(address);
            }
        }
    }
    (good, refused, last)
}
