//! Errors of krafka as errors of the queue.

use krafka::Kafka;
use krafka::admin::{ConfigResource, DescribeConfigsOptions};
use krafka::error::{ErrorCode, KrafkaError};

use crate::address::{AddressError, BrokerAddress, without_user};
use crate::error::QueueError;
use crate::krafka_wait::Waiter;
use crate::options::BrokerOptions;

/// The setting of a broker that limits `transaction_timeout`.
const TIMEOUT_MAX: &str = "transaction.max.timeout.ms";

/// The call that only clients of older transactions send. The client sends it in a version of brokers.
const ADD_PARTITIONS: &str = "AddPartitionsToTxn";
/// The reason if a cluster has not raised its feature `transaction.version`. A cluster that is upgraded
/// raises it at last.
const OLD_TRANSACTIONS: &str = "the cluster lacks the level 2 of `transaction.version`, which exactly_once \
                                needs: run `kafka-features.sh upgrade --feature transaction.version=2` \
                                (Kafka 4.0 or later), or set exactly_once = false";

/// Makes our error of an error of the client.
pub(crate) fn failed(brokers: &str, error: &KrafkaError) -> QueueError {
    let (brokers, reason) = (brokers.to_owned(), reason_of(error));
    if let Some(code) = code_of(error) {
        return answered(brokers, code, reason);
    }
    match error {
        KrafkaError::Fenced { .. } => QueueError::Fenced { brokers },
        KrafkaError::Auth { .. } => QueueError::Denied { brokers, reason },
        KrafkaError::DeliveryTimeout { message, .. } => QueueError::Slow { brokers, reason: message.clone() },
        KrafkaError::UnknownTopic { topic } => QueueError::UnknownTopic { brokers, topic: topic.clone() },
        KrafkaError::NoOffset { .. } | KrafkaError::Protocol { .. } => QueueError::NotNow { brokers, reason },
        KrafkaError::OutOfOrderSequence { .. } => QueueError::Aborted { brokers, reason },
        KrafkaError::Config { .. } | KrafkaError::Serialization { .. } => {
            QueueError::Client { brokers, reason }
        }
        _ => QueueError::Away { brokers, reason },
    }
}

/// Makes our error of a code of a broker.
fn answered(brokers: String, code: ErrorCode, reason: String) -> QueueError {
    match code {
        ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => QueueError::Fenced { brokers },
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TransactionalIdAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::SaslAuthenticationFailed => QueueError::Denied { brokers, reason },
        ErrorCode::TransactionAbortable | ErrorCode::InvalidTxnState => {
            QueueError::Aborted { brokers, reason }
        }
        ErrorCode::UnsupportedVersion if reason.contains(ADD_PARTITIONS) => {
            QueueError::NotNow { brokers, reason: OLD_TRANSACTIONS.to_owned() }
        }
        code if needs_operator(code) => QueueError::Refused { brokers, reason },
        // A broker that starts gives many codes. A code that passes with time must not stop a sink.
        _ => QueueError::NotNow { brokers, reason },
    }
}

/// Returns the code of the broker, if the error has one. In a transaction, the client gives the code of a
/// refused batch only in its text.
pub(crate) fn code_of(error: &KrafkaError) -> Option<ErrorCode> {
    /// The codes that are more than a reason to repeat the transaction.
    const NAMED: [ErrorCode; 7] = [
        ErrorCode::ProducerFenced,
        ErrorCode::InvalidProducerEpoch,
        ErrorCode::TopicAuthorizationFailed,
        ErrorCode::InvalidRecord,
        ErrorCode::PolicyViolation,
        ErrorCode::MessageTooLarge,
        ErrorCode::RecordListTooLarge,
    ];
    match error {
        KrafkaError::Broker { code, .. } => Some(*code),
        KrafkaError::TransactionAbortable { message } => {
            let named = NAMED.into_iter().find(|code| message.ends_with(&format!("failed with {code:?}")));
            Some(named.unwrap_or(ErrorCode::TransactionAbortable))
        }
        _ => None,
    }
}

/// Returns whether another try gets the same code until an operator acts.
fn needs_operator(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidTopic
            | ErrorCode::InvalidConfig
            | ErrorCode::InvalidPartitions
            | ErrorCode::InvalidRecord
            | ErrorCode::InvalidRequest
            | ErrorCode::InvalidTransactionTimeout
            | ErrorCode::PolicyViolation
            | ErrorCode::UnsupportedVersion
    )
}

/// Checks the addresses of the brokers. The client would look up a faulty one again and again.
///
/// # Errors
/// `Client` names the address.
pub(crate) fn check_address(options: &BrokerOptions) -> Result<(), QueueError> {
    let faulty = |error: AddressError| QueueError::Client {
        brokers: without_user(&options.brokers),
        reason: error.to_string(),
    };
    BrokerAddress::list(&options.brokers).map(drop).map_err(faulty)
}

