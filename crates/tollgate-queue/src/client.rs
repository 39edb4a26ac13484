//! The clients of Kafka that the program was built with.

use crate::contract::{Producer, Reader, Topics};
use crate::error::QueueError;
use crate::options::{BrokerOptions, Guarantee};

/// A client of Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// krafka, in Rust.
    #[cfg(feature = "krafka")]
    Krafka,
    /// librdkafka, in C. It has only the producer.
    #[cfg(feature = "rdkafka")]
    Rdkafka,
}

impl Client {
    /// Returns the client that sinks use. `None`: the program was built without one.
    pub const fn of_sinks() -> Option<Self> {
        #[cfg(feature = "krafka")]
        return Some(Self::Krafka);
        #[cfg(not(feature = "krafka"))]
        None
    }

    /// Opens a producer. With transactions, this fences the older producers of the id, and waits until their
    /// open transaction is committed or aborted.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    #[cfg_attr(not(any(feature = "krafka", feature = "rdkafka")), expect(unused_variables))]
    pub fn open(
        self,
        options: &BrokerOptions,
        guarantee: &Guarantee,
    ) -> Result<Box<dyn Producer>, QueueError> {
        match self {
            #[cfg(feature = "krafka")]
            Self::Krafka => Ok(Box::new(crate::krafka_client::KrafkaProducer::open(options, guarantee)?)),
            #[cfg(feature = "rdkafka")]
            Self::Rdkafka => Ok(Box::new(crate::rdkafka_client::RdkafkaProducer::open(options, guarantee)?)),
        }
    }

    /// Connects to a cluster. `None`: the client has only a producer.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    #[cfg_attr(not(feature = "krafka"), expect(unused_variables))]
    pub fn topics(self, options: &BrokerOptions) -> Result<Option<Box<dyn Topics>>, QueueError> {
        match self {
            #[cfg(feature = "krafka")]
            Self::Krafka => Ok(Some(Box::new(crate::krafka_topics::KrafkaTopics::open(options)?))),
            #[cfg(feature = "rdkafka")]
            Self::Rdkafka => Ok(None),
        }
    }

    /// Connects a reader. `None`: the client has only a producer.
    ///
    /// # Errors
    /// The broker does not answer, or refuses the user.
    #[cfg_attr(not(feature = "krafka"), expect(unused_variables))]
    pub fn reader(self, options: &BrokerOptions) -> Result<Option<Box<dyn Reader>>, QueueError> {
        match self {
            #[cfg(feature = "krafka")]
            Self::Krafka => Ok(Some(Box::new(crate::krafka_reader::KrafkaReader::open(options)?))),
            #[cfg(feature = "rdkafka")]
            Self::Rdkafka => Ok(None),
        }
    }

    /// Returns the name of the client.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "krafka")]
            Self::Krafka => "krafka",
            #[cfg(feature = "rdkafka")]
            Self::Rdkafka => "rdkafka",
        }
    }
}
