//! Compares the rows in topics with the counts of the sinks that wrote them, and with the databases that load
//! them.
//!
//! All counts are read before the topics, so a row that is written meanwhile is not missing. The rows after
//! the first record of an open transaction cannot be read. So the audit waits for the end of open
//! transactions, for at most `transaction_timeout`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tollgate_log::{LogId, Sequence};
use tollgate_queue::{BrokerOptions, Client, PartitionName, ReadRecord, ReadTo, Reader};

use super::options::{log_of, read_failed};
use crate::error::SinkError;
use crate::sink::{LogCounts, RowHead, SentCounts, SinkOptions, read_sent};

/// Longest wait for records.
const POLL_WAIT: Duration = Duration::from_millis(200);

/// The rows of one log and stream in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentAccount {
    /// Name of the sink that wrote the topic.
    pub sink: String,
    /// The log.
    pub log: LogId,
    /// The stream.
    pub stream: String,
    /// Number of rows that the sink counted.
    pub sent: u64,
    /// Number of different rows in the topic.
    pub found: u64,
    /// Number of rows that the topic has once more.
    pub doubled: u64,
    /// Whether the topic deleted records, so that rows may be absent.
    pub is_cut: bool,
    /// A partition with an open transaction, which hides all later rows of the partition.
    pub open: Option<PartitionName>,
}

impl SentAccount {
    /// Returns the number of rows that should be in the topic and are not.
    pub fn missing(&self) -> u64 {
        if self.open.is_some() { 0 } else { self.absent() }
    }

    /// Returns the number of rows that an open transaction may hide.
    pub fn hidden(&self) -> u64 {
        if self.open.is_some() { self.absent() } else { 0 }
    }

    fn absent(&self) -> u64 {
        if self.is_cut { 0 } else { self.sent.saturating_sub(self.found) }
    }
}

/// The records of one partition in one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionAccount {
    /// Name of the sink of the database.
    pub sink: String,
    /// The partition.
    pub place: PartitionName,
    /// Number of records in the topic before the position of the sink.
    pub passed: u64,
    /// Number of records in the topic after the position of the sink.
    pub pending: u64,
    /// Number of records that the sink counted: rows, rejects, duplicates, and records that it does not take.
    pub counted: u64,
    /// Number of offsets in the gaps of the sink.
    pub missing: u64,
    /// Whether the topic deleted records that the sink counted.
    pub is_cut: bool,
}

impl PartitionAccount {
    /// Returns whether the sink counted each record before its position once.
    pub fn is_exact(&self) -> bool {
        self.is_cut || self.passed == self.counted
    }
}

/// The accounts of the topics of a cluster.
#[derive(Debug, Default)]
pub struct TopicAudit {
    /// The rows of each log and stream.
    pub sent: Vec<SentAccount>,
    /// The partitions in each database.
    pub loaded: Vec<PartitionAccount>,
}

/// Reads all topics that sinks wrote, and compares them with the counts of these sinks and of `databases`.
///
/// The numbers of all rows are in memory, with eight bytes each.
///
/// # Errors
/// The broker or a database does not answer.
pub fn audit_topics(broker: &BrokerOptions, databases: &[SinkOptions]) -> Result<TopicAudit, SinkError> {
    let sent = read_sent(broker, ReadTo::Stable)?;
    let mut counts = Vec::new();
    for database in databases {
        counts.push((database.name.clone(), database.counts()?));
    }
    let client = Client::of_sinks().ok_or(SinkError::NoQueue)?;
    let mut reader = client.reader(broker).map_err(read_failed)?.ok_or(SinkError::NoQueue)?;
    let mut found = Found { open_max: broker.transaction_timeout, ..Found::default() };
    for topic in topics_of(&sent) {
        found.read(&mut *reader, &topic)?;
    }
    let loaded = counts.iter().flat_map(|(name, logs)| found.loaded(name, logs)).collect();
    let sent = sent.iter().flat_map(|(sink, sent)| found.sent(sink, sent)).collect();
    Ok(TopicAudit { sent, loaded })
}

fn topics_of(sent: &BTreeMap<String, SentCounts>) -> BTreeSet<String> {
    sent.values().flat_map(|sent| sent.schemas.iter()).map(|known| known.topic.clone()).collect()
}

/// The records of all topics.
#[derive(Default)]
struct Found {
    /// Numbers of the rows, by topic, log and stream.
    rows: BTreeMap<(String, LogId, String), Vec<u64>>,
    partitions: BTreeMap<LogId, FoundPartition>,
    /// Topics that deleted records.
    cut: BTreeSet<String>,
    /// A partition with an open transaction, by topic.
    open: BTreeMap<String, PartitionName>,
    /// How long the audit waits for the open transactions of a topic.
    open_max: Duration,
}