/// Returns the text of an error. A broker often gives no more than its code.
fn reason_of(error: &KrafkaError) -> String {
    match error {
        KrafkaError::Broker { code, message } => match format!("{code:?}") {
            name if name == *message || message.is_empty() => name,
            name => format!("{name}: {message}"),
        },
        error => error.to_string(),
    }
}

/// Returns the error of a `transaction_timeout` that the broker refuses, with the limit of the broker.
pub(crate) fn timeout_refused(waiter: &Waiter, kafka: &Kafka, options: &BrokerOptions) -> QueueError {
    let limit = waiter.wait(timeout_limit(kafka)).ok().flatten();
    let limit = limit.map(|limit| format!(" = {limit}")).unwrap_or_default();
    QueueError::Refused {
        brokers: options.brokers.clone(),
        reason: format!(
            "transaction_timeout is {} ms, above the limit {TIMEOUT_MAX}{limit} of the broker: lower the key \
             or raise the limit",
            options.transaction_timeout.as_millis()
        ),
    }
}

/// Reads the limit of a broker. `None`: the user may not read it.
async fn timeout_limit(kafka: &Kafka) -> Result<Option<String>, KrafkaError> {
    let admin = kafka.admin();
    let cluster = admin.describe_cluster(Default::default()).await?;
    let Some(broker) = cluster.brokers.first() else { return Ok(None) };
    let resource = ConfigResource::broker(broker.id);
    let names = DescribeConfigsOptions::default().config_names(vec![TIMEOUT_MAX.to_owned()]);
    let mut found = admin.describe_configs([resource.clone()], names).await?;
    let entries = found.remove(&resource).transpose()?.unwrap_or_default();
    Ok(entries.into_iter().find(|entry| entry.name == TIMEOUT_MAX).and_then(|entry| entry.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krafka_client::Connection;

    #[test]
    fn an_error_stops_a_sink_only_if_an_operator_has_to_act() {
        let check = |code, expected: &str| {
            let error = KrafkaError::broker(code, "text");
            let found = format!("{:?}", failed("b:1", &error));
            assert!(found.starts_with(expected), "{code:?}: {found}");
        };
        check(ErrorCode::InvalidReplicationFactor, "NotNow");
        check(ErrorCode::UnknownTopicId, "NotNow");
        check(ErrorCode::UnknownServerError, "NotNow");
        check(ErrorCode::NotCoordinator, "NotNow");
        check(ErrorCode::PolicyViolation, "Refused");
        check(ErrorCode::InvalidRecord, "Refused");
        check(ErrorCode::InvalidTransactionTimeout, "Refused");
        check(ErrorCode::ProducerFenced, "Fenced");
        check(ErrorCode::TransactionalIdAuthorizationFailed, "Denied");
        check(ErrorCode::InvalidTxnState, "Aborted");
    }

    #[test]
    fn the_code_in_the_text_of_an_aborted_transaction_counts() {
        let check = |text: &str, expected: &str| {
            let found = format!("{:?}", failed("b:1", &KrafkaError::transaction_abortable(text)));
            assert!(found.starts_with(expected), "{text}: {found}");
        };
        check("produce to t-0 failed with InvalidProducerEpoch", "Fenced");
        check("produce to t-0 failed with ProducerFenced", "Fenced");
        check("produce to t-0 failed with TopicAuthorizationFailed", "Denied");
        check("produce to t-0 failed with InvalidRecord", "Refused");
        check("produce to t-0 failed with UnknownServerError", "Aborted");
        check("a record of the transaction failed", "Aborted");
    }

    #[test]
    fn only_a_broker_that_gave_no_answer_does_not_answer() {
        let check = |error: KrafkaError, expected: &str| {
            let found = failed("b:1", &error).about("topic \"t\"").to_string();
            assert_eq!(found, expected);
        };
        check(
            KrafkaError::timeout("call"),
            "broker b:1 does not answer: topic \"t\": operation timed out: call",
        );
        check(
            KrafkaError::broker(ErrorCode::InvalidReplicationFactor, "2 brokers are needed"),
            "broker b:1 answered with an error: topic \"t\": InvalidReplicationFactor: 2 brokers are needed",
        );
        let denied = ErrorCode::TopicAuthorizationFailed;
        check(
            KrafkaError::broker(denied, "TopicAuthorizationFailed"),
            "broker b:1 denies access: topic \"t\": TopicAuthorizationFailed",
        );
        check(
            KrafkaError::NoOffset { partitions: vec![("t".to_owned(), 0)] },
            "broker b:1 answered with an error: topic \"t\": no offset and no reset policy for t-0",
        );
        check(
            KrafkaError::config("no such file"),
            "client of broker b:1 failed: topic \"t\": configuration error: no such file",
        );
    }

    #[test]
    fn an_address_that_is_none_is_a_fault_of_the_client() {
        for address in ["localhost:99999", "localhost", "u:hunter2@localhost:1"] {
            let Err(error) = Connection::open(&BrokerOptions::new(address)) else { panic!("{address}") };
            assert!(matches!(error, QueueError::Client { .. }), "{address}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
