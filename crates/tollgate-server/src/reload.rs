//! Replaces the configuration of running workers in two steps. In the first step each worker builds the new
//! service, keeps the old one, and reports the result. If all workers succeed, they swap the services in the
//! second step. If one worker fails, all workers drop the new service.
//!
//! A worker swaps between two polls of its tasks, so no request sees a mixture. A worker serves requests
//! while it builds, because other tasks run after each route.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::app::Sources;
use crate::error::StartError;
use crate::service::{Building, Plan, Service};
use crate::worker::Worker;

/// Maximum time for the workers to build, and maximum time to swap.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of loads if a script changes during a load, so that workers read different texts.
const LOADS_MAX: u32 = 5;
/// Pause before the second load. Each further pause is twice as long.
const LOAD_PAUSE: Duration = Duration::from_millis(100);

/// A configuration that a worker is asked to build.
pub(crate) struct Offer {
    plan: Arc<Plan>,
    /// Channel for the sources that the worker loaded, or the error.
    built: SyncSender<Result<Sources, StartError>>,
    /// Channel for the order to swap. If the sender is dropped, the worker keeps its configuration.
    swap: oneshot::Receiver<SyncSender<()>>,
}

/// A configuration that all workers have built. If this value is dropped, the workers keep their old
/// configuration.
#[must_use]
pub(crate) struct Built {
    /// The sources that the workers loaded.
    pub(crate) sources: Sources,
    swaps: Vec<oneshot::Sender<SyncSender<()>>>,
}

impl Built {
    /// Offers a configuration to workers, and waits until each has built it. If a script changed and the
    /// workers loaded different texts, the offer is repeated, up to [`LOADS_MAX`] offers in all.
    ///
    /// # Errors
    /// The first error of a worker. `Changed` if the workers loaded different texts each time. `Unanswered`
    /// if a worker is draining or exceeds the timeout.
    pub(crate) fn by(workers: &[mpsc::Sender<Offer>], plan: &Arc<Plan>) -> Result<Self, StartError> {
        match Self::by_one_load(workers, plan) {
            Err(StartError::Changed) => Self::again(workers, plan),
            built => built,
        }
    }

    /// Works like [`by`](Self::by), after a first load in which the workers read different texts.
    ///
    /// # Errors
    /// The same errors as [`by`](Self::by).
    pub(crate) fn again(workers: &[mpsc::Sender<Offer>], plan: &Arc<Plan>) -> Result<Self, StartError> {
        for load in 2..=LOADS_MAX {
            let pause = LOAD_PAUSE * 2_u32.pow(load - 2);
            tracing::warn!(
                load,
                loads_max = LOADS_MAX,
                pause_ms = pause.as_millis() as u64,
                "a script changed while the workers loaded it: the workers load it again"
            );
            thread::sleep(pause);
            match Self::by_one_load(workers, plan) {
                Err(StartError::Changed) => {}
                built => return built,
            }
        }
        Err(StartError::Changed)
    }

    fn by_one_load(workers: &[mpsc::Sender<Offer>], plan: &Arc<Plan>) -> Result<Self, StartError> {
        let (built, answers) = sync_channel(workers.len());
        let mut swaps = Vec::new();
        for worker in workers {
            let (swap, receiver) = oneshot::channel();
            let offer = Offer { plan: plan.clone(), built: built.clone(), swap: receiver };
            worker.try_send(offer).map_err(|_| StartError::Unanswered)?;
            swaps.push(swap);
        }
        drop(built);
        let sources = answers_of(workers.len(), &answers)?.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { sources: same_sources(sources)?, swaps })
    }

    /// Orders all workers to swap, and returns when all have swapped.
    ///
    /// # Errors
    /// `Unanswered` if a worker did not confirm in time. That worker swaps later.
    pub(crate) fn commit(self) -> Result<(), StartError> {
        let (swapped, answers) = sync_channel(self.swaps.len());
        let count = self.swaps.len();
        for swap in self.swaps {
            // A failure to send is ignored, because a worker that has ended serves no old configuration.
            let _ = swap.send(swapped.clone());
        }
        drop(swapped);
        answers_of(count, &answers).map(drop)
    }
}

/// Returns the sources that all workers loaded.
///
/// # Errors
/// `Changed` if the workers did not load the same texts.
pub(crate) fn same_sources(mut sources: Vec<Sources>) -> Result<Sources, StartError> {
    if sources.windows(2).any(|two| two[0] != two[1]) {
        return Err(StartError::Changed);
    }
    Ok(sources.pop().unwrap_or_default())
}

fn answers_of<T>(count: usize, answers: &Receiver<T>) -> Result<Vec<T>, StartError> {
    let end = Instant::now() + TIMEOUT;
    let answer = |_| answers.recv_timeout(end.saturating_duration_since(Instant::now()));
    (0..count).map(answer).collect::<Result<_, _>>().map_err(|_| StartError::Unanswered)
}

