//! The topics of a cluster, by krafka.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use krafka::admin::{
    AdminClient, ConfigResource, DescribeConfigsOptions, ListOffsetsOptions, ListTopicsOptions, OffsetSpec,
    TopicPartition,
};
use krafka::consumer::{AutoOffsetReset, Consumer, IsolationLevel};
use krafka::error::{ErrorCode, KrafkaError};

use crate::contract::{NewTopic, ReadTo, TopicCopies, Topics};
use crate::error::QueueError;
use crate::krafka_client::Connection;
use crate::krafka_ends::{Ends, about};
use crate::krafka_errors::failed;
use crate::options::BrokerOptions;

/// Longest wait of one fetch.
const FETCH_WAIT: Duration = Duration::from_millis(50);
/// Wait for the end of open transactions, before the read looks whether the cluster lost it.
const END_PAUSE: Duration = Duration::from_secs(1);
/// Time that is added to the age at which the broker aborts a transaction.
const ABORT_LATENCY: Duration = Duration::from_secs(10);

/// Decides by its key whether a record is kept in memory.
type IsKept<'a> = &'a dyn Fn(&[u8]) -> bool;

/// The topics of a cluster.
pub(crate) struct KrafkaTopics {
    connection: Connection,
    /// How long a transaction of another writer may stay open.
    open_max: Duration,
}

impl KrafkaTopics {
    pub(crate) fn open(options: &BrokerOptions) -> Result<Self, QueueError> {
        let connection = Connection::open(options)?;
        Ok(Self { connection, open_max: options.transaction_timeout + ABORT_LATENCY })
    }

    fn failed(&self, topic: &str, error: &KrafkaError) -> QueueError {
        failed(&self.connection.brokers, error).about(&format!("topic {topic:?}"))
    }

    /// Returns the partitions of a topic. `None`: the topic does not exist.
    fn partitions(
        &self,
        topic: &str,
    ) -> Result<Option<Vec<krafka::admin::PartitionDescription>>, QueueError> {
        let admin = self.connection.admin();
        let mut found = self.connection.wait(admin.describe_topics([topic], Default::default()))?;
        match found.remove(topic) {
            Some(Ok(topic)) => Ok(Some(topic.partitions)),
            None | Some(Err(KrafkaError::UnknownTopic { .. })) => Ok(None),
            Some(Err(KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. })) => Ok(None),
            Some(Err(error)) => Err(self.failed(topic, &error)),
        }
    }

    /// Reads partitions of a topic.
    fn read(
        &self,
        topic: &str,
        partitions: Vec<i32>,
        to: ReadTo<'_>,
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, QueueError> {
        let admin = self.connection.admin();
        let ends = Ends { kafka: &self.connection.kafka, admin: &admin };
        let reading = read_table(&ends, topic, (partitions, to, is_kept), self.open_max);
        let table = self.connection.waiter.wait_at_most(self.open_max * 2, reading);
        table.map_err(|error| self.failed(topic, &error))
    }
}

impl Topics for KrafkaTopics {
    fn create(&mut self, topics: &[NewTopic]) -> Result<(), QueueError> {
        let made = topics
            .iter()
            .map(|topic| wire_topic(topic).map_err(|error| self.failed(&topic.name, &error)))
            .collect::<Result<Vec<_>, _>>()?;
        let admin = self.connection.admin();
        let answers = self.connection.wait(admin.create_topics(made, Default::default()))?;
        for (topic, answer) in answers {
            match answer {
                Ok(()) | Err(KrafkaError::Broker { code: ErrorCode::TopicAlreadyExists, .. }) => {}
                Err(error) => {
                    return Err(failed(&self.connection.brokers, &error)
                        .about(&format!("topic {topic:?} cannot be created")));
                }
            }
        }
        Ok(())
    }

    fn copies(&mut self, topic: &str) -> Result<Option<TopicCopies>, QueueError> {
        let Some(partitions) = self.partitions(topic)? else { return Ok(None) };
        let resource = ConfigResource::topic(topic);
        let names = DescribeConfigsOptions::default().config_names(vec!["min.insync.replicas".to_owned()]);
        let admin = self.connection.admin();
        let mut configs = self.connection.wait(admin.describe_configs([resource.clone()], names))?;
        let entries = match configs.remove(&resource) {
            Some(entries) => entries.map_err(|error| self.failed(topic, &error))?,
            None => Vec::new(),
        };
        let min_insync = entries.iter().find_map(|entry| entry.config_value().parse().ok()).unwrap_or(1);
        let replicas = partitions.iter().map(|partition| partition.replicas.len()).min().unwrap_or(0);
        Ok(Some(TopicCopies { partitions: partitions.len(), replicas, min_insync }))
    }

    fn end_lost(
        &mut self,
        id: &str,
        known: &BTreeSet<String>,
        may_have: &dyn Fn(&str) -> bool,
    ) -> Result<bool, QueueError> {
        let admin = self.connection.admin();
        let ends = Ends { kafka: &self.connection.kafka, admin: &admin };
        self.connection.wait(async {
            let (mut sure, mut others) = (Vec::new(), Vec::new());
            let topics = admin.list_topics(ListTopicsOptions::default()).await?;
            let topics = topics.into_iter().filter(|topic| known.contains(topic) || may_have(topic));
            for (name, topic) in admin.describe_topics(topics, Default::default()).await? {
                let is_known = known.contains(&name);
                let topic = match topic {
                    Err(_) if !is_known => continue,
                    topic => topic.map_err(|error| about(error, &format!("topic {name:?}")))?,
                };
                for partition in topic.partitions {
                    let place = TopicPartition::new(&*name, partition.partition);
                    match partition.leader {
                        _ if is_known => sure.push(place),
                        // Such a partition of a foreign topic must not hold up the sink.
                        None => {}
                        Some(_) => others.push(place),
                    }
                }
            }
            ends.end_of(id, sure, others).await
        })
    }