struct FoundPartition {
    name: PartitionName,
    first: u64,
    offsets: Vec<u64>,
}

impl Found {
    /// Reads the records of a topic up to its present end.
    fn read(&mut self, reader: &mut dyn Reader, topic: &str) -> Result<(), SinkError> {
        let Some(described) = reader.partitions(topic).map_err(read_failed)? else { return Ok(()) };
        let mut places = Vec::new();
        for range in &described.partitions {
            let name = PartitionName { topic: topic.to_owned(), partition: range.partition };
            if range.first > 0 {
                self.cut.insert(topic.to_owned());
            }
            let log = log_of(described.id, range.partition);
            let found = FoundPartition { name: name.clone(), first: range.first, offsets: Vec::new() };
            self.partitions.insert(log, found);
            places.push((name, log, *range));
        }
        let starts: Vec<_> = places.iter().map(|(name, _, range)| (name.clone(), range.first)).collect();
        reader.start(&starts).map_err(read_failed)?;
        let logs: BTreeMap<_, _> = places.iter().map(|(name, log, _)| (name.partition, *log)).collect();
        let numbers: Vec<_> = described.partitions.iter().map(|range| range.partition).collect();
        let written = reader.written_ends(topic, &numbers).map_err(read_failed)?;
        let mut waiting_since = None;
        loop {
            let (mut is_left, mut hidden) = (false, None);
            for (name, _, range) in &places {
                let next = reader.next_offset(name).unwrap_or(range.first);
                is_left |= next < range.end;
                if written.get(&range.partition).is_some_and(|end| next < *end) {
                    hidden.get_or_insert(name);
                }
            }
            match hidden {
                _ if is_left => {}
                None => return Ok(()),
                Some(name) if waiting_since.get_or_insert_with(Instant::now).elapsed() > self.open_max => {
                    self.open.insert(topic.to_owned(), name.clone());
                    return Ok(());
                }
                Some(_) => {}
            }
            for record in reader.poll(POLL_WAIT).map_err(read_failed)? {
                self.add(&record, logs.get(&record.partition));
            }
        }
    }

    fn add(&mut self, record: &ReadRecord, log: Option<&LogId>) {
        if let Some(partition) = log.and_then(|log| self.partitions.get_mut(log)) {
            partition.offsets.push(record.offset);
        }
        if let Some(RowHead { log, sequence, stream, .. }) = RowHead::read(record) {
            self.rows.entry((record.topic.clone(), log, stream)).or_default().push(sequence.0);
        }
    }

    /// Compares the rows with the counts of the sink that wrote them.
    fn sent(&self, sink: &str, sent: &SentCounts) -> Vec<SentAccount> {
        let mut accounts = Vec::new();
        for log in &sent.logs {
            for (stream, count) in &log.streams {
                let topics: BTreeSet<_> = sent
                    .schemas
                    .iter()
                    .filter(|known| known.schema.stream() == stream)
                    .map(|known| known.topic.clone())
                    .collect();
                let is_cut = topics.iter().any(|topic| self.cut.contains(topic));
                let rows = topics
                    .iter()
                    .filter_map(|topic| self.rows.get(&(topic.clone(), log.log, stream.clone())));
                let mut numbers: Vec<_> = rows.flatten().copied().collect();
                let all = numbers.len() as u64;
                numbers.sort_unstable();
                numbers.dedup();
                let found = numbers.len() as u64;
                accounts.push(SentAccount {
                    sink: sink.to_owned(),
                    log: log.log,
                    stream: stream.clone(),
                    sent: count.loaded,
                    found,
                    doubled: all - found,
                    is_cut,
                    open: topics.iter().find_map(|topic| self.open.get(topic)).cloned(),
                });
            }
        }
        accounts
    }

    /// Compares the partitions with the counts of a database.
    fn loaded(&self, sink: &str, logs: &[LogCounts]) -> Vec<PartitionAccount> {
        let account = |counts: &LogCounts| {
            let found = self.partitions.get(&counts.log)?;
            let Sequence(position) = counts.position.last;
            let from_start = found.offsets.partition_point(|offset| *offset < counts.start.0);
            let passed = found.offsets.partition_point(|offset| *offset < position);
            let counted = counts.streams.values().map(|count| count.settled() + count.skipped).sum();
            Some(PartitionAccount {
                sink: sink.to_owned(),
                place: found.name.clone(),
                passed: (passed - from_start) as u64,
                pending: (found.offsets.len() - passed) as u64,
                counted,
                missing: counts.gaps.iter().map(|gap| gap.first.count_to(gap.last)).sum(),
                is_cut: found.first > counts.start.0,
            })
        };
        logs.iter().filter_map(account).collect()
    }
}
