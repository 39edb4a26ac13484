//! The thread of a worker: its start, its ticks and its end.

use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tollgate_script::Host;

use crate::accept::{self, Accepted, Acceptor, Inboxes};
use crate::app::Sources;
use crate::auth::RemoteKeys;
use crate::clock::TICK;
use crate::error::StartError;
use crate::listen::Listener;
use crate::observe::WorkerCells;
use crate::overload::Capacity;
use crate::recorder::LogEnd;
use crate::reload::{self, Offer};
use crate::service::Plan;
use crate::spool::Spool;
use crate::vm_keeper;
use crate::worker::{Order, Worker};

/// Maximum number of threads of a worker that wait for a disk. These threads read files that are sent, and
/// open, digest or compress files. At most two threads open files at the same time, and at most two compute
/// digests or compress.
const READERS_MAX: usize = 8;

/// Number of ticks between two checks of the idle connections to backends: one second.
const POOLS_SWEPT_TICKS: u32 = 4;

/// Number of ticks between two turns of the cache of open files: five seconds. A file that is not used
/// between two turns is closed.
const DESCRIPTORS_TURNED_TICKS: u32 = 20;

/// The inputs of a worker: connections and configurations.
pub(crate) struct Entrance {
    /// Index of the worker.
    pub(crate) index: usize,
    pub(crate) capacity: Arc<Capacity>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) cells: Arc<WorkerCells>,
    /// Inboxes of other workers, for connections that this worker accepted.
    pub(crate) inboxes: Arc<Inboxes>,
    /// Connections that other workers hand over.
    pub(crate) inbox: mpsc::Receiver<Accepted>,
    /// New configurations.
    pub(crate) offers: mpsc::Receiver<Offer>,
    pub(crate) listeners: Vec<Listener>,
}

/// Runs a worker on the calling thread. After an order to drain, the worker ends when the last connection has
/// ended or the drain timeout has passed.
///
/// The result of the start is sent to `started`.
pub(crate) fn run(
    plan: &Plan,
    entrance: Entrance,
    log: LogEnd,
    orders: watch::Receiver<Order>,
    started: &SyncSender<Result<Sources, StartError>>,
) {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .thread_name("read")
        .max_blocking_threads(READERS_MAX)
        .build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report_start(started, Err(StartError::Worker(error))),
    };
    let worker = runtime.block_on(async {
        match start(plan, entrance, log, &orders) {
            Ok((worker, accepting)) => {
                report_start(started, Ok(worker.sources()));
                drain(&worker, accepting, orders).await;
                Some(worker)
            }
            Err(error) => {
                report_start(started, Err(error));
                None
            }
        }
    });
    // Dropping the runtime cuts the remaining connections. Their cancelled requests are recorded.
    drop(runtime);
    if let Some(worker) = worker {
        worker.recorder.hand_over_last();
        worker.access_lines.hand_over_now();
        worker.cells.end();
    }
}

/// Sends the result of the start. The thread that waits for the result may have stopped waiting.
fn report_start(started: &SyncSender<Result<Sources, StartError>>, result: Result<Sources, StartError>) {
    let _ = started.send(result);
}

fn start(
    plan: &Plan,
    entrance: Entrance,
    log: LogEnd,
    orders: &watch::Receiver<Order>,
) -> Result<(Rc<Worker>, Vec<JoinHandle<()>>), StartError> {
    let worker = Rc::new(Worker::new(
        plan,
        entrance.index,
        &entrance.capacity,
        &entrance.spool,
        &entrance.cells,
        log,
    )?);
    spawn(&worker, |worker| async move { worker.recorder.hand_over(|| worker.deadlines.count()).await });
    spawn(&worker, |worker| async move { worker.recorder.release().await });
    spawn(&worker, |worker| async move { worker.access_lines.hand_over().await });
    spawn(&worker, |worker| async move { worker.admission.watch().await });
    spawn(&worker, |worker| async move { tick(&worker).await });
    spawn(&worker, vm_keeper::keep_vms);
    spawn(&worker, |worker| reload::follow(worker, entrance.offers));
    let inbox = entrance.inbox;
    let mut accepting = vec![spawn(&worker, |worker| accept::take_over(worker, inbox, orders.clone()))];
    for listener in entrance.listeners {
        let acceptor = Acceptor::new(listener, &entrance.inboxes).map_err(StartError::Worker)?;
        accepting.push(spawn(&worker, |worker| acceptor.run(worker, orders.clone())));
    }
    Ok((worker, accepting))
}

fn spawn<F>(worker: &Rc<Worker>, task: impl FnOnce(Rc<Worker>) -> F) -> JoinHandle<()>
where
    F: Future<Output = ()> + 'static,
{
    tokio::task::spawn_local(task(worker.clone()))
}

/// Starts a task for each set of keys that is due and that no other worker fetches.
fn fetch_keys(all: &[Arc<RemoteKeys>], worker: &Rc<Worker>) {
    for fetch in all.iter().filter_map(|keys| keys.begin(worker.clock.coarse())) {
        let client = worker.client();
        tokio::task::spawn_local(async move { fetch.run(&client).await });
    }
}

async fn tick(worker: &Rc<Worker>) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        worker.clock.tick();
        worker.deadlines.sweep(worker.hurry());
        worker.recorder.expire(worker.clock.coarse());
        worker.script_queue.relax(worker.clock.coarse());
        worker.script_queue.log_refusals(worker.clock.coarse(), worker.index);
        worker.admission.log_refusals(worker.clock.coarse(), worker.index);
        worker.unserved.log_news(worker.clock.coarse(), worker.index);
        if worker.clock.ticks().is_multiple_of(POOLS_SWEPT_TICKS) {
            worker.client().sweep(worker.clock.coarse());
        }
        if worker.clock.ticks().is_multiple_of(DESCRIPTORS_TURNED_TICKS) {
            worker.service().descriptors.turn();
        }
        fetch_keys(&worker.service().remote_keys, worker);
        worker.script_hosts().iter().for_each(Host::collect_while_idle);
        worker.publish_state();
        let begun = Instant::now();
        tokio::task::yield_now().await;
        worker.cells.note_turn(begun.elapsed());
    }
}

async fn drain(worker: &Rc<Worker>, accepting: Vec<JoinHandle<()>>, mut orders: watch::Receiver<Order>) {
    // An error means that the sender is gone. In that case the worker drains, too.
    let _ = orders.wait_for(|order| *order == Order::Drain).await;
    let timeout = worker.rules().drain_timeout;
    let emptied = async {
        for accepting in accepting {
            // An error is impossible here: a panic in a task ends the process.
            let _ = accepting.await;
        }
        worker.deadlines.drain();
        worker.deadlines.emptied().await;
        worker.recorder.hand_over_all().await;
    };
    let hurried = async {
        tokio::time::sleep(timeout * 3 / 4).await;
        worker.recorder.give_up();
        pending::<()>().await;
    };
    let emptied = async {
        tokio::select! { () = emptied => {}, () = hurried => {} }
    };
    if tokio::time::timeout(timeout, emptied).await.is_err() {
        tracing::warn!(
            timeout_ms = timeout.as_millis() as u64,
            "the drain deadline passed: the worker closed its last connections"
        );
    }
}