/// Handles offers as long as the worker runs.
pub(crate) async fn follow(worker: Rc<Worker>, mut offers: mpsc::Receiver<Offer>) {
    while let Some(Offer { plan, built, swap }) = offers.recv().await {
        let (result, service) = match build(&worker, &plan).await {
            Ok(service) => (Ok(service.sources.clone()), Some(service)),
            Err(error) => (Err(error), None),
        };
        // The thread that sent the offer may have stopped waiting.
        let _ = built.send(result);
        if let (Ok(swapped), Some(service)) = (swap.await, service) {
            worker.adopt(service, plan.options.capacity.queue_age_max);
            let _ = swapped.send(());
        }
    }
}

async fn build(worker: &Worker, plan: &Plan) -> Result<Service, StartError> {
    let mut building = Building::new(plan, &worker.client(), &worker.script_queue, &worker.cells)?;
    for route in &plan.options.routes {
        building.add(route)?;
        tokio::task::yield_now().await;
    }
    Ok(building.finish())
}

#[cfg(test)]
mod tests {
    use std::thread::JoinHandle;

    use tollgate_log::{DiskStorage, Log, LogOptions};
    use tollgate_script::SourceFile;

    use super::*;
    use crate::options::tests::options;

    /// The results that a worker reports, one for each load.
    type Answers = Vec<Result<Sources, StartError>>;

    /// Starts threads that answer offers like workers, with these results. Each thread returns whether it
    /// confirmed a swap.
    fn workers(answers: Vec<Answers>) -> (Vec<mpsc::Sender<Offer>>, Vec<JoinHandle<bool>>) {
        let worker = |answers: Answers| {
            let (offer, mut offers) = mpsc::channel::<Offer>(1);
            let work = move || {
                answers.into_iter().any(|answer| {
                    let Some(Offer { built, swap, .. }) = offers.blocking_recv() else { return false };
                    built.send(answer).unwrap();
                    swap.blocking_recv().is_ok_and(|swapped| swapped.send(()).is_ok())
                })
            };
            (offer, thread::spawn(work))
        };
        answers.into_iter().map(worker).unzip()
    }

    fn offered(answers: Vec<Answers>) -> (Result<(), String>, Vec<bool>) {
        let folder = tempfile::tempdir().unwrap();
        let log = LogOptions::new(folder.path());
        let (log, _) = Log::open(Arc::new(DiskStorage), log, Vec::new(), |_| {}).unwrap();
        let plan = Arc::new(Plan::new(options(), &log, None).unwrap());
        let (offers, workers) = workers(answers);
        let result = Built::by(&offers, &plan).and_then(Built::commit).map_err(|error| error.to_string());
        drop(offers);
        (result, workers.into_iter().map(|worker| worker.join().unwrap()).collect())
    }

    fn read(digest: u8) -> Result<Sources, StartError> {
        let file = SourceFile { file: "a.luau".into(), sha256: [digest; 32] };
        Ok(Sources { own: vec![file], apps: Vec::new() })
    }

    #[test]
    fn workers_swap_when_all_have_built_the_same_and_else_none_does() {
        let once = |answers: [Result<Sources, StartError>; 3]| answers.map(|answer| vec![answer]).into();
        assert_eq!(offered(once([read(1), read(1), read(1)])), (Ok(()), vec![true; 3]));
        let failed = Err(StartError::Script("broken".to_owned()));
        assert_eq!(offered(once([read(1), failed, read(1)])), (Err("broken".to_owned()), vec![false; 3]));
    }

    #[test]
    fn workers_that_loaded_different_texts_load_again_a_few_times() {
        let twice = |first, second| vec![read(first), read(second)];
        assert_eq!(offered(vec![twice(1, 2), twice(2, 2), twice(1, 2)]), (Ok(()), vec![true; 3]));
        let loads = |digests: [u8; LOADS_MAX as usize]| digests.map(read).into();
        let changed = StartError::Changed.to_string();
        assert_eq!(offered(vec![loads([1; 5]), loads([2; 5])]), (Err(changed), vec![false; 2]));
        let broken = vec![read(2), Err(StartError::Script("broken".to_owned()))];
        assert_eq!(offered(vec![twice(1, 2), broken]), (Err("broken".to_owned()), vec![false; 2]));
    }

    #[test]
    fn a_worker_that_is_gone_stops_a_reload() {
        let folder = tempfile::tempdir().unwrap();
        let log = LogOptions::new(folder.path());
        let (log, _) = Log::open(Arc::new(DiskStorage), log, Vec::new(), |_| {}).unwrap();
        let plan = Arc::new(Plan::new(options(), &log, None).unwrap());
        let (gone, _) = mpsc::channel(1);
        assert!(matches!(Built::by(&[gone], &plan), Err(StartError::Unanswered)));
    }
}
