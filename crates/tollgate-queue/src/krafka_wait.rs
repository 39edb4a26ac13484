//! Waits for calls of krafka, each for a limited time.
//!
//! The client has timeouts of its own. A call that misses its end, because of a fault of the client, would
//! otherwise stop a sink until the process restarts. After the limit the caller drops the client.

use std::future::Future;
use std::time::Duration;

use krafka::error::KrafkaError;
use tokio::runtime::{Builder, Runtime};

use crate::error::QueueError;
use crate::options::BrokerOptions;

/// The runtime of a client, on the calling thread. The client makes progress only during a wait.
pub(crate) struct Waiter {
    runtime: Runtime,
    limit: Duration,
}

impl Waiter {
    /// Makes a runtime. The limit of a call is longer than the timeouts of the client.
    pub(crate) fn new(options: &BrokerOptions) -> Result<Self, QueueError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
            QueueError::Client { brokers: options.brokers.clone(), reason: format!("no runtime: {error}") }
        })?;
        Ok(Self { runtime, limit: options.delivery_timeout * 2 + options.request_timeout })
    }

    /// Waits for a call.
    ///
    /// # Errors
    /// The call failed, or has not ended at the limit.
    pub(crate) fn wait<T, E: From<KrafkaError>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.wait_at_most(self.limit, call)
    }

    /// Waits for a call with a limit of its own.
    ///
    /// # Errors
    /// The call failed, or has not ended at the limit.
    pub(crate) fn wait_at_most<T, E: From<KrafkaError>>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.runtime.block_on(async {
            let late = |_| Err(E::from(KrafkaError::timeout(format!("call of the client after {limit:?}"))));
            tokio::time::timeout(limit, call).await.unwrap_or_else(late)
        })
    }

    /// Runs a function that makes tasks.
    pub(crate) fn enter<T>(&self, call: impl FnOnce() -> T) -> T {
        let _entered = self.runtime.enter();
        call()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_never_ends_fails_at_the_limit() {
        let mut options = BrokerOptions::new("b:1");
        (options.delivery_timeout, options.request_timeout) = (Duration::ZERO, Duration::from_millis(1));
        let waiter = Waiter::new(&options).unwrap();
        let ended = waiter.wait(std::future::pending::<Result<(), KrafkaError>>());
        assert!(matches!(ended, Err(KrafkaError::Timeout { .. })), "{ended:?}");
        waiter.wait(async { Ok::<_, KrafkaError>(()) }).unwrap();
    }
}
