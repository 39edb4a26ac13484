//! A server for tests, with one worker, a new folder, a log on disk, and no loader.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tempfile::TempDir;
use tokio::runtime::{Builder, LocalOptions};
use tollgate_log::{
    ColumnType, Cursor, CursorStep, DiskStorage, Follower, Log, LogEvent, LogOptions, LogStatus, RecordBody,
    Storage, Value,
};
use tollgate_server::{
    Ack, BackendSnapshot, BodyPace, BoundAddress, CapacityLimits, CollectSpec, ColumnRules, ColumnSpec,
    ConnectionLimits, FilesSpec, HandlerSpec, HostOptions, HttpsOptions, KeySpec, Listeners, RequestIds,
    RouteSpec, ScriptFile, Server, ServerOptions, ServerWatch, Source, SpoolOptions, StreamServer,
    StreamSpec, TimeRules, Traces, TrustedProxies, UnknownFields,
};

use crate::over_tls;
use crate::peer::Peer;
use crate::pump::Pump;

/// A request that must not be answered. This request is sent after a request that is refused.
pub(crate) const NEXT: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// Default of the time limits in tests. The tests run in parallel, so the worker, the disk and the client may
/// be late by seconds. A test that needs the end of a limit sets another value.
const PATIENT: Duration = Duration::from_hours(1);

/// The parts from which a server is started.
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) options: ServerOptions,
    log: LogOptions,
    storage: Arc<dyn Storage>,
    on_log_event: fn(&LogEvent),
}

/// A running server.
pub(crate) struct Running {
    folder: TempDir,
    address: BoundAddress,
    /// Carries the connections of the test over TLS, if the tests run over TLS.
    pump: Option<Pump>,
    server: Server,
    log: Log,
}

/// Budgets that no script of a test exceeds on a slow machine, unless it loops. A test of a budget sets it.
fn patient_scripts() -> HostOptions {
    HostOptions {
        cpu_budget: Duration::from_secs(5),
        wall_budget: PATIENT,
        heartbeat: PATIENT,
        ..HostOptions::default()
    }
}

