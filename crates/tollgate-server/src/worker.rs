//! One worker: a thread with its own listeners, script host and end of the log; all it shares is what it was given.

use std::cell::{Cell, Ref, RefCell};
use std::future::{Future, pending};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tollgate_backend::Client;
use tollgate_http::RequestHead;
use tollgate_script::{Body, Context, Host, Keeper, Request, RequestId, TraceRule};

use crate::accept::{self, Accepted, Acceptor, Arrivals};
use crate::admission::Admission;
use crate::app::Sources;
use crate::clock::{Clock, TICK};
use crate::conn::{Arrived, Deadlines, Destination, RequestOrigin, Scratch};
use crate::copies::Copies;
use crate::crowd::Crowd;
use crate::error::StartError;
use crate::handler::{BackendFetcher, Endpoint, Exchange, Visit};
use crate::identity::{self, IdMaker};
use crate::keep;
use crate::lane::Lane;
use crate::listen::Listener;
use crate::observe::{Refusal, WorkerCells};
use crate::recorder::{LogEnd, Recorder};
use crate::reload::{self, Offer};
use crate::reply::Reply;
use crate::rest::Rests;
use crate::server::Order;
use crate::service::{Found, Plan, Rules, Service};
use crate::spool::Spool;
use crate::throttle::Permit;

/// Threads of a worker that wait for a disk: to read files which are sent, to open them, and to digest or compress them, two at
/// once of each of these.
const READERS_MAX: usize = 8;

const FULL: &str = "too much is in flight: nothing was recorded";

/// Connections to backends are looked through each second.
const POOLS_SWEPT_TICKS: u32 = 4;
/// What nobody asked for in the last five seconds is closed after five more.
const SHELF_TURNED_TICKS: u32 = 20;

/// Where connections come to a worker.
pub(crate) struct Entrance {
    /// Its place among the workers.
    pub(crate) index: usize,
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) cells: Arc<WorkerCells>,
    /// Connections that other workers hand over.
    pub(crate) inbox: mpsc::Receiver<Accepted>,
    /// Configurations to serve by.
    pub(crate) offers: mpsc::Receiver<Offer>,
    pub(crate) listeners: Vec<Listener>,
}

/// What of a request is believed about where it comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// Its id.
    pub(crate) id: bool,
    /// Its trace.
    pub(crate) trace: TraceRule,
}

/// What the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) clock: Rc<Clock>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) recorder: Recorder,
    pub(crate) scratch: Scratch,
    pub(crate) copies: Copies,
    pub(crate) index: usize,
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) spool: Arc<Spool>,
    pub(crate) cells: Arc<WorkerCells>,
    /// Connections that are being told that there are too many.
    pub(crate) refusals: Cell<usize>,
    pub(crate) admission: Admission,
    pub(crate) arrivals: Arrivals,
    pub(crate) lane: Rc<Lane>,
    /// Of clients that it refused while others waited.
    pub(crate) rests: Rests,
    /// Looks after the VMs of the scripts.
    pub(crate) keeper: Rc<Keeper>,
    service: RefCell<Service>,
    ids: IdMaker,
}

impl Worker {
    pub(crate) fn new(
        plan: &Plan,
        index: usize,
        crowd: &Arc<Crowd>,
        spool: &Arc<Spool>,
        cells: &Arc<WorkerCells>,
        log: LogEnd,
    ) -> Result<Self, StartError> {
        let clock = Rc::new(Clock::new());
        let queue_age_max = plan.options.crowd.queue_age_max;
        let lane = Rc::new(Lane::new(plan.options.script.slice, queue_age_max));
        let service = Service::new(plan, &lane, cells)?;
        let keeper = Rc::default();
        equip(&service, &keeper, crowd);
        cells.serve(service.route_cells.clone());
        Ok(Self {
            deadlines: Rc::new(Deadlines::new(clock.clone())),
            clock,
            recorder: Recorder::new(log, cells),
            scratch: Scratch::default(),
            copies: Copies::default(),
            index,
            crowd: crowd.clone(),
            spool: spool.clone(),
            cells: cells.clone(),
            refusals: Cell::new(0),
            admission: Admission::new(queue_age_max),
            arrivals: Arrivals::new(),
            lane,
            rests: Rests::default(),
            keeper,
            service: RefCell::new(service),
            ids: IdMaker::new().map_err(StartError::Randomness)?,
        })
    }

