//! One worker: a thread with its own listeners, script host and end of the log; all it shares is what it was given.

use std::borrow::Cow;
use std::cell::Cell;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tollgate_http::{Method, Methods, RequestHead, StatusCode, normalise_path, write_path, write_target};
use tollgate_log::SchemaId;
use tollgate_script::{Host, Request, RequestId};

use crate::accept::{self, Accepted, Acceptor};
use crate::admission::Admission;
use crate::clock::{Clock, TICK};
use crate::conn::{Arrived, Deadlines, Destination, Scratch};
use crate::cors::{self, Cors};
use crate::crowd::Crowd;
use crate::error::StartError;
use crate::handler::{Endpoint, Exchange};
use crate::identity::{self, IdMaker};
use crate::listen::Listener;
use crate::options::{ConnectionLimits, RequestIds, ServerOptions};
use crate::recorder::{LogEnd, Recorder};
use crate::reply::Reply;
use crate::route::{Resource, RouteTable, Routed};
use crate::server::Order;
use crate::transaction::StreamPlan;
use crate::trust::TrustedProxies;

/// Where connections come to a worker.
pub(crate) struct Entrance {
    /// Its place among the workers.
    pub(crate) index: usize,
    pub(crate) crowd: Arc<Crowd>,
    /// Connections that other workers hand over.
    pub(crate) inbox: mpsc::Receiver<Accepted>,
    pub(crate) listeners: Vec<Listener>,
}

/// What the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) limits: ConnectionLimits,
    pub(crate) clock: Rc<Clock>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) recorder: Recorder,
    pub(crate) scratch: Scratch,
    pub(crate) index: usize,
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) trusted_proxies: TrustedProxies,
    /// Connections that are being told that there are too many.
    pub(crate) refusals: Cell<usize>,
    admission: Admission,
    routes: RouteTable<Rc<Endpoint>>,
    ids: IdMaker,
    request_ids: RequestIds,
}

impl Worker {
    pub(crate) fn new(
        options: &ServerOptions,
        index: usize,
        crowd: &Arc<Crowd>,
        log: LogEnd,
    ) -> Result<Self, StartError> {
        let clock = Rc::new(Clock::new());
        Ok(Self {
            limits: options.connection.clone(),
            deadlines: Rc::new(Deadlines::new(clock.clone())),
            clock,
            recorder: Recorder::new(log),
            scratch: Scratch::default(),
            index,
            crowd: crowd.clone(),
            trusted_proxies: options.trusted_proxies.clone(),
            refusals: Cell::new(0),
            admission: Admission::new(options.crowd.queue_age_max),
            routes: routes(options)?,
            ids: IdMaker::new().map_err(StartError::Randomness)?,
            request_ids: options.request_ids,
        })
    }

    /// Finds out where a request leads.
    pub(crate) fn receive(&self, head: RequestHead) -> Arrived {
        let begun = Instant::now();
        let destination = match self.refusal(begun) {
            Some(reply) => Destination::Reply(reply),
            None => self.find(&head),
        };
        Arrived { destination, begun, time_us: self.clock.wall_us(begun), head }
    }

    /// Says why a request of this moment is not taken on, if it is not.
    fn refusal(&self, now: Instant) -> Option<Reply> {
        let text = if !self.admission.admits(now) {
            "the server is behind: nothing was recorded"
        } else if self.crowd.is_full() {
            "too much is in flight: nothing was recorded"
        } else {
            return None;
        };
        Some(Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text))
    }

    fn find(&self, head: &RequestHead) -> Destination {
        let path = match normalise_path(head.path()) {
            Ok(path) => path,
            Err(error) => {
                tracing::debug!("request refused: {error}");
                return Destination::Reply(Reply::text(error.status(), error.client_text()));
            }
        };
        if let Some(reply) = self.preflight(head, &path) {
            return Destination::Reply(reply);
        }
        let reply = match self.routes.find(|| head.host(), &path, head.method()) {
            Routed::Found(found) => {
                let endpoint = found.endpoint().clone();
                let mut place = found.place();
                if let Cow::Owned(path) = path {
                    place.decoded = Some(path.into());
                }
                return Destination::Endpoint { endpoint, place };
            }
            Routed::MethodNotAllowed(resource) => {
                let status = match head.method() {
                    Method::Options => StatusCode::NO_CONTENT,
                    _ => StatusCode::METHOD_NOT_ALLOWED,
                };
                let mut reply = allowed(status, resource.methods());
                if let Some(cors) = policy(&resource) {
                    cors.grant(head).add_to(&mut reply);
                }
                reply
            }
            Routed::MissingSlash => redirect_below(&path, head.query()),
            // RFC 9110 section 9.3.7: the server as a whole.
            Routed::NotFound if path == "*" => {
                allowed(StatusCode::NO_CONTENT, Method::ALL.into_iter().collect())
            }
            Routed::NotFound => Reply::text(StatusCode::NOT_FOUND, "nothing is here"),
        };
        Destination::Reply(reply)
    }

    fn request_id(&self, head: &RequestHead, time_us: i64) -> RequestId {
        let made = self.ids.next(time_us);
        let came = match self.request_ids {
            RequestIds::Take => head.field_bytes("x-request-id"),
            RequestIds::Make | RequestIds::Silent => None,
        };
        came.and_then(|text| identity::taken(text, made)).unwrap_or(RequestId::Made(made))
    }

    /// Whether replies of handlers tell the id of their request.
    pub(crate) fn tells_request_ids(&self) -> bool {
        self.request_ids != RequestIds::Silent
    }

    /// Answers a preflight to a route with a policy: the one that takes the method which is asked for, or, if none does,
    /// the first of that path.
    fn preflight(&self, head: &RequestHead, path: &str) -> Option<Reply> {
        if !cors::is_preflight(head) {
            return None;
        }
        let method = cors::requested_method(head).unwrap_or(Method::Options);
        let cors = match self.routes.find(|| head.host(), path, method) {
            Routed::Found(found) => found.endpoint().cors.as_ref(),
            Routed::MethodNotAllowed(resource) => policy(&resource),
            Routed::MissingSlash | Routed::NotFound => None,
        };
        cors.map(|cors| cors.preflight(head))
    }

    /// By how much the time of idle connections is cut: with many, they make room.
    fn hurry(&self) -> Duration {
        let limits = &self.limits;
        if self.crowd.is_crowded() {
            limits.idle_timeout.saturating_sub(limits.idle_timeout_crowded)
        } else {
            Duration::ZERO
        }
    }

    /// Makes what a handler gets of a complete request; or the reply, where no handler is asked.
    pub(crate) fn exchange(
        &self,
        arrived: Arrived,
        body: Bytes,
        remote_addr: Option<IpAddr>,
    ) -> Result<Exchange, Reply> {
        match arrived.destination {
            Destination::Reply(reply) => Err(reply),
            Destination::Endpoint { endpoint, place } => {
                let id = self.request_id(&arrived.head, arrived.time_us);
                let request =
                    Request { head: arrived.head, place, remote_addr, id, time_us: arrived.time_us, body };
                Ok(Exchange { endpoint, request: Rc::new(request), begun: arrived.begun })
            }
        }
    }
}

