//! Work on files that takes longer than a worker may: threads of the worker do it, a few pieces at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a worker has done at once of either kind: other threads stay free to read what is sent.
const AT_ONCE_MAX: usize = 2;

/// Where the routes of a worker have work done.
pub(crate) struct DiskJobs {
    places: Arc<Semaphore>,
    /// For who only looks what is at a path: not behind who reads a file to its end.
    places_to_look: Arc<Semaphore>,
}

/// A place among what is done at once.
pub(crate) struct DiskJobPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl DiskJobs {
    /// A place now, if one is free.
    pub(crate) fn place(&self) -> Option<DiskJobPermit> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(DiskJobPermit { _permit: Some(permit) })
    }

    /// The same for opening files.
    ///
    /// # Cancel safety
    /// Whoever gives up leaves the queue.
    pub(crate) async fn wait_to_look(&self) -> DiskJobPermit {
        DiskJobPermit { _permit: self.places_to_look.clone().acquire_owned().await.ok() }
    }

    /// Waits for a place: first come, first served.
    ///
    /// # Cancel safety
    /// Whoever gives up leaves the queue.
    pub(crate) async fn wait(&self) -> DiskJobPermit {
        // The semaphore is never closed.
        DiskJobPermit { _permit: self.places.clone().acquire_owned().await.ok() }
    }

    /// Has a thread do a piece of work. None: the worker ends.
    ///
    /// # Cancel safety
    /// The work goes on, and keeps its place.
    pub(crate) async fn run<T: Send + 'static>(
        place: DiskJobPermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(place);
            result
        });
        done.await.ok()
    }
}

impl Default for DiskJobs {
    fn default() -> Self {
        let places = || Arc::new(Semaphore::new(AT_ONCE_MAX));
        Self { places: places(), places_to_look: places() }
    }
}