    /// Finds the route of a request whose head is complete now, and takes the request on; or the reply, where it does not come
    /// to that.
    #[inline]
    pub(crate) fn receive<'s>(
        &self,
        service: &'s Service,
        head: &RequestHead,
        now: Instant,
        client: impl Fn() -> Option<IpAddr>,
    ) -> Result<(Found<'s>, Option<Permit>), Box<Reply>> {
        let found = service.find(head)?;
        let taken = self.take_on(&found, head, now, client).inspect_err(|_| self.book_rest(now));
        Ok((found, taken?))
    }

    #[inline]
    fn take_on(
        &self,
        found: &Found<'_>,
        head: &RequestHead,
        now: Instant,
        client: impl Fn() -> Option<IpAddr>,
    ) -> Result<Option<Permit>, Box<Reply>> {
        if let Some((refusal, text)) = self.refusal(found.endpoint, head, now) {
            self.cells.count_refusal(refusal);
            found.endpoint.cells.count_refusal(refusal);
            return Err(found.endpoint.unavailable(text, head).into());
        }
        found.endpoint.admit(head, client, now, &self.recorder)
    }

    /// Whoever is refused and comes again at once is left alone for a while, if others wait for the worker.
    #[cold]
    fn book_rest(&self, now: Instant) {
        if self.admission.is_queue_long(now) {
            self.rests.book(now);
        }
    }

    /// Refuses a request because its client has too many connections, in the words of `reply`.
    #[cold]
    pub(crate) fn refuse_client(
        &self,
        service: &Service,
        head: &RequestHead,
        now: Instant,
        reply: Reply,
    ) -> Box<Reply> {
        self.cells.count_refusal(Refusal::ClientConnections);
        self.book_rest(now);
        let Ok(found) = service.find(head) else { return reply.into() };
        found.endpoint.cells.count_refusal(Refusal::ClientConnections);
        found.endpoint.granted(reply, head).into()
    }

    /// Refuses a request that was taken on and has not begun, because too much is in flight by now.
    pub(crate) fn refuse_late(&self, visit: &Visit) -> Reply {
        self.cells.count_refusal(Refusal::Memory);
        visit.handled().route.count_refusal(Refusal::Memory);
        visit.unavailable(FULL)
    }

    /// What it serves.
    pub(crate) fn service(&self) -> Ref<'_, Service> {
        self.service.borrow()
    }

    /// Why a request of this moment is not taken on, if it is not. A fixed reply to one without content costs no more than to
    /// refuse it, so it is not asked to wait for better times.
    #[inline]
    fn refusal(
        &self,
        endpoint: &Endpoint,
        head: &RequestHead,
        now: Instant,
    ) -> Option<(Refusal, &'static str)> {
        if self.crowd.is_full() {
            Some((Refusal::Memory, FULL))
        } else if !endpoint.replies_plainly_to(head) && !self.admission.admits(now) {
            Some((Refusal::Behind, "the server is behind: nothing was recorded"))
        } else {
            endpoint.refusal_now(now, &self.recorder)
        }
    }

    #[inline]
    pub(crate) fn request_id(&self, head: &RequestHead, time_us: i64, is_taken: bool) -> RequestId {
        let made = self.ids.next(time_us);
        let came = if is_taken { head.field_bytes("x-request-id") } else { None };
        came.and_then(|text| identity::taken(text, made)).unwrap_or(RequestId::Made(made))
    }

    /// What it serves is made of.
    fn sources(&self) -> Sources {
        self.service.borrow().sources.clone()
    }

    /// What connections go by from now on.
    pub(crate) fn rules(&self) -> Rc<Rules> {
        self.service.borrow().rules.clone()
    }

    /// The backends of this moment.
    pub(crate) fn client(&self) -> Rc<Client> {
        self.service.borrow().client.clone()
    }

    /// Whether these are the rules of this moment.
    pub(crate) fn goes_by(&self, rules: &Rc<Rules>) -> bool {
        Rc::ptr_eq(&self.service.borrow().rules, rules)
    }

    /// Serves what comes from now on by another configuration.
    pub(crate) fn adopt(&self, service: Service, queue_age_max: Duration) {
        self.admission.set_age_max(queue_age_max);
        self.lane.set_age_max(queue_age_max);
        self.cells.serve(service.route_cells.clone());
        equip(&service, &self.keeper, &self.crowd);
        let before = self.service.replace(service);
        // Its last requests need no more than what they hold.
        before.shelf.clear();
        // What goes here closes a VM: nobody may be looking.
        drop(before);
    }

    /// The script hosts of this moment.
    pub(crate) fn script_hosts(&self) -> Vec<Host> {
        self.service.borrow().hosts.all().cloned().collect()
    }

    /// Tells whoever watches that it turns, what it would have to ask for, and that the disk keeps up again.
    fn tell(&self) {
        let now = Instant::now();
        self.cells.beat();
        self.cells.note_refused_share(self.admission.refused_share());
        self.cells.note_lane(self.lane.len(), self.lane.age(now), self.lane.is_kept_short());
        self.recorder.look(now);
        self.cells.note_script_bytes(self.service.borrow().script_bytes());
    }

    /// By how much the time of idle connections is cut: with many, they make room.
    fn hurry(&self) -> Duration {
        if self.crowd.is_crowded() {
            let limits = &self.service.borrow().rules.limits;
            limits.idle_timeout.saturating_sub(limits.idle_timeout_crowded)
        } else {
            Duration::ZERO
        }
    }

    /// Makes what a handler gets of a complete request; or the reply, where no handler is asked. An id that came with
    /// the request counts as far as it is taken.
    #[inline]
    pub(crate) fn exchange(
        &self,
        arrived: Arrived,
        body: Body,
        origin: RequestOrigin,
        taken: Taken,
    ) -> Result<Exchange, Box<Reply>> {
        match arrived.destination {
            Destination::Reply(reply) => Err(reply),
            Destination::Endpoint { endpoint, place, routes } => {
                let id = self.request_id(&arrived.head, arrived.time_us, taken.id);
                let RequestOrigin { client: remote_addr, peer, told_by } = origin;
                let request = Request {
                    head: arrived.head,
                    place,
                    remote_addr,
                    id,
                    time_us: arrived.time_us,
                    trace_rule: taken.trace,
                    body,
                    context: Context::default(),
                };
                let (request, begun, permit) = (Rc::new(request), arrived.begun, arrived.permit);
                let upload = arrived.upload;
                Ok(Exchange { endpoint, request, routes, begun, peer, told_by, permit, upload })
            }
        }
    }
}

