//! Work on files that would block a worker for too long. A few threads of the worker do this work.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent jobs of each kind: opening paths, and all other jobs. Further threads stay
/// free to read files that are sent.
const AT_ONCE_MAX: usize = 2;

/// Permits for the disk work of the routes of a worker.
pub(crate) struct DiskJobs {
    places: Arc<Semaphore>,
    /// Permits for opening paths. These permits are separate so that opening a path does not wait for jobs
    /// that read a whole file.
    places_to_look: Arc<Semaphore>,
}

/// Permit for one job.
pub(crate) struct DiskJobPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl DiskJobs {
    /// Returns a permit if one is free.
    pub(crate) fn place(&self) -> Option<DiskJobPermit> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(DiskJobPermit { _permit: Some(permit) })
    }

    /// Waits for a permit to open files. Waiting requests get permits in order of arrival.
    ///
    /// # Cancel safety
    /// Dropping the future removes it from the queue.
    pub(crate) async fn wait_to_look(&self) -> DiskJobPermit {
        DiskJobPermit { _permit: self.places_to_look.clone().acquire_owned().await.ok() }
    }

    /// Waits for a permit for a job other than opening paths. Waiting requests get permits in order of
    /// arrival.
    ///
    /// # Cancel safety
    /// Dropping the future removes it from the queue.
    pub(crate) async fn wait(&self) -> DiskJobPermit {
        // The semaphore is never closed.
        DiskJobPermit { _permit: self.places.clone().acquire_owned().await.ok() }
    }

    /// Runs a job on a thread. `None` if the worker ends.
    ///
    /// # Cancel safety
    /// After a drop of the future, the job continues and keeps its permit.
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
