//! The writer: a process that sends numbered records until it is killed or fenced.

use std::fmt::Display;
use std::io::Write;
use std::thread;
use std::time::Duration;

use tollgate_queue::{BrokerOptions, Client, Guarantee, Producer, QueueError, QueueRecord, ReadTo, Topics};

pub(crate) const RECORDS: &str = "records";
pub(crate) const POSITIONS: &str = "positions";
/// The transactional id of all writers.
const ID: &str = "writer";
const CHUNK: u64 = 40;

#[cfg(feature = "rdkafka")]
pub(crate) const CLIENTS: [Client; 2] = [Client::Krafka, Client::Rdkafka];
#[cfg(not(feature = "rdkafka"))]
pub(crate) const CLIENTS: [Client; 1] = [Client::Krafka];

/// Options with short timeouts, so that a round is short.
pub(crate) fn options(brokers: &str) -> BrokerOptions {
    BrokerOptions {
        connect_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_secs(2),
        delivery_timeout: Duration::from_secs(4),
        transaction_timeout: Duration::from_secs(10),
        ..BrokerOptions::new(brokers)
    }
}

/// Runs the writer. The environment names client and broker.
pub(crate) fn run() {
    let name = std::env::var("TOLLGATE_QUEUE_WRITER").expect("the client");
    let client = CLIENTS.into_iter().find(|client| client.name() == name).expect("a known client");
    let options = options(&std::env::var("TOLLGATE_QUEUE_BROKER").expect("the broker"));
    loop {
        say("opening");
        match write(client, &options) {
            QueueError::Fenced { .. } => return say("fenced"),
            error => {
                say(format!("failed {error}"));
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Writes until an error.
fn write(client: Client, options: &BrokerOptions) -> QueueError {
    let written = || -> Result<(), QueueError> {
        // The producer opens first, because that fences the writer before. Then the position is final.
        let mut producer = open(client, options)?;
        let mut position = position(options)?;
        loop {
            write_chunk(&mut *producer, position)?;
            position += CHUNK;
            say(format!("committed {position}"));
        }
    };
    written().expect_err("an endless loop")
}

/// Opens a producer as the sink does: a cluster that restarted may have lost the end of the last transaction.
fn open(client: Client, options: &BrokerOptions) -> Result<Box<dyn Producer>, QueueError> {
    let mut topics = topics(options)?;
    let known = [RECORDS, POSITIONS].map(str::to_owned).into();
    let may_be_open = topics.end_lost(ID, &known, &|_| false)?;
    let producer = client.open(options, &Guarantee::Transactions { id: ID.to_owned() })?;
    if may_be_open {
        topics.end_lost(ID, &known, &|_| false)?;
    }
    Ok(producer)
}

fn write_chunk(producer: &mut dyn Producer, position: u64) -> Result<(), QueueError> {
    producer.begin()?;
    say("sending");
    let mut records: Vec<_> = (position + 1..=position + CHUNK).map(record).collect();
    records.push(QueueRecord {
        topic: POSITIONS.into(),
        partition: Some(0),
        key: Some(b"writer"[..].into()),
        value: Some((position + CHUNK).to_string().into()),
        headers: Vec::new(),
    });
    producer.send(&records.iter().collect::<Vec<_>>())?;
    say("committing");
    producer.commit()
}

fn record(number: u64) -> QueueRecord {
    QueueRecord {
        topic: RECORDS.into(),
        partition: None,
        key: Some(number.to_string().into()),
        value: Some(vec![b'x'; 200].into()),
        headers: vec![("tollgate-seq", number.to_string().into())],
    }
}

/// Returns the topics. All writers read by the same client, because the producers are compared.
fn topics(options: &BrokerOptions) -> Result<Box<dyn Topics>, QueueError> {
    Ok(Client::Krafka.topics(options)?.expect("krafka reads topics"))
}

fn position(options: &BrokerOptions) -> Result<u64, QueueError> {
    let table = topics(options)?.table(POSITIONS, ReadTo::End)?;
    let position = table.get(&b"writer"[..]).map(|text| String::from_utf8_lossy(text).into_owned());
    Ok(position.map_or(0, |text| text.parse().expect("a position")))
}

/// Prints a line for the driver.
fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    // The driver may have closed the pipe.
    drop(writeln!(out, "\n{line}").and_then(|()| out.flush()));
}
