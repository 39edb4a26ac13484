//! One worker: a thread with its own listeners, script host and end of the log; all it shares is what it was given.

use std::cell::Cell;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tollgate_http::{Method, Methods, RequestHead, StatusCode, normalise_path, write_path};
use tollgate_log::SchemaId;
use tollgate_script::{Body, Host, Request};

use crate::accept::{self, Accepted, Acceptor};
use crate::admission::Admission;
use crate::clock::{Clock, TICK};
use crate::conn::{Arrived, Deadlines, Destination, Scratch};
use crate::crowd::Crowd;
use crate::error::StartError;
use crate::handler::{Endpoint, Exchange};
use crate::identity::IdMaker;
use crate::listen::Listener;
use crate::options::{ConnectionLimits, ServerOptions};
use crate::recorder::{LogEnd, Recorder};
use crate::reply::Reply;
use crate::route::{RouteTable, Routed};
use crate::server::Order;
use crate::spool::Spool;
use crate::transaction::StreamPlan;
use crate::trust::TrustedProxies;

/// Where connections come to a worker.
pub(crate) struct Entrance {
    /// Its place among the workers.
    pub(crate) index: usize,
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) spool: Arc<Spool>,
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
    pub(crate) spool: Arc<Spool>,
    pub(crate) trusted_proxies: TrustedProxies,
    /// Connections that are being told that there are too many.
    pub(crate) refusals: Cell<usize>,
    admission: Admission,
    routes: RouteTable<Rc<Endpoint>>,
    ids: IdMaker,
}

impl Worker {
    pub(crate) fn new(
        options: &ServerOptions,
        index: usize,
        crowd: &Arc<Crowd>,
        spool: &Arc<Spool>,
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
            spool: spool.clone(),
            trusted_proxies: options.trusted_proxies.clone(),
            refusals: Cell::new(0),
            admission: Admission::new(options.crowd.queue_age_max),
            routes: routes(options)?,
            ids: IdMaker::new().map_err(StartError::Randomness)?,
        })
    }

    /// Finds out where a request leads.
    pub(crate) fn receive(&self, head: RequestHead) -> Arrived {
        let begun = Instant::now();
        let (destination, path) = match self.refusal(begun) {
            Some(reply) => (Destination::Reply(reply), String::new()),
            None => self.find(&head),
        };
        Arrived { destination, path, begun, time_us: self.clock.wall_us(begun), head }
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

    fn find(&self, head: &RequestHead) -> (Destination, String) {
        let raw_path = head.path();
        if raw_path == "*" {
            return (
                Destination::Reply(allowed(StatusCode::NO_CONTENT, Method::ALL.into_iter().collect())),
                String::new(),
            );
        }
        let path = match normalise_path(raw_path) {
            Ok(path) => path,
            Err(error) => {
                tracing::debug!("request refused: {error}");
                return (Destination::Reply(Reply::text(error.status(), error.client_text())), String::new());
            }
        };
        let destination = match self.routes.find(|| head.host(), &path, head.method()) {
            Routed::Found(found) => Destination::Endpoint {
                endpoint: found.endpoint.clone(),
                params: found
                    .params
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                path_info: found.path_info.to_owned(),
            },
            Routed::MethodNotAllowed(methods) if head.method() == Method::Options => {
                Destination::Reply(allowed(StatusCode::NO_CONTENT, methods))
            }
            Routed::MethodNotAllowed(methods) => {
                Destination::Reply(allowed(StatusCode::METHOD_NOT_ALLOWED, methods))
            }
            Routed::MissingSlash => Destination::Reply(redirect_below(&path, head.query())),
            Routed::NotFound => Destination::Reply(Reply::text(StatusCode::NOT_FOUND, "nothing is here")),
        };
        (destination, path.into_owned())
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
        body: Body,
        remote_addr: Option<IpAddr>,
    ) -> Result<Exchange, Reply> {
        match arrived.destination {
            Destination::Reply(reply) => Err(reply),
            Destination::Endpoint { endpoint, params, path_info } => {
                let request = Request {
                    head: arrived.head,
                    path: arrived.path,
                    params,
                    path_info,
                    remote_addr,
                    id: self.ids.next(arrived.time_us),
                    time_us: arrived.time_us,
                    body,
                };
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
        location.extend_from_slice(query.as_bytes());
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
    let worker = Rc::new(Worker::new(options, entrance.index, &entrance.crowd, &entrance.spool, log)?);
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