    fn table(&mut self, topic: &str, to: ReadTo<'_>) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, QueueError> {
        let Some(partitions) = self.partitions(topic)? else {
            let brokers = self.connection.brokers.clone();
            return Err(QueueError::UnknownTopic { brokers, topic: topic.to_owned() });
        };
        let partitions: Vec<i32> = partitions.iter().map(|partition| partition.partition).collect();
        self.read(topic, partitions, to, &|_| true)
    }

    fn table_of(
        &mut self,
        topic: &str,
        partition: i32,
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, QueueError> {
        self.read(topic, vec![partition], ReadTo::End, is_kept)
    }
}

fn wire_topic(topic: &NewTopic) -> Result<krafka::admin::NewTopic, KrafkaError> {
    let made = krafka::admin::NewTopic::new(&*topic.name, topic.partitions, topic.replication.unwrap_or(-1))?;
    Ok(topic.settings.iter().fold(made, |made, (name, value)| made.with_config(*name, value)))
}

/// Reads a topic.
///
/// [`ReadTo::End`] counts the records of open transactions. So the function returns only after these
/// transactions have ended, and misses no record that is committed at the call.
async fn read_table(
    lost: &Ends<'_>,
    topic: &str,
    (partitions, to, is_kept): (Vec<i32>, ReadTo<'_>, IsKept<'_>),
    open_max: Duration,
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, KrafkaError> {
    let ends = ends(lost.admin, topic, &partitions, to).await?;
    let consumer = lost
        .kafka
        .consumer_without_group()
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false)
        .isolation_level(IsolationLevel::ReadCommitted)
        .fetch_max_wait(FETCH_WAIT)
        .build()
        .await?;
    consumer.assign(topic, partitions).await?;
    let table = read_to(&consumer, (topic, is_kept), &ends, open_max, lost).await;
    consumer.close().await?;
    table
}

async fn read_to(
    consumer: &Consumer,
    (topic, is_kept): (&str, IsKept<'_>),
    ends: &HashMap<i32, i64>,
    open_max: Duration,
    lost: &Ends<'_>,
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, KrafkaError> {
    let (mut table, begun) = (BTreeMap::new(), Instant::now());
    let mut looked = begun;
    while !behind(consumer, topic, ends).await.is_empty() {
        for record in consumer.poll(FETCH_WAIT).await? {
            let Some(key) = record.key.filter(|key| is_kept(key)) else { continue };
            match record.value {
                Some(value) => drop(table.insert(key.to_vec(), value.to_vec())),
                None => drop(table.remove(&key[..])),
            }
        }
        if looked.elapsed() > END_PAUSE {
            lost.end_in(behind(consumer, topic, ends).await).await?;
            looked = Instant::now();
        }
        if begun.elapsed() > open_max {
            let places = behind(consumer, topic, ends).await;
            let places: Vec<_> = places.iter().map(|place| place.partition.to_string()).collect();
            let places = places.join(", ");
            return Err(KrafkaError::timeout(format!(
                "end of open transactions in {topic}, partitions {places}, after {open_max:?}"
            )));
        }
    }
    Ok(table)
}

/// Returns the partitions that have records before their end that were not returned yet.
async fn behind(consumer: &Consumer, topic: &str, ends: &HashMap<i32, i64>) -> Vec<TopicPartition> {
    let mut behind = Vec::new();
    for (partition, end) in ends {
        let position = consumer.position(topic, *partition).await;
        if *end > 0 && position.is_none_or(|position| position < *end) {
            behind.push(TopicPartition::new(topic, *partition));
        }
    }
    behind
}

/// Returns the end of each partition.
async fn ends(
    admin: &AdminClient,
    topic: &str,
    partitions: &[i32],
    to: ReadTo<'_>,
) -> Result<HashMap<i32, i64>, KrafkaError> {
    let waits = |partition: &i32| match to {
        ReadTo::Stable => false,
        ReadTo::End => true,
        ReadTo::EndOf(waiting) => waiting.contains(partition),
    };
    let (waiting, stable): (Vec<i32>, Vec<i32>) = partitions.iter().partition(|partition| waits(partition));
    let mut ends = offsets(admin, topic, &stable, true).await?;
    ends.extend(offsets(admin, topic, &waiting, false).await?);
    Ok(ends)
}

async fn offsets(
    admin: &AdminClient,
    topic: &str,
    partitions: &[i32],
    is_committed: bool,
) -> Result<HashMap<i32, i64>, KrafkaError> {
    if partitions.is_empty() {
        return Ok(HashMap::new());
    }
    let options = ListOffsetsOptions::default().read_committed(is_committed);
    let wanted =
        partitions.iter().map(|partition| (TopicPartition::new(topic, *partition), OffsetSpec::Latest));
    let found = admin.list_offsets(wanted, options).await?;
    found.into_iter().map(|(place, offset)| Ok((place.partition, offset?.offset))).collect()
}
