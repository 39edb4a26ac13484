//! A producer by krafka.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use krafka::__private::kafka_pool;
use krafka::error::{ErrorCode, KrafkaError};
use krafka::producer::{Acks, DeliveryHandle, Producer as PlainProducer, TransactionalProducer};
use krafka::{Kafka, Record};

use crate::contract::Producer;
use crate::error::QueueError;
use crate::krafka_errors::{check_address, code_of, failed, timeout_refused};
use crate::krafka_security::{check_files, security};
use crate::krafka_wait::Waiter;
use crate::options::{BrokerOptions, Compression, Guarantee};
use crate::record::QueueRecord;

/// Longest wait for more records of a batch. A load hands over all its records at once, so a batch never has
/// to wait.
const LINGER: Duration = Duration::ZERO;
/// Maximum bytes of a batch. Larger batches cost the broker less for each record. A topic refuses a batch
/// above its `max.message.bytes`, which is 1 MiB by default.
const BATCH_BYTES: usize = 64 << 10;
/// Value of `max.message.bytes` with which a topic takes each batch of several records. The broker counts the
/// header of a batch, too.
const MESSAGE_BYTES_NEEDED: usize = 2 * BATCH_BYTES;
/// Maximum bytes of one record for the client. The limit of the topic decides, so this one is larger.
const RECORD_BYTES_MAX: usize = 96 << 20;
/// Maximum bytes by which the lengths in a record differ from those in another one with equal content.
const RECORD_LENGTHS: usize = 128;
/// Maximum bytes of records that the client holds.
const BUFFER_BYTES: usize = 256 << 20;

/// Time between the end of a transaction and the first record of the next one. The broker still writes the
/// markers of the end. A record that arrives before them waits in the broker for
/// `add.partitions.to.txn.retry.backoff.ms`, which is 20 ms by default.
const MARKERS_TIME: Duration = Duration::from_millis(2);

/// How often the tasks of the client run, so that they see which connections have ended.
const LOOKS: usize = 8;

/// A producer by krafka, with the runtime of its connections.
pub(crate) struct KrafkaProducer {
    // Dropped before the runtime, because its tasks run there.
    kind: Kind,
    kafka: Kafka,
    brokers: String,
    waiter: Waiter,
    is_compressed: bool,
    /// Number of connections that had ended when the last transaction was committed.
    closed: u64,
    /// When the last transaction was committed or aborted.
    ended_at: Option<Instant>,
}

enum Kind {
    Transactional(Box<TransactionalProducer>),
    Plain(Box<PlainProducer>),
}

/// A connection to brokers, with its runtime.
pub(crate) struct Connection {
    // Dropped before the runtime, because its tasks run there.
    pub(crate) kafka: Kafka,
    pub(crate) brokers: String,
    pub(crate) waiter: Waiter,
}

impl Connection {
    /// Connects to a broker.
    pub(crate) fn open(options: &BrokerOptions) -> Result<Self, QueueError> {
        let brokers = options.brokers.clone();
        let waiter = Waiter::new(options)?;
        check_address(options)?;
        check_files(options)?;
        let builder = Kafka::builder(&*options.brokers)
            .client_id("tollgate")
            .connect_timeout(options.connect_timeout)
            .request_timeout(options.request_timeout)
            .allow_auto_create_topics(false);
        let builder = match security(&options.security) {
            Some(security) => builder.security(security),
            None => builder,
        };
        let connecting = waiter.wait_at_most(options.delivery_timeout, builder.connect());
        let kafka = connecting.map_err(|error| failed(&brokers, &error))?;
        Ok(Self { kafka, brokers, waiter })
    }

    /// Returns the calls of an administrator.
    pub(crate) fn admin(&self) -> krafka::admin::AdminClient {
        self.waiter.enter(|| self.kafka.admin())
    }

    /// Waits for an answer.
    pub(crate) fn wait<T>(
        &self,
        call: impl Future<Output = Result<T, KrafkaError>>,
    ) -> Result<T, QueueError> {
        self.waiter.wait(call).map_err(|error| failed(&self.brokers, &error))
    }
}

