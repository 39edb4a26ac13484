//! A reader of committed records, by krafka.

use std::collections::BTreeMap;
use std::time::Duration;

use krafka::admin::{AdminClient, ListOffsetsOptions, OffsetSpec, TopicPartition};
use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel};
use krafka::error::{ErrorCode, KrafkaError};

use crate::contract::{PartitionName, PartitionRange, Reader, TopicPartitions};
use crate::error::QueueError;
use crate::krafka_client::Connection;
use crate::krafka_errors::failed;
use crate::options::BrokerOptions;
use crate::record::ReadRecord;

/// Longest wait of one fetch at the broker.
const FETCH_WAIT: Duration = Duration::from_millis(100);
/// Maximum number of records of one poll. The caller loads them in one transaction for each partition.
const RECORDS_MAX: i32 = 10_000;

/// A reader of committed records.
pub(crate) struct KrafkaReader {
    consumer: Option<Consumer>,
    connection: Connection,
}

impl KrafkaReader {
    pub(crate) fn open(options: &BrokerOptions) -> Result<Self, QueueError> {
        Ok(Self { consumer: None, connection: Connection::open(options)? })
    }

    fn failed(&self, topic: &str, error: &KrafkaError) -> QueueError {
        failed(&self.connection.brokers, error).about(&format!("topic {topic:?}"))
    }

    /// Returns the offsets of partitions.
    fn offsets(
        &self,
        admin: &AdminClient,
        topic: &str,
        partitions: &[i32],
        (spec, is_committed): (OffsetSpec, bool),
    ) -> Result<BTreeMap<i32, u64>, QueueError> {
        let options = ListOffsetsOptions::default().read_committed(is_committed);
        let wanted = partitions.iter().map(|partition| (TopicPartition::new(topic, *partition), spec));
        let found = self.connection.wait(admin.list_offsets(wanted, options))?;
        let offset = |(place, offset): (TopicPartition, Result<krafka::admin::ListedOffset, KrafkaError>)| {
            let offset = offset.map_err(|error| self.failed(topic, &error))?.offset;
            Ok((place.partition, u64::try_from(offset).unwrap_or_default()))
        };
        found.into_iter().map(offset).collect()
    }
}

impl Reader for KrafkaReader {
    fn partitions(&mut self, topic: &str) -> Result<Option<TopicPartitions>, QueueError> {
        let admin = self.connection.admin();
        let mut found = self.connection.wait(admin.describe_topics([topic], Default::default()))?;
        let described = match found.remove(topic) {
            Some(Ok(described)) => described,
            None
            | Some(Err(
                KrafkaError::UnknownTopic { .. }
                | KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. },
            )) => return Ok(None),
            Some(Err(error)) => return Err(self.failed(topic, &error)),
        };
        let numbers: Vec<_> = described.partitions.iter().map(|partition| partition.partition).collect();
        let firsts = self.offsets(&admin, topic, &numbers, (OffsetSpec::Earliest, true))?;
        let ends = self.offsets(&admin, topic, &numbers, (OffsetSpec::Latest, true))?;
        let range = |partition: &i32| {
            let [first, end] =
                [&firsts, &ends].map(|offsets| offsets.get(partition).copied().unwrap_or_default());
            PartitionRange { partition: *partition, first, end }
        };
        Ok(Some(TopicPartitions { id: described.topic_id, partitions: numbers.iter().map(range).collect() }))
    }

    fn written_ends(&mut self, topic: &str, partitions: &[i32]) -> Result<BTreeMap<i32, u64>, QueueError> {
        let admin = self.connection.admin();
        self.offsets(&admin, topic, partitions, (OffsetSpec::Latest, false))
    }

    fn start(&mut self, places: &[(PartitionName, u64)]) -> Result<(), QueueError> {
        self.consumer = None;
        let offsets = places.iter().map(|(place, offset)| (wire_place(place), offset.cast_signed()));
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (place, _) in places {
            topics.entry(&place.topic).or_default().push(place.partition);
        }
        let consumer = self
            .connection
            .kafka
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::None)
            .enable_auto_commit(false)
            .isolation_level(IsolationLevel::ReadCommitted)
            .fetch_max_wait(FETCH_WAIT)
            .max_poll_records(RECORDS_MAX)
            .initial_offsets(offsets);
        let opening = async {
            let consumer = consumer.build().await?;
            for (topic, partitions) in topics {
                consumer.assign(topic, partitions).await?;
            }
            Ok(consumer)
        };
        self.consumer = Some(self.connection.wait(opening)?);
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<Vec<ReadRecord>, QueueError> {
        let Some(consumer) = &self.consumer else { return Ok(Vec::new()) };
        let records = self.connection.wait(consumer.poll(wait))?;
        Ok(records.into_iter().map(read_record).collect())
    }

    fn next_offset(&mut self, place: &PartitionName) -> Option<u64> {
        let consumer = self.consumer.as_ref()?;
        let position = async { Ok(consumer.position(&place.topic, place.partition).await) };
        self.connection.wait(position).ok().flatten().and_then(|position| u64::try_from(position).ok())
    }
}

fn wire_place(place: &PartitionName) -> TopicPartition {
    TopicPartition::new(&*place.topic, place.partition)
}

fn read_record(record: ConsumerRecord) -> ReadRecord {
    let headers = record.headers.iter();
    let headers = headers.map(|(name, value)| {
        let value = value.as_ref().map(|value| value.to_vec());
        (name.to_string(), value.unwrap_or_default())
    });
    ReadRecord {
        topic: record.topic.to_string(),
        partition: record.partition,
        offset: u64::try_from(record.offset).unwrap_or_default(),
        headers: headers.collect(),
        key: record.key.map(|key| key.to_vec()),
        value: record.value.map(|value| value.to_vec()),
    }
}
