//! Limits the concurrent requests of a backend over all workers, and the number of requests that wait for
//! admission.
//!
//! A second limit exists for requests whose content is still arriving. Such requests depend on the pace of
//! their clients, so they never hold more than half of the permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{BackendOptions, FailureKind};

#[derive(Debug)]
pub(crate) struct Limit {
    places: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    concurrency_max: usize,
    queued: AtomicUsize,
    queue_max: usize,
    queue_timeout: Duration,
}

/// Permit for a request whose content is still arriving, until the content has arrived.
#[derive(Debug)]
pub struct UploadPlace {
    _permit: OwnedSemaphorePermit,
}

impl Limit {
    pub(crate) fn new(options: &BackendOptions) -> Self {
        let concurrency_max = options.concurrency_max.min(Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(concurrency_max)),
            uploads: Arc::new(Semaphore::new(concurrency_max / 2)),
            concurrency_max,
            queued: AtomicUsize::new(0),
            queue_max: options.queue_max,
            queue_timeout: options.queue_timeout,
        }
    }

    /// Returns a permit for a request whose content is still arriving, if one is free.
    pub(crate) fn try_upload(&self) -> Option<UploadPlace> {
        let permit = self.uploads.clone().try_acquire_owned().ok()?;
        Some(UploadPlace { _permit: permit })
    }

    /// Returns an admission permit, if one is free.
    pub(crate) fn try_enter(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Waits for an admission permit, in order of arrival.
    ///
    /// # Errors
    /// Too many requests already wait, or no permit was free in time.
    ///
    /// # Cancel safety
    /// Dropping the future removes the request from the queue.
    pub(crate) async fn enter(&self) -> Result<OwnedSemaphorePermit, FailureKind> {
        if let Some(place) = self.try_enter() {
            return Ok(place);
        }
        let _queued = Queued::enter(self)?;
        let place = tokio::time::timeout(self.queue_timeout, self.places.clone().acquire_owned()).await;
        // The semaphore is never closed.
        place.ok().and_then(Result::ok).ok_or(FailureKind::QueueTimeout { limit: self.queue_timeout })
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.concurrency_max - self.places.available_permits()
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

/// A waiting request. Dropping it ends the wait.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn enter(limit: &'a Limit) -> Result<Self, FailureKind> {
        let queued = limit.queued.fetch_add(1, Ordering::Relaxed);
        let place = Self(&limit.queued);
        let limit = limit.queue_max;
        if queued >= limit { Err(FailureKind::QueueFull { queued, limit }) } else { Ok(place) }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(queue_max: usize, queue_timeout: Duration) -> Limit {
        let options = BackendOptions {
            concurrency_max: 1,
            queue_max,
            queue_timeout,
            ..BackendOptions::new("a", Vec::new())
        };
        Limit::new(&options)
    }

    #[tokio::test]
    async fn requests_without_a_place_wait_and_too_many_are_refused() {
        let limit = limit(1, Duration::from_secs(60));
        let place = limit.enter().await.unwrap();
        assert_eq!((limit.in_flight(), limit.queued()), (1, 0));
        let mut waiting = Box::pin(limit.enter());
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending())
        });
        assert!(polled.await && limit.queued() == 1);
        assert!(matches!(limit.enter().await, Err(FailureKind::QueueFull { queued: 1, limit: 1 })));
        drop(place);
        let place = waiting.await.unwrap();
        assert_eq!((limit.in_flight(), limit.queued()), (1, 0));
        drop(place);
        assert_eq!(limit.in_flight(), 0);
    }

    #[tokio::test]
    async fn a_place_that_is_not_free_in_time_is_none() {
        let limit = limit(9, Duration::from_millis(1));
        let _place = limit.enter().await.unwrap();
        assert!(matches!(limit.enter().await, Err(FailureKind::QueueTimeout { .. })));
        assert_eq!(limit.queued(), 0);
    }
}
