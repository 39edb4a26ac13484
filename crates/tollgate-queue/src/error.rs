//! Errors of a broker or of its client.

/// Error of a broker or of its client.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// No broker answers. Nothing is committed.
    #[error("broker {brokers} does not answer: {reason}")]
    Away {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// A broker did not confirm records in time. No transaction is committed, but a producer without
    /// transactions may have written the records.
    #[error(
        "broker {brokers} did not confirm records within delivery_timeout: {reason}: if smaller loads fail \
         too, look for a quota of the broker, or raise delivery_timeout"
    )]
    Slow {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// A broker answered with an error that may pass with time. Nothing is committed.
    #[error("broker {brokers} answered with an error: {reason}")]
    NotNow {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// The transaction may be committed. Only the records in the topics show it.
    #[error("outcome of a transaction at broker {brokers} is unknown: {reason}")]
    Unknown {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// The transaction must be repeated with a new producer. Nothing is committed.
    #[error("broker {brokers} aborted a transaction: {reason}")]
    Aborted {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// Another producer has the transactional id. Nothing is committed.
    #[error("another producer took over the transactional id at broker {brokers}")]
    Fenced {
        /// Addresses of the brokers.
        brokers: String,
    },
    /// The broker refuses records because of their size. Nothing is committed.
    #[error("broker refuses {} records because of their size", places.len())]
    TooLarge {
        /// Places of the refused records in the list that was sent.
        places: Vec<usize>,
    },
    /// The broker refuses the user or an operation.
    #[error("broker {brokers} denies access: {reason}")]
    Denied {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// A topic does not exist.
    #[error("topic {topic:?} does not exist at broker {brokers}")]
    UnknownTopic {
        /// Addresses of the brokers.
        brokers: String,
        /// Name of the topic.
        topic: String,
    },
    /// The client cannot use its options or files, or has a fault. An operator has to act.
    #[error("client of broker {brokers} failed: {reason}")]
    Client {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
    /// The broker refuses a call until an operator acts.
    #[error("broker {brokers} refuses a call: {reason}")]
    Refused {
        /// Addresses of the brokers.
        brokers: String,
        /// Text of the client.
        reason: String,
    },
}

impl QueueError {
    /// Moves the places of refused records, for records that were sent after `count` others.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        if let Self::TooLarge { places } = &mut self {
            places.iter_mut().for_each(|place| *place += count);
        }
        self
    }

    /// Adds the topic or the id that the call is about.
    #[cfg_attr(not(feature = "krafka"), expect(dead_code))]
    pub(crate) fn about(mut self, what: &str) -> Self {
        match &mut self {
            Self::Away { reason, .. }
            | Self::Slow { reason, .. }
            | Self::NotNow { reason, .. }
            | Self::Unknown { reason, .. }
            | Self::Aborted { reason, .. }
            | Self::Denied { reason, .. }
            | Self::Client { reason, .. }
            | Self::Refused { reason, .. } => *reason = format!("{what}: {reason}"),
            Self::Fenced { .. } | Self::TooLarge { .. } | Self::UnknownTopic { .. } => {}
        }
        self
    }
}
