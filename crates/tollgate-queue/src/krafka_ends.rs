//! Ends of transactions that a cluster lost, by krafka.
//!
//! A transaction ends with a marker in each of its partitions. When a coordinator restarts, it writes the
//! markers again that are missing. Kafka 4.4 takes a partition without a leader for a deleted one: it
//! writes no marker there, and notes the transaction as complete
//! (`KRaftMetadataCache.getPartitionLeaderEndpoint` and
//! `TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`). All replicas of a partition have to
//! restart for this, as after a power cut. Readers of committed records then never pass the first record of
//! the transaction.
//!
//! The coordinator still has the result of the transaction. The functions here write the missing markers
//! with this result. The epoch of a marker is the one of the coordinator. It is above the epoch of the
//! records, so the broker refuses the marker if the next transaction of the producer has begun in the
//! partition (KIP-1228).

use std::time::Duration;

use krafka::__private::kafka_metadata;
use krafka::__private::protocol::{
    ApiKey, VersionedDecode, VersionedEncode, WritableTxnMarker, WritableTxnMarkerTopic,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use krafka::Kafka;
use krafka::admin::{
    AdminClient, DescribeProducersOptions, DescribeTransactionsOptions, ListTransactionsOptions,
    ProducerState, TopicPartition,
};
use krafka::error::{ErrorCode, KrafkaError};

/// Version of the request that has the version of the transaction. Only this one has the strict check of the
/// epoch.
const STRICT_MARKERS: i16 = 2;
/// Value of `TransactionVersion` for a marker whose epoch is above the epoch of the records.
const TRANSACTION_V2: i8 = 2;
/// Wait between two looks at a transaction that ends now.
const ENDING_PAUSE: Duration = Duration::from_millis(100);

/// Writes the missing ends of transactions.
pub(crate) struct Ends<'a> {
    pub(crate) kafka: &'a Kafka,
    pub(crate) admin: &'a AdminClient,
}

/// What a coordinator knows about the last transaction of an id.
enum Last {
    /// Its writer may still commit it, or the id is unknown.
    Open,
    /// It has ended.
    Ended(Ended),
}

/// A transaction that has ended at its coordinator.
#[derive(PartialEq, Eq)]
struct Ended {
    id: String,
    producer: i64,
    /// The epoch of the next transaction. With version 2 of transactions, each end raises it.
    epoch: i16,
    outcome: Outcome,
}

/// Result of a transaction at its coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Committed,
    Aborted,
    /// The coordinator has forgotten it.
    Forgotten,
}

/// What happens with a partition that the user may not see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unseen {
    Fails,
    IsLeftOut,
}

impl Ended {
    /// Returns whether the marker of the transaction that is open in a partition says "committed".
    ///
    /// # Errors
    /// A later transaction hides the result.
    fn is_committed(&self, place: &TopicPartition, state: &ProducerState) -> Result<bool, KrafkaError> {
        let is_committed = self.outcome == Outcome::Committed;
        if is_committed && state.producer_epoch + 1 < i32::from(self.epoch) {
            let reason = "a later transaction hides its result: abort it in all partitions by \
                          kafka-transactions.sh, or delete the topic";
            return Err(KrafkaError::config(lost_end(self, place, state, reason)));
        }
        Ok(is_committed)
    }
}

