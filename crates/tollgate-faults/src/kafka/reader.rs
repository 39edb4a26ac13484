//! Reads a topic with the console consumer of Kafka.

use std::collections::BTreeMap;

use super::broker::Kafka;

/// A record that the console consumer printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The partition of the record.
    pub partition: u32,
    /// Headers by name.
    pub headers: BTreeMap<String, String>,
    /// Key. `null` if there is none.
    pub key: String,
    /// Value.
    pub value: String,
}

/// Separates the fields of a record in the output.
const SEPARATOR: char = '\u{1f}';

impl Kafka {
    /// Reads all committed records of a topic, in the order of each partition.
    ///
    /// # Panics
    /// The console consumer fails.
    pub fn read(&self, topic: &str) -> Vec<Read> {
        self.read_as(topic, "read_committed")
    }

    /// Reads all records of a topic, also those of aborted transactions.
    ///
    /// # Panics
    /// The console consumer fails.
    pub fn read_uncommitted(&self, topic: &str) -> Vec<Read> {
        self.read_as(topic, "read_uncommitted")
    }

    fn read_as(&self, topic: &str, isolation: &str) -> Vec<Read> {
        let address = self.direct().to_string();
        let separator = format!("key.separator={SEPARATOR}");
        let headers = format!("headers.separator={}", '\u{1e}');
        let output = self
            .java(&[
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
                "--bootstrap-server",
                &address,
                "--topic",
                topic,
                "--from-beginning",
                "--isolation-level",
                isolation,
                "--timeout-ms",
                "4000",
                "--formatter-property",
                "print.headers=true",
                "--formatter-property",
                "print.partition=true",
                "--formatter-property",
                "print.key=true",
                "--formatter-property",
                &separator,
                "--formatter-property",
                &headers,
            ])
            .output()
            .expect("run the console consumer");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("Processed a total of"), "the console consumer failed: {errors}");
        text.lines().map(record).collect()
    }
}

/// Reads a line of the console consumer.
fn record(line: &str) -> Read {
    let mut fields = line.splitn(4, SEPARATOR);
    let mut next = || fields.next().unwrap_or_else(|| panic!("a field is missing in {line:?}"));
    let (partition, headers, key, value) = (next(), next(), next(), next());
    let partition = partition.trim_start_matches("Partition:").parse().expect("a partition");
    let headers = headers.split('\u{1e}').filter_map(|header| header.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Read { partition, headers, key: key.to_owned(), value: value.to_owned() }
}