fn routes(options: &ServerOptions) -> Result<RouteTable<Rc<Endpoint>>, StartError> {
    let host = Host::new(options.script.clone()).map_err(|error| StartError::Script(error.to_string()))?;
    let streams = options.streams.iter().enumerate();
    let streams: Vec<_> =
        streams.map(|(id, spec)| Rc::new(StreamPlan::new(SchemaId(id as u16), spec))).collect();
    let mut routes = RouteTable::default();
    for spec in &options.routes {
        let endpoint =
            Endpoint::new(spec, &streams, &host).map_err(|error| StartError::Script(error.to_string()))?;
        let methods = endpoint.methods;
        routes.insert(spec.host.as_deref(), &spec.path, methods, Rc::new(endpoint));
    }
    Ok(routes)
}

/// The policy of a path whose routes do not take the method.
fn policy<'t>(resource: &Resource<'t, Rc<Endpoint>>) -> Option<&'t Cors> {
    resource.endpoints().find_map(|endpoint| endpoint.cors.as_ref())
}

/// RFC 9110 section 10.2.1. OPTIONS is always among what is allowed: if no route takes it, we answer it.
fn allowed(status: StatusCode, mut methods: Methods) -> Reply {
    methods.insert(Method::Options);
    let reply = match status {
        StatusCode::NO_CONTENT => Reply::empty(status),
        _ => Reply::text(status, "this method is not allowed here"),
    };
    reply.with("Allow", methods.to_string())
}

/// From the path as it is matched: one as sent, `//host/../docs`, may lead to another server.
fn redirect_below(path: &str, query: Option<&str>) -> Reply {
    let mut location = Vec::new();
    write_path(&mut location, path);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        write_target(&mut location, query);
    }
    Reply::text(StatusCode::PERMANENT_REDIRECT, "it is below, after a slash").with("Location", location)
}

/// Runs a worker on the calling thread until it is told to drain, and no connection or no time is left.
///
/// What becomes of the start is told by `started`.
pub(crate) fn run(
    options: &ServerOptions,
    entrance: Entrance,
    log: LogEnd,
    orders: watch::Receiver<Order>,
    started: &SyncSender<Result<(), StartError>>,
) {
    let runtime =
        Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tell(started, Err(StartError::Worker(error))),
    };
    runtime.block_on(async {
        match start(options, entrance, log, &orders) {
            Ok((worker, accepting)) => {
                tell(started, Ok(()));
                drain(&worker, accepting, orders, options.drain_timeout).await;
            }
            Err(error) => tell(started, Err(error)),
        }
    });
}

/// Whoever starts us may have given up.
fn tell(started: &SyncSender<Result<(), StartError>>, result: Result<(), StartError>) {
    let _ = started.send(result);
}

fn start(
    options: &ServerOptions,
    entrance: Entrance,
    log: LogEnd,
    orders: &watch::Receiver<Order>,
) -> Result<(Rc<Worker>, Vec<JoinHandle<()>>), StartError> {
    let worker = Rc::new(Worker::new(options, entrance.index, &entrance.crowd, log)?);
    spawn(&worker, |worker| async move { worker.recorder.hand_over().await });
    spawn(&worker, |worker| async move { worker.recorder.release().await });
    spawn(&worker, |worker| async move { worker.admission.watch().await });
    spawn(&worker, |worker| async move { tick(&worker).await });
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
    }
}

async fn drain(
    worker: &Rc<Worker>,
    accepting: Vec<JoinHandle<()>>,
    mut orders: watch::Receiver<Order>,
    timeout: Duration,
) {
    // An owner that is gone wants no more service.
    let _ = orders.wait_for(|order| *order == Order::Drain).await;
    let emptied = async {
        for accepting in accepting {
            // A task that panicked has ended the process.
            let _ = accepting.await;
        }
        worker.deadlines.drain();
        worker.deadlines.emptied().await;
        worker.recorder.hand_over_all().await;
    };
    if tokio::time::timeout(timeout, emptied).await.is_err() {
        tracing::warn!(timeout_ms = timeout.as_millis() as u64, "connections were cut at the drain deadline");
    }
}
