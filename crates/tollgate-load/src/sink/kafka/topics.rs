//! Functions that read a cluster without an open sink.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Position, Schema};
use tollgate_queue::{BrokerOptions, Client, ReadTo, TopicCopies, Topics};

use super::entry::POSITIONS;
use super::failure::failed;
use super::options::KafkaOptions;
use super::schemas::TopicSchemas;
use super::state::State;
use crate::error::SinkError;
use crate::sink::accounts::LogCounts;

/// Longest name of a topic, in bytes.
const TOPIC_BYTES_MAX: usize = 249;

/// How many copies the topic of a stream has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicReport {
    /// Name of the topic.
    pub topic: String,
    /// Its copies. `None`: the topic does not exist yet.
    pub copies: Option<TopicCopies>,
}

/// Reads how many copies the topics of these streams have.
///
/// # Errors
/// The broker does not answer, or refuses the user.
pub fn topic_reports<'a>(
    options: &KafkaOptions,
    streams: impl Iterator<Item = &'a str>,
) -> Result<Vec<TopicReport>, SinkError> {
    let (_, mut topics) = connect(&options.broker)?;
    let names: std::collections::BTreeSet<_> = streams.map(|stream| options.topic_of(stream)).collect();
    let mut report = |topic: String| {
        let copies = topics.copies(&topic).map_err(failed("describe a topic", None))?;
        Ok(TopicReport { topic, copies })
    };
    names.into_iter().chain([POSITIONS.to_owned()]).map(&mut report).collect()
}

/// Connects to a cluster.
pub(super) fn connect(broker: &BrokerOptions) -> Result<(Client, Box<dyn Topics>), SinkError> {
    let client = Client::of_sinks().ok_or(SinkError::NoQueue)?;
    let topics = client.topics(broker).map_err(failed("connect", None))?;
    Ok((client, topics.ok_or(SinkError::NoQueue)?))
}

/// Checks the names of the topics, and whether a broker answers this user. A topic has no columns, so every
/// row fits it.
pub(in crate::sink) fn check<'a>(
    options: &KafkaOptions,
    mut streams: impl Iterator<Item = &'a Schema>,
) -> Result<(), SinkError> {
    streams.try_for_each(|schema| check_name(options, schema.stream()))?;
    let (_, mut topics) = connect(&options.broker)?;
    topics.copies(POSITIONS).map(drop).map_err(failed("find a topic", None))
}

/// Checks the name of the topic of a stream.
pub(super) fn check_name(options: &KafkaOptions, stream: &str) -> Result<(), SinkError> {
    let topic = options.topic_of(stream);
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    if topic.len() <= TOPIC_BYTES_MAX && !topic.is_empty() && topic.chars().all(is_allowed) {
        return Ok(());
    }
    Err(SinkError::StreamName {
        stream: stream.to_owned(),
        reason: format!(
            "topic {topic:?} is no name for Kafka: allowed are letters, digits, `.`, `_` and `-`, at most \
             {TOPIC_BYTES_MAX} bytes"
        ),
    })
}

/// Reads the position of each log. `None`: the sink has none.
pub(in crate::sink) fn read_positions(
    options: &KafkaOptions,
    sink: &str,
) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
    let logs = read_state(options, sink)?.logs.into_iter().filter(|(_, state)| state.has_position);
    let positions: BTreeMap<_, _> = logs.map(|(log, state)| (log, state.counts.position)).collect();
    Ok((!positions.is_empty()).then_some(positions))
}

/// Reads positions and counters.
pub(in crate::sink) fn read_counts(options: &KafkaOptions, sink: &str) -> Result<Vec<LogCounts>, SinkError> {
    let logs = read_state(options, sink)?.logs.into_values().filter(|state| state.has_position);
    Ok(logs.map(|state| state.counts).collect())
}

/// The bookkeeping of a sink that writes topics, for a reader of the topics.
#[derive(Debug)]
pub(crate) struct SentCounts {
    /// The logs, with the number of rows of each stream.
    pub(crate) logs: Vec<LogCounts>,
    /// The schemas of the rows, with their topics.
    pub(crate) schemas: TopicSchemas,
}

/// Reads the bookkeeping of all sinks that write topics of a cluster, by name.
///
/// # Errors
/// The broker does not answer, or refuses the user.
pub(crate) fn read_sent(
    broker: &BrokerOptions,
    to: ReadTo<'_>,
) -> Result<BTreeMap<String, SentCounts>, SinkError> {
    let (_, mut topics) = connect(broker)?;
    let failed = failed("read the positions", None);
    if topics.copies(POSITIONS).map_err(&failed)?.is_none() {
        return Ok(BTreeMap::new());
    }
    let table = topics.table(POSITIONS, to).map_err(&failed)?;
    let read = |sink: String| {
        let State { logs, schemas, .. } = state_of(&sink, &table)?;
        let logs = logs.into_values().filter(|state| state.has_position).map(|state| state.counts);
        Ok((sink, SentCounts { logs: logs.collect(), schemas }))
    };
    State::sinks(&table).into_iter().map(read).collect()
}

fn read_state(options: &KafkaOptions, sink: &str) -> Result<State, SinkError> {
    let (_, mut topics) = connect(&options.broker)?;
    let failed = failed("read the positions", None);
    if topics.copies(POSITIONS).map_err(&failed)?.is_none() {
        return Ok(State::default());
    }
    state_of(sink, &topics.table(POSITIONS, ReadTo::Stable).map_err(&failed)?)
}

/// Reads the bookkeeping from the table of its topic.
pub(super) fn state_of(sink: &str, table: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<State, SinkError> {
    State::read(sink, table).map_err(|key| SinkError::QueueEntry { key })
}
