//! A producer by krafka.

use std::future::Future;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use krafka::__private::kafka_pool;
use krafka::auth::OAuthBearerToken;
use krafka::error::{ErrorCode, KrafkaError};
use krafka::producer::{Acks, DeliveryHandle, Producer as PlainProducer, TransactionalProducer};
use krafka::{Kafka, Record};

use crate::contract::Producer;
use crate::error::QueueError;
use crate::krafka_wait::Waiter;
use crate::options::{BrokerOptions, Compression, Guarantee, Sasl, Security, Tls};
use crate::record::QueueRecord;

/// Longest wait for more records of a batch. A load hands over all its records at once, so a batch never has
/// to wait.
const LINGER: Duration = Duration::ZERO;
/// Maximum bytes of a batch. Larger batches cost the broker less for each record. A topic refuses a batch
/// above its `max.message.bytes`, which is 1 MiB by default.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum bytes of one record for the client. The limit of the topic decides, so this one is larger.
const RECORD_BYTES_MAX: usize = 96 << 20;
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
        let kind = kind.map_err(|error| failed(&brokers, &error))?;
        let closed = connections_closed(&kafka);
        Ok(Self { kind, kafka, brokers, waiter, closed, ended_at: None })
    }

    fn failed(&self, error: &KrafkaError) -> QueueError {
        failed(&self.brokers, error)
    }

    /// Returns the records that the broker refuses for their size even if they are alone in a batch. A
    /// transaction is open afterwards.
    ///
    /// In a transaction, the client fails all records of a batch that is too large. So each of them is sent
    /// again, in a transaction that is aborted.
    fn refused_alone(
        &self,
        producer: &TransactionalProducer,
        records: &[&QueueRecord],
        places: Vec<usize>,
    ) -> Result<Vec<usize>, KrafkaError> {
        let mut refused = Vec::new();
        for place in places {
            if self.waiter.wait(is_refused_alone(producer, records[place]))? {
                refused.push(place);
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
            Undelivered::Failed(error) => return Err(self.failed(&error)),
            Undelivered::TooLarge(places) => places,
        };
        let Kind::Transactional(producer) = &self.kind else { return Err(QueueError::TooLarge { places }) };
        match self.refused_alone(producer, records, places).map_err(|error| self.failed(&error))? {
            places if places.is_empty() => Err(QueueError::Refused {
                brokers: self.brokers.clone(),
                reason: "the topic takes no batch of several records: raise its max.message.bytes".to_owned(),
            }),
            places => Err(QueueError::TooLarge { places }),
        }
    }

    fn commit(&mut self) -> Result<(), QueueError> {
        let Kind::Transactional(producer) = &self.kind else { return Ok(()) };
        self.waiter.wait(producer.commit()).map_err(|error| match failed(&self.brokers, &error) {
            // The client names a failure before the end of the transaction was sent. All other failures may
            // have reached the broker.
            QueueError::Away { brokers, reason } => QueueError::Unknown { brokers, reason },
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
    Failed(KrafkaError),
}

impl From<KrafkaError> for Undelivered {
    fn from(error: KrafkaError) -> Self {
        Self::Failed(error)
    }
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

/// Sends all records at once, and waits for each.
async fn deliver(kind: &Kind, records: &[&QueueRecord]) -> Result<(), Undelivered> {
    let (mut sent, mut too_large): (Vec<(usize, DeliveryHandle)>, _) = (Vec::new(), Vec::new());
    for (place, record) in records.iter().enumerate() {
        let record = wire_record(record);
        let handle = match kind {
            Kind::Transactional(producer) => producer.enqueue(record).await,
            Kind::Plain(producer) => producer.enqueue(record).await,
        };
        match handle {
            Ok(handle) => sent.push((place, handle)),
            Err(error) => {
                // An earlier record of the list may be the cause, so that one is reported.
                let cause = first_failure(sent, &mut too_large).await;
                return Err(refused(too_large, cause.unwrap_or(error)));
            }
        }
    }
    let cause = first_failure(sent, &mut too_large).await;
    match (cause, too_large.is_empty()) {
        (None, true) => Ok(()),
        (Some(error), true) => Err(Undelivered::Failed(error)),
        (_, false) => Err(Undelivered::TooLarge(too_large)),
    }
}

fn refused(too_large: Vec<usize>, error: KrafkaError) -> Undelivered {
    if too_large.is_empty() { Undelivered::Failed(error) } else { Undelivered::TooLarge(too_large) }
}

/// Waits for records. Returns the first failure that is not the size of a record.
async fn first_failure(
    sent: Vec<(usize, DeliveryHandle)>,
    too_large: &mut Vec<usize>,
) -> Option<KrafkaError> {
    let mut first = None;
    for (place, handle) in sent {
        match handle.await {
            Ok(_) => {}
            Err(error) if is_too_large(&error) => too_large.push(place),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first
}

/// Returns whether the size of a record is the cause. In a transaction, the client gives the code of the
/// broker only in its text.
fn is_too_large(error: &KrafkaError) -> bool {
    const CODES: [ErrorCode; 2] = [ErrorCode::MessageTooLarge, ErrorCode::RecordListTooLarge];
    match error {
        KrafkaError::Broker { code, .. } => CODES.contains(code),
        KrafkaError::TransactionAbortable { message } => {
            CODES.iter().any(|code| message.ends_with(&format!("failed with {code:?}")))
        }
        _ => false,
    }
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

/// Makes our error of an error of the client.
pub(crate) fn failed(brokers: &str, error: &KrafkaError) -> QueueError {
    let (brokers, reason) = (brokers.to_owned(), error.to_string());
    match error {
        KrafkaError::Fenced { .. } => QueueError::Fenced { brokers },
        KrafkaError::Auth { .. } => QueueError::Denied { brokers, reason },
        KrafkaError::UnknownTopic { topic } => QueueError::UnknownTopic { brokers, topic: topic.clone() },
        KrafkaError::Broker { code, .. } => match code {
            ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => QueueError::Fenced { brokers },
            ErrorCode::TopicAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::GroupAuthorizationFailed
            | ErrorCode::SaslAuthenticationFailed => QueueError::Denied { brokers, reason },
            ErrorCode::TransactionAbortable | ErrorCode::InvalidTxnState => {
                QueueError::Aborted { brokers, reason }
            }
            code if needs_operator(*code) => QueueError::Refused { brokers, reason },
            // A broker that starts gives many codes. A code that passes with time must not stop a sink.
            _ => QueueError::Away { brokers, reason },
        },
        KrafkaError::TransactionAbortable { .. } | KrafkaError::OutOfOrderSequence { .. } => {
            QueueError::Aborted { brokers, reason }
        }
        KrafkaError::Config { .. } | KrafkaError::Serialization { .. } => {
            QueueError::Refused { brokers, reason }
        }
        _ => QueueError::Away { brokers, reason },
    }
}

/// Returns whether another try gets the same code until an operator acts.
fn needs_operator(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidTopic
            | ErrorCode::InvalidConfig
            | ErrorCode::InvalidPartitions
            | ErrorCode::InvalidRequest
            | ErrorCode::InvalidTransactionTimeout
            | ErrorCode::PolicyViolation
            | ErrorCode::UnsupportedVersion
    )
}

fn compression(compression: Compression) -> krafka::Compression {
    match compression {
        Compression::None => krafka::Compression::None,
        Compression::Gzip => krafka::Compression::Gzip,
        Compression::Snappy => krafka::Compression::Snappy,
        Compression::Lz4 => krafka::Compression::Lz4,
    }
}

/// Returns the security of a connection. `None`: neither TLS nor credentials.
fn security(security: &Security) -> Option<krafka::auth::AuthConfig> {
    use krafka::auth::AuthConfig;
    let with_sasl = security.sasl.as_ref().map(|sasl| match sasl {
        Sasl::Plain { user, password } => AuthConfig::sasl_plain(user, password),
        Sasl::ScramSha256 { user, password } => AuthConfig::sasl_scram_sha256(user, password),
        Sasl::ScramSha512 { user, password } => AuthConfig::sasl_scram_sha512(user, password),
        Sasl::OauthBearer { token_file } => {
            let file = token_file.clone();
            AuthConfig::sasl_oauthbearer_provider(move || std::future::ready(read_token(&file)))
        }
    });
    match (with_sasl, security.tls.as_ref().map(tls)) {
        (Some(sasl), Some(tls)) => Some(sasl.with_tls(tls)),
        (Some(sasl), None) => Some(sasl),
        (None, Some(tls)) => Some(AuthConfig::ssl(tls)),
        (None, None) => None,
    }
}

/// Reads a bearer token. The file is small and local, so the read does not hold up the runtime.
fn read_token(file: &Path) -> Result<OAuthBearerToken, KrafkaError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        KrafkaError::auth(format!("file {} of the token cannot be read: {error}", file.display()))
    })?;
    Ok(OAuthBearerToken::new(text.trim()))
}

fn tls(tls: &Tls) -> krafka::auth::TlsConfig {
    let config = krafka::auth::TlsConfig::new();
    let config = match &tls.ca {
        Some(ca) => config.with_ca_cert(ca.to_string_lossy()),
        None => config.with_native_roots(),
    };
    match &tls.identity {
        Some((certificate, key)) => {
            config.with_client_cert(certificate.to_string_lossy(), key.to_string_lossy())
        }
        None => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stops_a_sink_only_if_an_operator_has_to_act() {
        let check = |code, expected: &str| {
            let error = KrafkaError::broker(code, "text");
            let found = format!("{:?}", failed("b:1", &error));
            assert!(found.starts_with(expected), "{code:?}: {found}");
        };
        check(ErrorCode::InvalidReplicationFactor, "Away");
        check(ErrorCode::UnknownServerError, "Away");
        check(ErrorCode::NotCoordinator, "Away");
        check(ErrorCode::PolicyViolation, "Refused");
        check(ErrorCode::InvalidTransactionTimeout, "Refused");
        check(ErrorCode::ProducerFenced, "Fenced");
        check(ErrorCode::TransactionalIdAuthorizationFailed, "Denied");
        check(ErrorCode::InvalidTxnState, "Aborted");
    }
}