/// Gives the scripts of a service what they have of their worker.
fn equip(service: &Service, keeper: &Rc<Keeper>, crowd: &Arc<Crowd>) {
    service.hosts.set_keeper(keeper);
    service.hosts.set_fetcher(BackendFetcher { client: service.client.clone(), crowd: crowd.clone() });
}

/// Runs a worker on the calling thread until it is told to drain, and no connection or no time is left.
///
/// What becomes of the start is told by `started`.
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
        Err(error) => return tell(started, Err(StartError::Worker(error))),
    };
    let worker = runtime.block_on(async {
        match start(plan, entrance, log, &orders) {
            Ok((worker, accepting)) => {
                tell(started, Ok(worker.sources()));
                drain(&worker, accepting, orders).await;
                Some(worker)
            }
            Err(error) => {
                tell(started, Err(error));
                None
            }
        }
    });
    // Connections that were cut go with it, and leave the records of what they cancel.
    drop(runtime);
    if let Some(worker) = worker {
        worker.recorder.hand_over_last();
        worker.cells.rest();
    }
}

/// Whoever starts us may have given up.
fn tell(started: &SyncSender<Result<Sources, StartError>>, result: Result<Sources, StartError>) {
    let _ = started.send(result);
}

fn start(
    plan: &Plan,
    entrance: Entrance,
    log: LogEnd,
    orders: &watch::Receiver<Order>,
) -> Result<(Rc<Worker>, Vec<JoinHandle<()>>), StartError> {
    let worker =
        Rc::new(Worker::new(plan, entrance.index, &entrance.crowd, &entrance.spool, &entrance.cells, log)?);
    spawn(&worker, |worker| async move { worker.recorder.hand_over(|| worker.deadlines.count()).await });
    spawn(&worker, |worker| async move { worker.recorder.release().await });
    spawn(&worker, |worker| async move { worker.admission.watch().await });
    spawn(&worker, |worker| async move { tick(&worker).await });
    spawn(&worker, keep::keep);
    spawn(&worker, |worker| reload::follow(worker, entrance.offers));
    let inbox = entrance.inbox;
    let mut accepting = vec![spawn(&worker, |worker| accept::take_over(worker, inbox, orders.clone()))];
    for listener in entrance.listeners {
        let acceptor = Acceptor::new(listener).map_err(StartError::Worker)?;
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

async fn tick(worker: &Worker) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        worker.clock.tick();
        worker.deadlines.sweep(worker.hurry());
        worker.recorder.expire(worker.clock.coarse());
        worker.lane.relax(worker.clock.coarse());
        worker.lane.tell(worker.clock.coarse(), worker.index);
        worker.admission.tell(worker.clock.coarse(), worker.index);
        worker.arrivals.tell(worker.clock.coarse(), worker.index);
        if worker.clock.ticks().is_multiple_of(POOLS_SWEPT_TICKS) {
            worker.client().sweep(worker.clock.coarse());
        }
        if worker.clock.ticks().is_multiple_of(SHELF_TURNED_TICKS) {
            worker.service().shelf.turn();
        }
        worker.script_hosts().iter().for_each(Host::collect_while_idle);
        worker.tell();
        let begun = Instant::now();
        tokio::task::yield_now().await;
        worker.cells.note_turn(begun.elapsed());
    }
}

async fn drain(worker: &Rc<Worker>, accepting: Vec<JoinHandle<()>>, mut orders: watch::Receiver<Order>) {
    // An owner that is gone wants no more service.
    let _ = orders.wait_for(|order| *order == Order::Drain).await;
    let timeout = worker.rules().drain_timeout;
    let emptied = async {
        for accepting in accepting {
            // A task that panicked has ended the process.
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
        tracing::warn!(timeout_ms = timeout.as_millis() as u64, "connections were cut at the drain deadline");
    }
}