/// Returns limits of connections whose times do not end on a slow or busy machine.
fn patient_limits() -> ConnectionLimits {
    let body_pace = BodyPace { timeout: PATIENT, rate_grace: PATIENT, ..BodyPace::default() };
    ConnectionLimits {
        handshake_timeout: PATIENT,
        head_timeout: PATIENT,
        body_pace,
        idle_timeout: PATIENT,
        idle_timeout_crowded: PATIENT,
        write_timeout: PATIENT,
        ..ConnectionLimits::default()
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ServerOptions {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            tls: None,
            https: HttpsOptions::default(),
            challenges: None,
            dns_hook: None,
            trusted_proxies: TrustedProxies::default(),
            backlog: 64,
            workers: 1,
            connection: patient_limits(),
            capacity: CapacityLimits { queue_age_max: PATIENT, ..CapacityLimits::default() },
            spool: SpoolOptions::new(folder.path().join("spool")),
            script: patient_scripts(),
            streams: Vec::new(),
            backends: Vec::new(),
            routes: Vec::new(),
            apps: Vec::new(),
            version: 1,
            dev: None,
            request_ids: RequestIds::default(),
            traces: Traces::Pass,
            access_log: None,
            access_queue: Arc::default(),
            spans: None,
            span_queue: Arc::default(),
            drain_timeout: Duration::from_secs(5),
        };
        let log = LogOptions { queue_age_max: PATIENT, ..LogOptions::new(&folder.path().join("log")) };
        let storage = Arc::new(DiskStorage);
        Self { folder, options, log, storage, on_log_event: |event| panic!("{event:?}") }
    }

    /// Adds a stream. Each column has the form `name type source`.
    pub(crate) fn stream(mut self, name: &str, ack: impl Into<Ack>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| column_spec(column)).collect();
        let name = name.to_owned();
        let stream = StreamSpec { name, ack: ack.into(), columns, unknown: UnknownFields::Reject, key: None };
        self.options.streams.push(stream);
        self
    }

    /// Adds a key to the last stream.
    pub(crate) fn key(self, source: &str) -> Self {
        let key = KeySpec { source: Source::from_name(source).unwrap(), window: KeySpec::WINDOW };
        self.tune(|options| options.streams.last_mut().unwrap().key = Some(key))
    }

    /// Adds rules to a column of the last stream.
    pub(crate) fn rules(self, column: &str, rules: ColumnRules) -> Self {
        self.tune(|options| {
            let columns = &mut options.streams.last_mut().unwrap().columns;
            columns.iter_mut().find(|known| known.name == column).unwrap().rules = rules;
        })
    }

    pub(crate) fn fixed(self, path: &str, body: &'static str) -> Self {
        let content_type = "text/plain".to_owned();
        let body = Bytes::from_static(body.as_bytes());
        self.route(path, HandlerSpec::Reply { status: 200, content_type, body }, None)
    }

    /// Adds a script. The transactions of the script are recorded in the first stream, if there is one.
    pub(crate) fn script(self, path: &str, source: &str) -> Self {
        let file = self.folder.path().join(format!("route{}.luau", self.options.routes.len()));
        fs::write(&file, source).unwrap();
        let root = self.folder.path().to_owned();
        let stream = (!self.options.streams.is_empty()).then_some(0);
        self.route(path, HandlerSpec::Script { file, root }, stream)
    }

    /// Adds a script before the handler of the last route.
    pub(crate) fn before(self, body: &str) -> Self {
        let script = self.beside("before", body);
        self.tune_route(|route| route.before.push(script))
    }

    /// Adds a script that gets the replies of the last route.
    pub(crate) fn after(self, body: &str) -> Self {
        let script = self.beside("after", body);
        self.tune_route(|route| route.after.push(script))
    }

    fn beside(&self, role: &str, body: &str) -> ScriptFile {
        let routes = self.options.routes.len();
        let route = self.options.routes.last().unwrap();
        let count = route.before.len() + route.after.len();
        let file = self.folder.path().join(format!("{role}{routes}_{count}.luau"));
        let source = if body.starts_with("return { POST") {
            body.to_owned()
        } else {
            format!("return function(req, reply) {body} end")
        };
        fs::write(&file, source).unwrap();
        ScriptFile { file, root: self.folder.path().to_owned() }
    }

    /// Adds a script. `body` is the code of its handler for every method.
    pub(crate) fn handler(self, path: &str, body: &str) -> Self {
        self.script(path, &format!("return function(req) {body} end"))
    }

    /// Returns the folder of the site.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Serves the folder `public` of the site, with options.
    pub(crate) fn files(self, path: &str, tune: impl FnOnce(&mut FilesSpec)) -> Self {
        let root = self.folder.path().join("public");
        fs::create_dir_all(&root).unwrap();
        let mut spec = FilesSpec::new(root);
        // Tests change files and check the result at once.
        spec.recheck = Duration::ZERO;
        tune(&mut spec);
        let stream = (!self.options.streams.is_empty()).then_some(0);
        self.route(path, HandlerSpec::Files(spec.into()), stream)
    }

    /// Writes a file into the folder of the site, with a modification time years ago.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let years_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(years_ago).unwrap();
        self
    }

    /// Adds a collect route for the first stream.
    pub(crate) fn collect(self, path: &str) -> Self {
        self.collect_with(path, CollectSpec::default())
    }

    /// Adds a collect route with options for the first stream.
    pub(crate) fn collect_with(self, path: &str, spec: CollectSpec) -> Self {
        self.route(path, HandlerSpec::Collect(Box::new(spec)), Some(0))
    }

    pub(crate) fn route(mut self, path: &str, handler: HandlerSpec, stream: Option<usize>) -> Self {
        self.options.routes.push(RouteSpec { stream, ..RouteSpec::new(path, handler) });
        self
    }

    /// Changes the last route.
    pub(crate) fn tune_route(mut self, tune: impl FnOnce(&mut RouteSpec)) -> Self {
        tune(self.options.routes.last_mut().unwrap());
        self
    }

    pub(crate) fn tune(mut self, tune: impl FnOnce(&mut ServerOptions)) -> Self {
        tune(&mut self.options);
        self
    }

    pub(crate) fn tune_log(mut self, tune: impl FnOnce(&mut LogOptions)) -> Self {
        tune(&mut self.log);
        self
    }

    /// Allows a failure of the log. Any other failure still ends the test.
    pub(crate) fn log_may_fail(mut self) -> Self {
        self.on_log_event = |event| assert!(matches!(event, LogEvent::Failed(_)), "{event:?}");
        self
    }

    /// Sets the disk of the log. The log may report that this disk is slow.
    pub(crate) fn disk(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self.on_log_event = |event| assert!(matches!(event, LogEvent::Queue { .. }), "{event:?}");
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let client = over_tls::put_on(&mut self.options);
        let schemas = self.options.streams.iter().map(|stream| stream.schema().unwrap()).collect();
        let (log, _) = Log::open(self.storage, self.log, schemas, self.on_log_event).unwrap();
        let listeners = Listeners::bind(&self.options).unwrap();
        let address = listeners.addresses()[0].clone();
        let (server, _) = Server::start(self.options, listeners, &log).unwrap();
        let pump = client.map(|client| Pump::start(address.tcp().unwrap(), client));
        Running { folder: self.folder, address, pump, server, log }
    }

    /// Runs a test on the calling thread. The test serves the byte streams that it opens.
    pub(crate) fn on_this_thread(&self, test: impl AsyncFnOnce(Rc<StreamServer>)) {
        let log = LogOptions::new(&self.folder().join("log"));
        let (log, _) = Log::open(self.storage.clone(), log, Vec::new(), self.on_log_event).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.unwrap().block_on(async {
            test(Rc::new(StreamServer::new(&self.options, &log).unwrap())).await;
        });
    }
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        self.pump.as_ref().map_or_else(|| self.address.tcp().unwrap(), |pump| pump.address)
    }

    /// Returns the scheme of the requests that the test sends.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.pump.is_some() { "https" } else { "http" }
    }

    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address())
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.server.watch().status().connections
    }

    /// Returns the number of requests that were refused for this reason.
    pub(crate) fn refusals(&self, reason: &str) -> u64 {
        let status = self.server.watch().status();
        status.refusals.into_iter().find(|(name, _)| *name == reason).unwrap().1
    }

    /// Returns the number of requests that routes refused for this reason.
    pub(crate) fn refused_as(&self, reason: &str) -> u64 {
        let routes = self.server.watch().status().routes;
        let counts = routes.into_iter().flat_map(|route| route.refusals);
        counts.filter(|(name, _)| *name == reason).map(|(_, count)| count).sum()
    }

    /// Returns the number of VMs that were replaced.
    pub(crate) fn vms_replaced(&self) -> u64 {
        self.server.watch().status().workers.iter().map(|worker| worker.script_vms_replaced).sum()
    }

    /// Sends `request` on a new connection and checks that its reply begins with `status` and ends with
    /// `content`.
    pub(crate) fn check(&self, request: &str, status: &str, content: &str) {
        let mut peer = self.connect();
        peer.send(request);
        peer.expect(status, content);
    }

    /// Sends `request` on a new connection. Checks that the request is refused, and that the connection is
    /// closed.
    pub(crate) fn check_refused(&self, request: impl AsRef<[u8]>, status: u16) {
        let request = request.as_ref();
        let mut peer = self.connect();
        peer.send(request);
        let shown = request.escape_ascii().to_string();
        let reply = peer.reply(false);
        assert_eq!(reply.status, status, "{shown}: {reply:?}");
        assert_eq!(reply.field("connection"), Some("close"), "{shown}: {reply:?}");
        peer.expect_end();
    }

    /// Returns the folder of the site.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the log's folder before any request is recorded, so that the first write fails.
    pub(crate) fn take_log_folder(&self) {
        let folder = self.folder().join("log");
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "no folder").unwrap();
    }

    /// Returns a follower of the log that acts as a sink. Call it before any request is recorded.
    pub(crate) fn sink_follower(&self) -> Follower {
        self.log.sink_followers(1).remove(0)
    }

    /// Returns the status of the log.
    pub(crate) fn log_status(&self) -> LogStatus {
        self.log.watch().status()
    }

    /// Reloads the server with other options.
    pub(crate) fn reload(&self, mut options: ServerOptions) {
        over_tls::put_on(&mut options);
        self.server.reload(options, &self.log).unwrap();
    }

    /// Returns the state of the backends.
    pub(crate) fn backends(&self) -> Vec<BackendSnapshot> {
        self.server.backends()
    }

    pub(crate) fn watch(&self) -> ServerWatch {
        self.server.watch()
    }

    pub(crate) fn drain(self) -> TempDir {
        self.server.drain();
        self.log.close().unwrap();
        self.folder
    }

    /// Stops the server and returns the records in their order. A row has the form `name=value` for each
    /// column, and a reject the form `reject reason: item`.
    pub(crate) fn records(self) -> Vec<String> {
        let id = self.log.id();
        let folder = self.drain();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let mut cursor = Cursor::new(storage, &folder.path().join("log"), id, None);
        let mut records = Vec::new();
        loop {
            match cursor.step(None).unwrap() {
                CursorStep::Batch(batch) => {
                    records.extend(batch.records().map(|record| shown(record.unwrap())));
                }
                CursorStep::Gap(gap) => panic!("{gap:?}"),
                CursorStep::CaughtUp => return records,
            }
        }
    }
}

