//! A broker, and a server that hands over to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_faults::kafka::{Kafka, KafkaOptions};
use tollgate_queue::{BrokerOptions, Client as QueueClient, Guarantee, Producer, QueueRecord};

use crate::client::{Client, Reply};
use crate::program::{App, Running, eventually};

const CONFIG: &str = r#"
workers = 2
drain_timeout = "4s"
# A busy machine must not make the server refuse requests for another reason.
queue_age_max = "1h"
[log]
queue_age_max = "1h"
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
pub(super) struct Site {
    // The broker ends before its folder.
    pub(super) kafka: Kafka,
    pub(super) app: App,
    _folder: TempDir,
}

impl Site {
    pub(super) fn new(timeout: &str, when_away: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let kafka = Kafka::start(&folder.path().join("kafka"), &KafkaOptions::default());
        let config = CONFIG
            .replace("TIMEOUT", timeout)
            .replace("WHEN_AWAY", when_away)
            .replace("BROKER", &kafka.address());
        Self { kafka, app: App::new(&config, &[]), _folder: folder }
    }

    /// Starts only the broker.
    pub(super) fn bare() -> Self {
        Self::new("60s", "")
    }

    /// Deletes all records of a topic, by the tool of Kafka.
    pub(super) fn delete_records(&self, topic: &str) {
        let partitions: Vec<_> = (0..3)
            .map(|partition| serde_json::json!({ "topic": topic, "partition": partition, "offset": -1 }))
            .collect();
        let file = self.kafka.folder().join("delete.json");
        std::fs::write(&file, serde_json::json!({ "partitions": partitions, "version": 1 }).to_string())
            .unwrap();
        let class = "org.apache.kafka.tools.DeleteRecordsCommand";
        let address = self.kafka.address();
        let mut command = self.kafka.java(&[class, "--bootstrap-server", &address, "--offset-json-file"]);
        let output = command.arg(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Writes a record by the console producer of Kafka.
    pub(super) fn produce(&self, topic: &str, value: &str) {
        self.produce_line(topic, "false", value);
    }

    /// Writes a record with headers: `NAME:VALUE,NAME:VALUE`.
    pub(super) fn produce_with(&self, topic: &str, headers: &str, value: &str) {
        self.produce_line(topic, "true", &format!("{headers}\t{value}"));
    }

    fn produce_line(&self, topic: &str, has_headers: &str, line: &str) {
        let class = "org.apache.kafka.tools.ConsoleProducer";
        let mut command =
            self.kafka.java(&[class, "--bootstrap-server", &self.kafka.address(), "--topic", topic]);
        command.args(["--reader-property", &format!("parse.headers={has_headers}")]);
        let mut producer =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        writeln!(producer.stdin.take().unwrap(), "{line}").unwrap();
        assert!(producer.wait().unwrap().success());
    }

    /// Opens a transaction of another writer in all partitions of a topic. It stays open for longer than any
    /// test waits.
    pub(super) fn open_transaction(&self, topic: &str) -> Box<dyn Producer> {
        let mut broker = BrokerOptions::new(self.kafka.address());
        broker.transaction_timeout = Duration::from_secs(600);
        let guarantee = Guarantee::Transactions { id: "other".to_owned() };
        let mut producer = QueueClient::of_sinks().unwrap().open(&broker, &guarantee).unwrap();
        producer.begin().unwrap();
        let record = |partition| QueueRecord {
            topic: topic.into(),
            partition: Some(partition),
            key: None,
            value: Some(b"value"[..].into()),
            headers: Vec::new(),
        };
        let records: Vec<_> = (0..3).map(record).collect();
        producer.send(&records.iter().collect::<Vec<_>>()).unwrap();
        producer
    }

    /// Starts the server, and waits until it takes records for the broker.
    pub(super) fn start(&self) -> (Running, Sender) {
        let server = self.app.start();
        let mut client = Sender::new(server.address());
        until_taken(&mut client);
        (server, client)
    }

    /// Returns the place of the broker for `tollgate load --from`.
    pub(super) fn place(&self) -> String {
        format!("kafka://{}", self.kafka.address())
    }

    /// Returns how often each positive number is in the topic. Checks that no record is there twice.
    pub(super) fn numbers(&self) -> BTreeMap<i64, u64> {
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

pub(super) fn item(n: i64) -> String {
    format!("{{\"n\":{n}}}")
}

pub(super) fn outcome(reply: &Reply) -> &str {
    reply.field("tollgate-outcome").unwrap_or_default()
}

/// A client that connects again after the server closed its connection. A server on a busy machine closes
/// connections that it accepted late.
pub(super) struct Sender {
    address: SocketAddr,
    client: Option<Client>,
}

impl Sender {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, client: None }
    }

    /// Sends an item. `None`: there was no server, or no complete reply.
    pub(super) fn post(&mut self, path: &str, body: &str) -> Option<Reply> {
        let mut client = self.client.take().or_else(|| Client::try_connect(self.address))?;
        let reply = client.post(path, body)?;
        if reply.field("connection") != Some("close") {
            self.client = Some(client);
        }
        Some(reply)
    }
}

/// Prints the log of a server if its test fails.
pub(super) struct LogOnFailure<'a>(pub(super) &'a Running);

impl Drop for LogOnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.0.logged());
        }
    }
}

/// Sends records until the broker takes one. Their numbers are negative.
pub(super) fn until_taken(client: &mut Sender) {
    eventually("the broker takes a record", || {
        let reply = client.post("/a", &item(-1))?;
        let is_taken = reply.is_success() && reply.field("tollgate-ack").is_none();
        is_taken.then_some(())
    });
}

#[test]
fn a_sender_connects_again_after_the_server_closed_its_connection() {
    let config = r#"
requests_per_connection_max = 1
[[route]]
path = "/a"
methods = ["POST"]
reply = { body = "a" }
"#;
    let app = App::new(config, &[]);
    let server = app.start();
    let mut sender = Sender::new(server.address());
    for _ in 0..3 {
        let reply = sender.post("/a", &item(1)).unwrap();
        assert_eq!((reply.status, reply.field("connection")), (200, Some("close")), "{reply:?}");
    }
}