impl KrafkaProducer {
    pub(crate) fn open(options: &BrokerOptions, guarantee: &Guarantee) -> Result<Self, QueueError> {
        let Connection { kafka, brokers, waiter } = Connection::open(options)?;
        let builder = kafka
            .producer()
            .acks(Acks::All)
            .compression(compression(options.compression))
            .linger(LINGER)
            .batch_size(BATCH_BYTES)
            .max_request_size(RECORD_BYTES_MAX)
            .buffer_memory(BUFFER_BYTES)
            .max_block(options.delivery_timeout)
            .delivery_timeout(options.delivery_timeout)
            .metrics_push(false);
        let kind = waiter.wait(async {
            match guarantee {
                Guarantee::Transactions { id } => {
                    let builder = builder.transaction_timeout(options.transaction_timeout);
                    builder.build_transactional(id.as_str()).await.map(Box::new).map(Kind::Transactional)
                }
                Guarantee::Idempotent => builder.build().await.map(Box::new).map(Kind::Plain),
            }
        });
        let kind = kind.map_err(|error| match (&error, guarantee) {
            (KrafkaError::Broker { code: ErrorCode::InvalidTransactionTimeout, .. }, _) => {
                timeout_refused(&waiter, &kafka, options)
            }
            (_, Guarantee::Transactions { id }) => {
                failed(&brokers, &error).about(&format!("transactional id {id:?}"))
            }
            (_, Guarantee::Idempotent) => failed(&brokers, &error),
        })?;
        let closed = connections_closed(&kafka);
        let is_compressed = options.compression != Compression::None;
        Ok(Self { kind, kafka, brokers, waiter, is_compressed, closed, ended_at: None })
    }

    fn failed(&self, error: &KrafkaError) -> QueueError {
        failed(&self.brokers, error)
    }

    /// Returns the records that the broker refuses for their size even if they are alone in a batch. A
    /// transaction is open afterwards.
    ///
    /// In a transaction, the client fails all records of a batch that is too large. So each of them is sent
    /// again, in a transaction that is aborted. Without compression, the largest record of a topic that the
    /// broker takes shows that it takes the smaller ones.
    fn refused_alone(
        &self,
        producer: &TransactionalProducer,
        records: &[&QueueRecord],
        mut places: Vec<usize>,
    ) -> Result<Vec<usize>, KrafkaError> {
        let (mut refused, mut taken) = (Vec::new(), BTreeMap::new());
        places.sort_by_key(|place| Reverse(records[*place].bytes()));
        for place in places {
            let (topic, bytes) = (&*records[place].topic, records[place].bytes());
            let is_smaller = taken.get(topic).is_some_and(|taken| bytes + RECORD_LENGTHS <= *taken);
            if is_smaller && !self.is_compressed {
                continue;
            }
            if self.waiter.wait(is_refused_alone(producer, records[place]))? {
                refused.push(place);
            } else {
                taken.entry(topic).or_insert(bytes);
            }
        }
        Ok(refused)
    }
}

/// Returns how many connections have ended.
fn connections_closed(kafka: &Kafka) -> u64 {
    kafka_pool(kafka).metrics().connections_closed
}

impl Producer for KrafkaProducer {
    fn has_lost_connection(&mut self) -> bool {
        // The client sees the end of a connection only while it runs. A yield asks the sockets, and does not
        // wait.
        drop(self.waiter.wait(async {
            for _ in 0..LOOKS {
                tokio::task::yield_now().await;
            }
            Ok::<_, KrafkaError>(())
        }));
        connections_closed(&self.kafka) != self.closed
    }

    fn begin(&mut self) -> Result<(), QueueError> {
        let since_end = self.ended_at.map_or(MARKERS_TIME, |ended_at| ended_at.elapsed());
        thread::sleep(MARKERS_TIME.saturating_sub(since_end));
        match &self.kind {
            Kind::Transactional(producer) => producer.begin().map_err(|error| self.failed(&error)),
            Kind::Plain(_) => Ok(()),
        }
    }

    fn send(&mut self, records: &[&QueueRecord]) -> Result<(), QueueError> {
        let Err(failure) = self.waiter.wait(deliver(&self.kind, records)) else { return Ok(()) };
        let places = match failure {
            Undelivered::Failed { topic, error } => {
                let error = self.failed(&error);
                return Err(match topic {
                    Some(topic) => error.about(&format!("topic {topic:?}")),
                    None => error,
                });
            }
            Undelivered::TooLarge(places) => places,
        };
        let Kind::Transactional(producer) = &self.kind else { return Err(QueueError::TooLarge { places }) };
        let topic = places.first().map(|place| records[*place].topic.to_string());
        match self.refused_alone(producer, records, places).map_err(|error| self.failed(&error))? {
            refused if refused.is_empty() => Err(QueueError::Refused {
                brokers: self.brokers.clone(),
                reason: format!(
                    "topic {:?} refuses a batch of {BATCH_BYTES} bytes or fewer for its size: raise its \
                     max.message.bytes to {MESSAGE_BYTES_NEEDED} or more",
                    topic.as_deref().unwrap_or_default()
                ),
            }),
            refused => Err(QueueError::TooLarge { places: refused }),
        }
    }

