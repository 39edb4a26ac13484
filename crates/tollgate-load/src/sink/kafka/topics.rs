//! Functions that read a cluster without an open sink.

use std::collections::BTreeMap;

use tollgate_log::{LogId, Position, Schema};
use tollgate_queue::{Client, ReadTo, TopicCopies, Topics};

use super::failure::failed;
use super::options::KafkaOptions;
use super::state::{POSITIONS, State};
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
    let (_, mut topics) = connect(options)?;
    let names: std::collections::BTreeSet<_> = streams.map(|stream| options.topic_of(stream)).collect();
    let mut report = |topic: String| {
        let copies = topics.copies(&topic).map_err(failed("describe a topic", None))?;
        Ok(TopicReport { topic, copies })
    };
    names.into_iter().chain([POSITIONS.to_owned()]).map(&mut report).collect()
}

/// Connects to a cluster.
pub(super) fn connect(options: &KafkaOptions) -> Result<(Client, Box<dyn Topics>), SinkError> {
    let client = Client::of_sinks().ok_or(SinkError::NoQueue)?;
    let topics = client.topics(&options.broker).map_err(failed("connect", None))?;
    Ok((client, topics.ok_or(SinkError::NoQueue)?))
}

/// Checks the names of the topics. A topic has no columns, so every row fits it.
pub(in crate::sink) fn check<'a>(
    options: &KafkaOptions,
    mut streams: impl Iterator<Item = &'a Schema>,
) -> Result<(), SinkError> {
    streams.try_for_each(|schema| check_name(options, schema.stream()))
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

fn read_state(options: &KafkaOptions, sink: &str) -> Result<State, SinkError> {
    let (_, mut topics) = connect(options)?;
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
