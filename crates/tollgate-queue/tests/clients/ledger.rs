//! Blocks of rounds: each has its own broker, is checked at its end, and is written into the ledger.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tollgate_faults::kafka::{Kafka, KafkaOptions};
use tollgate_queue::{Client, NewTopic};

use crate::driver::{FAULTS, RoundFault, Writer, round};
use crate::random::Random;
use crate::writer::{POSITIONS, RECORDS, options};

const BLOCK: u64 = 20;

/// What the rounds of a client showed.
#[derive(Debug, Default)]
pub(crate) struct Result {
    pub(crate) client: String,
    rounds: u64,
    restarts: u64,
    stuck: u64,
    records: u64,
    lost: u64,
    doubled: u64,
}

impl Result {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost == 0 && self.doubled == 0
    }

    fn add(&mut self, [rounds, restarts, stuck, records, lost, doubled]: [u64; 6]) {
        self.rounds += rounds;
        self.restarts += restarts;
        self.stuck += stuck;
        self.records += records;
        self.lost += lost;
        self.doubled += doubled;
    }
}

impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, rounds, restarts, stuck, records, lost, doubled } = self;
        write!(
            f,
            "{client}: {rounds} rounds, {restarts} with a restart of the broker, {stuck} with a stuck \
             writer, {records} records, {lost} lost, {doubled} doubled"
        )
    }
}

/// Runs the rounds of a client that the ledger does not have.
pub(crate) fn run(client: Client, seed: u64, rounds: u64) -> Result {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/queue-clients");
    fs::create_dir_all(&folder).expect("a folder for the ledger");
    let ledger = folder.join(format!("{}-{seed}", client.name()));
    let mut result = Result { client: client.name().to_owned(), ..Result::default() };
    let known = fs::read_to_string(&ledger).unwrap_or_default();
    known.lines().map(numbers).for_each(|block| result.add(block));
    while result.rounds < rounds {
        let block = (rounds - result.rounds).min(BLOCK);
        let counts = run_block(client, seed, (result.rounds, block), &folder);
        let mut file = OpenOptions::new().append(true).create(true).open(&ledger).expect("the ledger");
        let line = counts.map(|number| number.to_string()).join(" ");
        writeln!(file, "{line}").expect("write the ledger");
        result.add(counts);
        println!("{result}");
    }
    result
}

fn numbers(line: &str) -> [u64; 6] {
    let numbers: Vec<u64> = line.split(' ').map(|text| text.parse().expect("a number")).collect();
    numbers.try_into().expect("six numbers")
}

fn run_block(client: Client, seed: u64, (first, rounds): (u64, u64), folder: &Path) -> [u64; 6] {
    let broker: PathBuf = folder.join(format!("broker-{}-{seed}", client.name()));
    // An interrupted run may have left it.
    drop(fs::remove_dir_all(&broker));
    let mut kafka = Kafka::start(&broker, &KafkaOptions::default());
    make_topics(&kafka);
    let mut writer = Writer::start(client, &kafka);
    assert!(writer.makes_progress(), "no progress of an undisturbed writer");
    let (mut restarts, mut stuck) = (0, 0);
    for number in first..first + rounds {
        let mut random = Random(seed.wrapping_mul(1_000_003) ^ number);
        let fault = if number % 4 == 3 { RoundFault::BrokerKilled } else { random.one_of(&FAULTS) };
        restarts += u64::from(fault == RoundFault::BrokerKilled);
        let begun = Instant::now();
        let (left, outcome) = round(client, &mut kafka, writer, fault, &mut random);
        writer = left;
        stuck += u64::from(outcome.is_stuck);
        let text = outcome.text;
        println!("{} seed {seed} round {number}: {text}, {:.1?}", client.name(), begun.elapsed());
    }
    let acknowledged = writer.committed;
    drop(writer);
    let counts = count(client, &kafka, acknowledged);
    drop(kafka);
    fs::remove_dir_all(&broker).expect("remove the broker");
    [rounds, restarts, stuck, counts[0], counts[1], counts[2]]
}

fn make_topics(kafka: &Kafka) {
    let topic = |name: &str, partitions, settings| NewTopic {
        name: name.to_owned(),
        partitions,
        replication: None,
        settings,
    };
    let topics = Client::Krafka.topics(&options(&kafka.address())).expect("a broker that answers");
    let compacted = vec![("cleanup.policy", "compact".to_owned())];
    topics
        .expect("krafka makes topics")
        .create(&[topic(RECORDS, 3, Vec::new()), topic(POSITIONS, 1, compacted)])
        .expect("make the topics");
}

/// Returns the number of records, of numbers that are missing, and of numbers that are there twice.
fn count(client: Client, kafka: &Kafka, acknowledged: u64) -> [u64; 3] {
    // The end of the last transaction, which the killed writer left open.
    drop(client.open(
        &options(&kafka.address()),
        &tollgate_queue::Guarantee::Transactions { id: "writer".to_owned() },
    ));
    let mut numbers: Vec<u64> = kafka
        .read(RECORDS)
        .into_iter()
        .map(|record| record.headers["tollgate-seq"].parse().expect("a number"))
        .collect();
    let records = numbers.len() as u64;
    numbers.sort_unstable();
    numbers.dedup();
    let distinct = numbers.len() as u64;
    let last = numbers.last().copied().unwrap_or_default().max(acknowledged);
    [records, last - distinct, records - distinct]
}