impl Ends<'_> {
    /// Ends the last transaction of an id in these partitions, if the coordinator has its result. The user
    /// may not see some of the `others`. Returns whether its writer may still commit it.
    pub(crate) async fn end_of(
        &self,
        id: &str,
        known: Vec<TopicPartition>,
        others: Vec<TopicPartition>,
    ) -> Result<bool, KrafkaError> {
        let Last::Ended(ended) = self.last(id).await? else { return Ok(true) };
        let mut open = self.open_in(known, Unseen::Fails).await?;
        open.extend(self.open_in(others, Unseen::IsLeftOut).await?);
        self.write_all(&ended, &open).await.map(|()| false)
    }

    /// Ends the transactions of all ids in these partitions, where the coordinator has the result.
    pub(crate) async fn end_in(&self, partitions: Vec<TopicPartition>) -> Result<(), KrafkaError> {
        let open = self.open_in(partitions.clone(), Unseen::Fails).await?;
        if open.is_empty() {
            return Ok(());
        }
        let producers = open.iter().map(|(_, state)| state.producer_id).collect();
        let options = ListTransactionsOptions::default().producer_ids(producers);
        for found in self.admin.list_transactions(options).await?.into_values() {
            for listing in found? {
                // Its writer may have gone on, so the partitions are asked again after the coordinator.
                self.end_of(&listing.transactional_id, partitions.clone(), Vec::new()).await?;
            }
        }
        Ok(())
    }

    /// Asks the coordinator of an id. Waits while the coordinator ends the transaction.
    async fn last(&self, id: &str) -> Result<Last, KrafkaError> {
        loop {
            let options = DescribeTransactionsOptions::default();
            let described = match self.admin.describe_transactions([id], options).await?.remove(id) {
                Some(Err(KrafkaError::Broker { code: ErrorCode::TransactionalIdNotFound, .. })) | None => {
                    return Ok(Last::Open);
                }
                Some(described) => {
                    described.map_err(|error| about(error, &format!("transactional id {id:?}")))?
                }
            };
            let outcome = match &*described.state {
                "CompleteCommit" => Outcome::Committed,
                "CompleteAbort" => Outcome::Aborted,
                // The next producer of the id has opened. It opens only after a committed transaction has its
                // markers, so the last one was aborted.
                "Empty" => Outcome::Forgotten,
                "PrepareCommit" | "PrepareAbort" | "PrepareEpochFence" => {
                    tokio::time::sleep(ENDING_PAUSE).await;
                    continue;
                }
                _ => return Ok(Last::Open),
            };
            let (producer, epoch) = (described.producer_id, described.producer_epoch);
            return Ok(Last::Ended(Ended { id: id.to_owned(), producer, epoch, outcome }));
        }
    }

    /// Returns the producers that have an open transaction in a partition.
    async fn open_in(
        &self,
        partitions: Vec<TopicPartition>,
        unseen: Unseen,
    ) -> Result<Vec<(TopicPartition, ProducerState)>, KrafkaError> {
        let mut open = Vec::new();
        let options = DescribeProducersOptions::default();
        for (place, producers) in self.admin.describe_producers(partitions, options).await? {
            let producers = match producers {
                Err(KrafkaError::Broker { code: ErrorCode::TopicAuthorizationFailed, .. })
                    if unseen == Unseen::IsLeftOut =>
                {
                    continue;
                }
                producers => producers.map_err(|error| about(error, &format!("topic {:?}", place.topic)))?,
            };
            let has_begun = |state: &ProducerState| state.current_transaction_start_offset.is_some();
            open.extend(producers.into_iter().filter(has_begun).map(|state| (place.clone(), state)));
        }
        Ok(open)
    }

    /// Writes the marker of a transaction in each partition where it is open.
    async fn write_all(
        &self,
        ended: &Ended,
        open: &[(TopicPartition, ProducerState)],
    ) -> Result<(), KrafkaError> {
        for (place, state) in open.iter().filter(|(_, state)| state.producer_id == ended.producer) {
            if state.producer_epoch >= i32::from(ended.epoch) {
                self.check_is_next(ended, place, state).await?;
                continue;
            }
            let is_committed = ended.is_committed(place, state)?;
            self.write(ended, place, state, is_committed).await?;
            tracing::warn!(
                id = ended.id,
                topic = place.topic,
                partition = place.partition,
                offset = state.current_transaction_start_offset,
                is_committed,
                "the cluster lost the end of a transaction: written again"
            );
        }
        Ok(())
    }

    /// Checks that an open transaction is the next one of the id, which has begun after the coordinator was
    /// asked.
    ///
    /// # Errors
    /// It is the last one. Without version 2 of transactions, an end does not raise the epoch.
    async fn check_is_next(
        &self,
        ended: &Ended,
        place: &TopicPartition,
        state: &ProducerState,
    ) -> Result<(), KrafkaError> {
        match self.last(&ended.id).await? {
            Last::Ended(now) if ended.outcome != Outcome::Forgotten && now == *ended => {
                let reason = "its writer needs brokers with transaction.version 2";
                let text = lost_end(ended, place, state, reason);
                Err(KrafkaError::broker(ErrorCode::ConcurrentTransactions, text))
            }
            _ => Ok(()),
        }
    }

    async fn write(
        &self,
        ended: &Ended,
        place: &TopicPartition,
        state: &ProducerState,
        is_committed: bool,
    ) -> Result<(), KrafkaError> {
        let leader = kafka_metadata(self.kafka).get_leader_connection(&place.topic, place.partition).await?;
        let version = leader.negotiate_api_version_max(ApiKey::WriteTxnMarkers, STRICT_MARKERS);
        if version != Some(STRICT_MARKERS) {
            let reason = "the broker is too old for a safe write of the end: Kafka 4.2 has it";
            return Err(KrafkaError::config(lost_end(ended, place, state, reason)));
        }
        let topic =
            WritableTxnMarkerTopic { name: place.topic.clone(), partition_indexes: vec![place.partition] };
        let marker = WritableTxnMarker {
            producer_id: ended.producer,
            producer_epoch: ended.epoch,
            transaction_result: is_committed,
            topics: vec![topic],
            coordinator_epoch: state.coordinator_epoch.max(0),
            transaction_version: TRANSACTION_V2,
        };
        let request = WriteTxnMarkersRequest { markers: vec![marker] };
        let encode = |bytes: &mut _| request.encode_versioned(STRICT_MARKERS, bytes);
        let mut answer = leader.send_request(ApiKey::WriteTxnMarkers, STRICT_MARKERS, encode).await?;
        let answer = WriteTxnMarkersResponse::decode_versioned(STRICT_MARKERS, &mut answer)?;
        let topics = answer.markers.into_iter().flat_map(|marker| marker.topics);
        for result in topics.flat_map(|topic| topic.partitions) {
            let code = result.error_code;
            // `InvalidProducerEpoch`: another loader has written the marker, or has begun the next
            // transaction.
            if !code.is_ok() && code != ErrorCode::InvalidProducerEpoch {
                let remedy = match code {
                    ErrorCode::ClusterAuthorizationFailed => {
                        ": the user needs the operation ClusterAction on the cluster"
                    }
                    _ => "",
                };
                let reason = format!("{code:?}{remedy}");
                return Err(KrafkaError::broker(code, lost_end(ended, place, state, &reason)));
            }
        }
        Ok(())
    }
}

/// Adds to the answer of a broker what it is about.
pub(crate) fn about(error: KrafkaError, what: &str) -> KrafkaError {
    match error {
        KrafkaError::Broker { code, .. } => KrafkaError::broker(code, what),
        error => error,
    }
}

fn lost_end(ended: &Ended, place: &TopicPartition, state: &ProducerState, reason: &str) -> String {
    let offset = state.current_transaction_start_offset.unwrap_or_default();
    let outcome = format!("{:?}", ended.outcome).to_lowercase();
    format!(
        "the cluster lost the end of a transaction: id {:?}, {outcome}, topic {:?}, partition {}, offset \
         {offset}: {reason}",
        ended.id, place.topic, place.partition,
    )
}