fn shown(record: tollgate_log::Record<'_>) -> String {
    match record.body {
        RecordBody::Reject { reason, item } => format!("reject {reason}: {}", String::from_utf8_lossy(item)),
        RecordBody::Row(values) => {
            let columns = record.schema.columns().iter();
            let named =
                columns.zip(values.iter()).map(|(column, value)| format!("{}={}", column.name, text(value)));
            named.collect::<Vec<_>>().join(" ")
        }
    }
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) | Value::Timestamp(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(value) | Value::Json(value) => (*value).to_owned(),
        Value::Bytes(value) => format!("{value:?}"),
        Value::Uuid(value) => format!("{value:?}"),
        Value::Inet(value) => value.to_string(),
        Value::Decimal(value) => value.to_string(),
        Value::Date(value) => value.to_string(),
        Value::Time(value) => value.to_string(),
        Value::Array(value) => {
            format!("[{}]", value.elements().map(|value| text(&value)).collect::<Vec<_>>().join(","))
        }
    }
}

fn column_spec(column: &str) -> ColumnSpec {
    let words: Vec<_> = column.split(' ').collect();
    ColumnSpec {
        name: words[0].to_owned(),
        kind: ColumnType::from_name(words[1]).unwrap(),
        source: Source::from_name(words[2]).unwrap(),
        times: TimeRules::default(),
        coerce: false,
        rules: ColumnRules::default(),
    }
}
