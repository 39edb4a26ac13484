//! The clients of Kafka under faults of broker, link and writer.
//!
//! A writer sends numbered records and its position in transactions, as a sink does. The driver kills,
//! freezes and cuts off broker, link and writer in every phase of a transaction. At the end of a block of
//! rounds, librdkafka reads all committed records: each number has to be there once.
//!
//! `TOLLGATE_QUEUE_ROUNDS` is the number of rounds for each client, `TOLLGATE_QUEUE_SEED` their seed,
//! `TOLLGATE_QUEUE_CLIENTS` their names. Finished blocks are in `target/queue-clients`, and are not run
//! again.

mod driver;
mod ledger;
mod random;
mod writer;

use tollgate_queue::Client;

#[test]
fn no_client_loses_or_doubles_a_record_while_broker_link_and_writer_fail() {
    let rounds = number("TOLLGATE_QUEUE_ROUNDS", 4);
    let seed = number("TOLLGATE_QUEUE_SEED", 1);
    let chosen = std::env::var("TOLLGATE_QUEUE_CLIENTS").unwrap_or_default();
    let clients: Vec<_> = writer::CLIENTS
        .into_iter()
        .filter(|client| chosen.is_empty() || chosen.split(' ').any(|name| name == client.name()))
        .collect();
    let results: Vec<_> = clients.into_iter().map(|client| ledger::run(client, seed, rounds)).collect();
    for result in &results {
        println!("{result}");
    }
    for result in results {
        assert!(result.client != Client::Krafka.name() || result.is_clean(), "{result}");
    }
}

/// The writer, as a process of its own. The driver starts it.
#[test]
#[ignore = "the driver starts it"]
fn writer_process() {
    writer::run();
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
