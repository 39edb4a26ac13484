//! The event loop of the calls of one client. The thread of one call drives the connections of all calls.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// An event loop that runs only during calls.
pub(super) struct CallRuntime(Option<Runtime>);

impl CallRuntime {
    pub(super) fn new() -> io::Result<Self> {
        // The one blocking call is the resolution of names.
        Ok(Self(Some(Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?)))
    }

    /// Runs a call. `None`: it did not end in time.
    pub(super) fn run<T>(&self, time: Duration, call: impl Future<Output = T>) -> Option<T> {
        self.0.as_ref()?.block_on(async { tokio::time::timeout(time, call).await }).ok()
    }
}

impl Drop for CallRuntime {
    fn drop(&mut self) {
        // The drop of a runtime on a thread of another event loop would panic.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