    fn commit(&mut self) -> Result<(), QueueError> {
        let Kind::Transactional(producer) = &self.kind else { return Ok(()) };
        self.waiter.wait(producer.commit()).map_err(|error| match failed(&self.brokers, &error) {
            // The client names a failure before the end of the transaction was sent. All other failures may
            // have reached the broker.
            QueueError::Away { brokers, reason }
            | QueueError::Slow { brokers, reason }
            | QueueError::NotNow { brokers, reason } => QueueError::Unknown { brokers, reason },
            error => error,
        })?;
        self.closed = connections_closed(&self.kafka);
        self.ended_at = Some(Instant::now());
        Ok(())
    }

    fn abort(&mut self) -> Result<(), QueueError> {
        let Kind::Transactional(producer) = &self.kind else { return Ok(()) };
        self.waiter.wait(producer.abort()).map_err(|error| self.failed(&error))?;
        self.ended_at = Some(Instant::now());
        Ok(())
    }
}

/// Why records are not delivered.
enum Undelivered {
    TooLarge(Vec<usize>),
    /// `topic` is the topic of the first failed record.
    Failed {
        topic: Option<String>,
        error: KrafkaError,
    },
}

/// Sends a record alone, in a transaction that is open afterwards. Returns whether the broker refuses it for
/// its size.
async fn is_refused_alone(
    producer: &TransactionalProducer,
    record: &QueueRecord,
) -> Result<bool, KrafkaError> {
    producer.abort().await?;
    producer.begin()?;
    match producer.send(wire_record(record)).await {
        Ok(_) => Ok(false),
        Err(error) if is_too_large(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

impl From<KrafkaError> for Undelivered {
    fn from(error: KrafkaError) -> Self {
        Self::Failed { topic: None, error }
    }
}

/// Sends all records at once, and waits for each.
async fn deliver(kind: &Kind, records: &[&QueueRecord]) -> Result<(), Undelivered> {
    let (mut sent, mut too_large) = (Vec::new(), Vec::new());
    let mut unsent = None;
    for (place, record) in records.iter().enumerate() {
        let record = wire_record(record);
        let handle = match kind {
            Kind::Transactional(producer) => producer.enqueue(record).await,
            Kind::Plain(producer) => producer.enqueue(record).await,
        };
        match handle {
            Ok(handle) => sent.push((place, handle)),
            Err(error) => {
                unsent = Some((place, error));
                break;
            }
        }
    }
    // An earlier record of the list may be the cause, so that one is reported.
    let failure = first_failure(sent, &mut too_large).await.or(unsent);
    // The caller of `TooLarge` takes the other records for delivered if there is no transaction.
    let is_size_first = matches!(kind, Kind::Transactional(_)) || failure.is_none();
    match failure {
        _ if is_size_first && !too_large.is_empty() => Err(Undelivered::TooLarge(too_large)),
        Some((place, error)) => {
            Err(Undelivered::Failed { topic: Some(records[place].topic.to_string()), error })
        }
        None => Ok(()),
    }
}

/// Waits for records. Returns the first failure that is not the size of a record, with its place.
async fn first_failure(
    sent: Vec<(usize, DeliveryHandle)>,
    too_large: &mut Vec<usize>,
) -> Option<(usize, KrafkaError)> {
    let mut first = None;
    for (place, handle) in sent {
        match handle.await {
            Ok(_) => {}
            Err(error) if is_too_large(&error) => too_large.push(place),
            Err(error) => first = first.or(Some((place, error))),
        }
    }
    first
}

/// Returns whether the size of a record is the cause.
fn is_too_large(error: &KrafkaError) -> bool {
    matches!(code_of(error), Some(ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge))
}

fn wire_record(record: &QueueRecord) -> Record {
    let mut wire = match &record.value {
        Some(value) => Record::new(&*record.topic, value.clone()),
        None => Record::new(&*record.topic, Bytes::new()).without_value(),
    };
    if let Some(key) = &record.key {
        wire = wire.key(key.clone());
    }
    if let Some(partition) = record.partition {
        wire = wire.partition(partition);
    }
    record.headers.iter().fold(wire, |wire, (name, value)| wire.header(*name, value.clone()))
}

fn compression(compression: Compression) -> krafka::Compression {
    match compression {
        Compression::None => krafka::Compression::None,
        Compression::Gzip => krafka::Compression::Gzip,
        Compression::Snappy => krafka::Compression::Snappy,
        Compression::Lz4 => krafka::Compression::Lz4,
    }
}
