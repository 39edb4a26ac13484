//! Reads a topic with librdkafka, by `tools/read_topic.py`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::broker::{Kafka, tool};

/// A record of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The partition of the record.
    pub partition: u32,
    /// Headers by name.
    pub headers: BTreeMap<String, String>,
    /// Key. `null` if there is none.
    pub key: String,
    /// Value. One with the header `tollgate-format` is in hexadecimal digits.
    pub value: String,
}

/// Separates the fields of a record in the output.
const SEPARATOR: char = '\u{1f}';

impl Kafka {
    /// Reads all committed records of a topic, in the order of each partition. Waits for the end of open
    /// transactions.
    ///
    /// # Panics
    /// The reader fails.
    pub fn read(&self, topic: &str) -> Vec<Read> {
        self.read_as(topic, "read_committed")
    }

    /// Reads all records of a topic, also those of aborted transactions.
    ///
    /// # Panics
    /// The reader fails.
    pub fn read_uncommitted(&self, topic: &str) -> Vec<Read> {
        self.read_as(topic, "read_uncommitted")
    }

    fn read_as(&self, topic: &str, isolation: &str) -> Vec<Read> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/read_topic.py");
        let output = Command::new("python3")
            .arg(program)
            .args([&self.direct().to_string(), topic, isolation])
            .env("PYTHONPATH", tool("confluent-kafka-"))
            .output()
            .expect("run python3");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the reader failed: {errors}");
        String::from_utf8_lossy(&output.stdout).lines().map(record).collect()
    }
}

/// Reads a line of the reader.
fn record(line: &str) -> Read {
    let mut fields = line.splitn(4, SEPARATOR);
    let mut next = || fields.next().unwrap_or_else(|| panic!("a field is missing in {line:?}"));
    let (partition, headers, key, value) = (next(), next(), next(), next());
    let headers = headers.split('\u{1e}').filter_map(|header| header.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let partition = partition.parse().expect("a partition");
    Read { partition, headers, key: key.to_owned(), value: value.to_owned() }
}
