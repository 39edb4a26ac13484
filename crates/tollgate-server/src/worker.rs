//! One worker: a thread with its own listeners, script host and end of the log; all it shares is what it was given.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_http::{Method, Methods, RequestHead, StatusCode, normalise_path, write_path, write_target};
use tollgate_log::SchemaId;
use tollgate_script::{Host, Request, RequestId};

use crate::clock::{Clock, TICK};
use crate::conn::{self, Arrived, Deadlines, Destination, Scratch};
use crate::cors::{self, Cors};
use crate::error::StartError;
use crate::handler::{Endpoint, Exchange};
use crate::identity::{self, IdMaker};
use crate::options::{ConnectionLimits, RequestIds, ServerOptions};
use crate::recorder::{LogEnd, Recorder};
use crate::reply::Reply;
use crate::route::{Resource, RouteTable, Routed};
use crate::server::Order;
use crate::transaction::StreamPlan;

/// How long accepting pauses after an error, which is one of the system's: no descriptors, no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) limits: ConnectionLimits,
    pub(crate) clock: Rc<Clock>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) recorder: Recorder,
    pub(crate) scratch: Scratch,
    routes: RouteTable<Rc<Endpoint>>,
    ids: IdMaker,
    request_ids: RequestIds,
}

impl Worker {
    fn new(options: &ServerOptions, log: LogEnd) -> Result<Self, StartError> {
        let clock = Rc::new(Clock::new());
        Ok(Self {
            limits: options.connection.clone(),
            deadlines: Rc::new(Deadlines::new(clock.clone())),
            clock,
            recorder: Recorder::new(log),
            scratch: Scratch::default(),
            routes: routes(options)?,
            ids: IdMaker::new().map_err(StartError::Randomness)?,
            request_ids: options.request_ids,
        })
    }

    /// Finds out where a request leads.
    pub(crate) fn receive(&self, head: RequestHead) -> Arrived {
        let destination = self.find(&head);
        let begun = Instant::now();
        Arrived { destination, begun, time_us: self.clock.wall_us(begun), head }
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

    /// Makes what a handler gets of a complete request; or the reply, where no handler is asked.
    pub(crate) fn exchange(
        &self,
        arrived: Arrived,
        body: Bytes,
        remote_addr: IpAddr,
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

/// From the path as it was understood: what came may say `//host/../..` before it.
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
    listeners: Vec<TcpListener>,
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
        match start(options, listeners, log, &orders) {
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
    listeners: Vec<TcpListener>,
    log: LogEnd,
    orders: &watch::Receiver<Order>,
) -> Result<(Rc<Worker>, Vec<JoinHandle<()>>), StartError> {
    let worker = Rc::new(Worker::new(options, log)?);
    spawn(&worker, |worker| async move { worker.recorder.hand_over().await });
    spawn(&worker, |worker| async move { worker.recorder.release().await });
    spawn(&worker, |worker| async move { tick(&worker).await });
    let mut accepting = Vec::new();
    for listener in listeners {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(StartError::Worker)?;
        let orders = orders.clone();
        accepting.push(spawn(&worker, |worker| accept(worker, listener, orders)));
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
        worker.deadlines.sweep();
    }
}

/// Accepts connections until the worker drains, and then those that are queued already.
async fn accept(worker: Rc<Worker>, listener: tokio::net::TcpListener, mut orders: watch::Receiver<Order>) {
    let mut accepting = Accepting::Well;
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    accepting.succeeded();
                    open(&worker, stream, peer);
                }
                Err(error) => accepting.failed(&error).await,
            },
            _ = orders.wait_for(|order| *order == Order::Drain) => break,
        }
    }
    if let Err(error) = accept_queued(&worker, listener) {
        tracing::warn!(%error, "connections were lost that nobody had accepted yet");
    }
}

/// Takes the queue itself: the runtime may not have heard of the last connections.
fn accept_queued(worker: &Rc<Worker>, listener: tokio::net::TcpListener) -> io::Result<()> {
    let listener = listener.into_std()?;
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                open(worker, TcpStream::from_std(stream)?, peer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn open(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    spawn(worker, |worker| conn::serve(worker, stream, peer));
}

/// Whether connections can be accepted: a change is told, once.
enum Accepting {
    Well,
    Failing,
}

impl Accepting {
    fn succeeded(&mut self) {
        if let Self::Failing = self {
            tracing::info!("connections are accepted again");
            *self = Self::Well;
        }
    }

    /// Waits a little: the error is one of the system's, and the connection is still in its queue.
    async fn failed(&mut self, error: &io::Error) {
        // A peer that left before it was accepted is no trouble.
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return;
        }
        if let Self::Well = self {
            tracing::error!(%error, "cannot accept connections, trying again");
            *self = Self::Failing;
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
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
        for listener in accepting {
            // A task that panicked has ended the process.
            let _ = listener.await;
        }
        worker.deadlines.drain();
        worker.deadlines.emptied().await;
        worker.recorder.hand_over_all().await;
    };
    if tokio::time::timeout(timeout, emptied).await.is_err() {
        tracing::warn!(timeout_ms = timeout.as_millis() as u64, "connections were cut at the drain deadline");
    }
}
