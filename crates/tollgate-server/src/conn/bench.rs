//! A worker without a separate thread, for tests of connections.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{spawn_local, yield_now};
use tollgate_log::{DiskStorage, Log, LogOptions};

use super::client::Origin;
use super::run::serve;
use super::transport::PlainStream;
use crate::observe::WorkerCells;
use crate::options::tests::options;
use crate::options::{HandlerSpec, RouteSpec};
use crate::overload::Capacity;
use crate::recorder::LogEnd;
use crate::service::Plan;
use crate::spool::Spool;
use crate::worker::Worker;

pub(super) const FOR_EVER: Duration = Duration::from_secs(3600);
/// Maximum time that a test waits. No correct test needs this time.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// A worker whose turns a test runs one by one.
pub(super) struct Bench {
    pub(super) worker: Rc<Worker>,
    pub(super) capacity: Arc<Capacity>,
    _folder: TempDir,
}

impl Bench {
    /// Creates a worker with these paths and the bodies of their scripts.
    pub(super) fn new(routes: &[(&str, &str)]) -> Self {
        Self::with(routes, |_, _| {})
    }

    /// Creates a worker like [`new`](Self::new), and calls `tune`, which may change the routes.
    pub(super) fn with(routes: &[(&str, &str)], tune: impl FnOnce(&mut Vec<RouteSpec>, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options();
        options.capacity.queue_age_max = FOR_EVER;
        options.script.cpu_budget = FOR_EVER;
        for (number, (path, body)) in routes.iter().enumerate() {
            let file = folder.path().join(format!("route{number}.luau"));
            fs::write(&file, format!("return function() {body} end")).unwrap();
            let handler = HandlerSpec::Script { file, root: folder.path().to_owned() };
            options.routes.push(RouteSpec::new(path, handler));
        }
        tune(&mut options.routes, folder.path());
        let log = LogOptions::new(&folder.path().join("log"));
        let (log, _) = Log::open(Arc::new(DiskStorage), log, Vec::new(), |_| {}).unwrap();
        let capacity = Capacity::new(&options.capacity, 1);
        let spool = Arc::new(Spool::new(options.spool.clone()));
        let plan = Plan::new(options, &log, None).unwrap();
        let cells = Arc::new(WorkerCells::new());
        let worker = Worker::new(&plan, 0, &capacity, &spool, &cells, LogEnd::new(&log)).unwrap();
        Self { worker: Rc::new(worker), capacity, _folder: folder }
    }

    /// Sends requests on a new connection.
    pub(super) async fn send(&self, targets: &[&str]) -> DuplexStream {
        let (near, far) = duplex(1 << 16);
        let origin = Origin { peer: None, proxy_protocol: false, tls: false, redirect_to_https: false };
        let permit = self.capacity.enter(0).unwrap();
        spawn_local(serve(self.worker.clone(), PlainStream(far), origin, permit));
        self.send_more(near, targets).await
    }

    pub(super) async fn send_more(&self, mut peer: DuplexStream, targets: &[&str]) -> DuplexStream {
        for target in targets {
            peer.write_all(head(target).as_bytes()).await.unwrap();
        }
        peer
    }

    /// Returns all bytes that the peer receives until the connection ends.
    pub(super) async fn reply(&self, mut peer: DuplexStream) -> String {
        peer.shutdown().await.unwrap();
        let reading = spawn_local(async move {
            let mut reply = String::new();
            peer.read_to_string(&mut reply).await.unwrap();
            reply
        });
        self.until("the reply is there", || reading.is_finished()).await;
        reading.await.unwrap()
    }

    pub(super) async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "never came true: {what}");
            yield_now().await;
        }
    }
}

pub(super) fn head(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

pub(super) fn in_turns(test: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_time().build_local(LocalOptions::default()).unwrap().block_on(test);
}
