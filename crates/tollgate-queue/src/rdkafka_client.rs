//! A producer by librdkafka, for the comparison of clients.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};

use crate::contract::Producer;
use crate::error::QueueError;
use crate::options::{BrokerOptions, Guarantee, Sasl};
use crate::record::QueueRecord;

type Outcomes = Arc<Mutex<Vec<(usize, KafkaError)>>>;

/// Collects the failures of deliveries.
struct Deliveries(Outcomes);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<usize>) {
        if let Err((error, message)) = result {
            let _ = message.topic();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push((*place, error.clone()));
        }
    }
}

/// A producer by librdkafka.
pub(crate) struct RdkafkaProducer {
    producer: ThreadedProducer<Deliveries>,
    outcomes: Outcomes,
    brokers: String,
    timeout: Duration,
    is_transactional: bool,
}

impl RdkafkaProducer {
    pub(crate) fn open(options: &BrokerOptions, guarantee: &Guarantee) -> Result<Self, QueueError> {
        let (brokers, outcomes) = (options.brokers.clone(), Outcomes::default());
        let config = config(options, guarantee);
        let producer = config
            .create_with_context(Deliveries(outcomes.clone()))
            .map_err(|error| failed(&brokers, &error))?;
        let is_transactional = matches!(guarantee, Guarantee::Transactions { .. });
        let timeout = options.delivery_timeout;
        let opened = Self { producer, outcomes, brokers, timeout, is_transactional };
        if is_transactional {
            let begun = opened.producer.init_transactions(timeout);
            begun.map_err(|error| failed(&opened.brokers, &error))?;
        }
        Ok(opened)
    }

    fn failed(&self, error: &KafkaError) -> QueueError {
        failed(&self.brokers, error)
    }
}

impl Producer for RdkafkaProducer {
    fn has_lost_connection(&mut self) -> bool {
        // The comparison opens a producer again after each failure.
        false
    }

    fn begin(&mut self) -> Result<(), QueueError> {
        if !self.is_transactional {
            return Ok(());
        }
        self.producer.begin_transaction().map_err(|error| self.failed(&error))
    }

    fn send(&mut self, records: &[&QueueRecord]) -> Result<(), QueueError> {
        for (place, record) in records.iter().enumerate() {
            let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(&value[..]) })
            });
            let mut wire: BaseRecord<'_, [u8], [u8], Box<usize>> =
                BaseRecord::with_opaque_to(&record.topic, Box::new(place)).headers(headers);
            (wire.key, wire.payload, wire.partition) =
                (record.key.as_deref(), record.value.as_deref(), record.partition);
            self.producer.send(wire).map_err(|(error, _)| self.failed(&error))?;
        }
        let flushed = self.producer.flush(self.timeout);
        let outcomes = std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        let is_size =
            |error: &KafkaError| error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge);
        let places: Vec<_> =
            outcomes.iter().filter(|(_, error)| is_size(error)).map(|(place, _)| *place).collect();
        let other = outcomes.iter().find(|(_, error)| !is_size(error));
        // Without a transaction, `TooLarge` says that the other records are visible.
        if !places.is_empty() && (self.is_transactional || (other.is_none() && flushed.is_ok())) {
            return Err(QueueError::TooLarge { places });
        }
        match other {
            Some((_, error)) => Err(self.failed(error)),
            None => flushed.map_err(|error| self.failed(&error)),
        }
    }

    fn commit(&mut self) -> Result<(), QueueError> {
        if !self.is_transactional {
            return Ok(());
        }
        self.producer.commit_transaction(self.timeout).map_err(|error| match self.failed(&error) {
            QueueError::Away { brokers, reason } => QueueError::Unknown { brokers, reason },
            error => error,
        })
    }

    fn abort(&mut self) -> Result<(), QueueError> {
        if !self.is_transactional {
            return Ok(());
        }
        self.producer.abort_transaction(self.timeout).map_err(|error| self.failed(&error))
    }
}

fn config(options: &BrokerOptions, guarantee: &Guarantee) -> ClientConfig {
    let millis = |time: Duration| time.as_millis().to_string();
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &options.brokers)
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("linger.ms", "1")
        .set("socket.timeout.ms", millis(options.request_timeout))
        .set("socket.connection.setup.timeout.ms", millis(options.connect_timeout))
        .set("message.timeout.ms", millis(options.delivery_timeout))
        .set("compression.type", options.compression.name());
    if let Guarantee::Transactions { id } = guarantee {
        config.set("transactional.id", id);
        config.set("transaction.timeout.ms", millis(options.transaction_timeout));
    }
    match (&options.security.tls, &options.security.sasl) {
        (None, None) => {}
        (Some(_), None) => drop(config.set("security.protocol", "ssl")),
        (None, Some(_)) => drop(config.set("security.protocol", "sasl_plaintext")),
        (Some(_), Some(_)) => drop(config.set("security.protocol", "sasl_ssl")),
    }
    if let Some(sasl) = &options.security.sasl {
        set_sasl(&mut config, sasl);
    }
    config
}

fn set_sasl(config: &mut ClientConfig, sasl: &Sasl) {
    let (mechanism, user, password) = match sasl {
        Sasl::Plain { user, password } => ("PLAIN", user, password),
        Sasl::ScramSha256 { user, password } => ("SCRAM-SHA-256", user, password),
        Sasl::ScramSha512 { user, password } => ("SCRAM-SHA-512", user, password),
        // The comparison of clients has no broker with tokens.
        Sasl::OauthBearer { .. } => return,
    };
    config.set("sasl.mechanism", mechanism).set("sasl.username", user).set("sasl.password", password);
}

/// Makes our error of an error of the client.
fn failed(brokers: &str, error: &KafkaError) -> QueueError {
    let (brokers, reason) = (brokers.to_owned(), error.to_string());
    let code = error.rdkafka_error_code();
    match code {
        Some(
            RDKafkaErrorCode::Fenced
            | RDKafkaErrorCode::ProducerFenced
            | RDKafkaErrorCode::InvalidProducerEpoch,
        ) => QueueError::Fenced { brokers },
        Some(
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::SaslAuthenticationFailed,
        ) => QueueError::Denied { brokers, reason },
        _ => match error {
            KafkaError::Transaction(error) if error.txn_requires_abort() => {
                QueueError::Aborted { brokers, reason }
            }
            _ => QueueError::Away { brokers, reason },
        },
    }
}
