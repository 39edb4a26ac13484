//! Tests of an app. Each test sends requests to a new service of the configuration, without a socket and
//! without a log.

mod fakes;
mod head;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_script::{
    CallError, Clock, Context, FakeBackends, Host, HostOptions, Request, RequestId, Step, Test, TestReply,
    TestRequest, TestService, TraceRule,
};
use uuid::Uuid;

use fakes::FakeFetcher;
use head::head;

use crate::admit::ConnectionScheme;
use crate::admit::Destination;
use crate::handler::{Exchange, Rehearsed};
use crate::observe::WorkerCells;
use crate::options::ServerOptions;
use crate::overload::ScriptQueue;
use crate::service::{Plan, Service};

/// The result of a test.
#[derive(Debug)]
pub struct TestResult {
    /// Name of the test.
    pub name: String,
    /// Line of the file where the test begins.
    pub line: usize,
    /// Reason why the test failed. `None` if it passed.
    pub failure: Option<TestFailure>,
}

/// Reason why a test failed.
#[derive(Debug)]
pub struct TestFailure {
    /// The error that was raised, with file and line.
    pub error: CallError,
    /// Problems in the scripts that the test called: errors, and records that are not rows.
    pub notes: Vec<String>,
}

/// Reason why tests could not be run.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The app does not start, or the file contains no tests.
    #[error("{0}")]
    Unusable(String),
    /// The operating system provides no event queue or no temporary folder.
    #[error("cannot create the runtime or the folder for uploads")]
    Runtime(#[source] io::Error),
}

/// Runs the tests of a file whose names contain `filter`, and passes each result to `report`. Each test loads
/// the scripts again. `app` is the index of the app whose tests these are. These tests have the bounds of
/// that app, and share its values.
///
/// # Errors
/// The app does not start, or the file contains no tests. In both cases no test ran.
pub fn run_tests(
    options: &ServerOptions,
    app: Option<usize>,
    (file, root): (&Path, &Path),
    filter: &str,
    mut report: impl FnMut(TestResult),
) -> Result<(), TestError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(TestError::Runtime)?;
    let names: Vec<_> =
        Stage::new(options, app, file, root)?.tests.into_iter().map(|test| test.name).collect();
    for name in names.iter().filter(|name| name.contains(filter)) {
        let Stage { tests, notes, _scratch } = Stage::new(options, app, file, root)?;
        let Some(test) = tests.into_iter().find(|test| test.name == *name) else { continue };
        let result = runtime.block_on(run(&test));
        let notes = notes.take();
        let failure = result.err().map(|error| TestFailure { error, notes });
        report(TestResult { name: test.name, line: test.line, failure });
    }
    Ok(())
}

/// A service, with the tests that use it.
struct Stage {
    tests: Vec<Test>,
    notes: Rc<RefCell<Vec<String>>>,
    /// Folder for uploads during the tests.
    _scratch: TempDir,
}

impl Stage {
    fn new(options: &ServerOptions, app: Option<usize>, file: &Path, root: &Path) -> Result<Self, TestError> {
        let mut options = options.clone();
        let scratch = tempfile::tempdir().map_err(TestError::Runtime)?;
        for uploads in options.routes.iter_mut().filter_map(|route| route.access.uploads.as_mut()) {
            uploads.dir = scratch.path().to_owned();
        }
        options.script.shared = std::sync::Arc::default();
        for app in &mut options.apps {
            app.script.shared = std::sync::Arc::default();
        }
        let clock = Clock::Test(std::sync::Arc::default());
        let hosts = options.apps.iter_mut().map(|app| &mut app.script).chain([&mut options.script]);
        hosts.for_each(|script| script.clock = clock.clone());
        let unusable = |error: &dyn std::error::Error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            TestError::Unusable(format!("{error}{cause}"))
        };
        let app = app.and_then(|app| options.apps.get(app));
        let own = app.map_or(&options.script, |app| &app.script);
        let host = Host::new(own.clone()).map_err(|error| unusable(&error))?;
        let plan = Plan::unrecorded(options);
        let script_queue = Rc::new(ScriptQueue::new(HostOptions::default().slice, Duration::MAX));
        let service =
            Service::new(&plan, &script_queue, &WorkerCells::new()).map_err(|error| unusable(&error))?;
        let notes = Rc::default();
        let fakes: Rc<FakeBackends> = Rc::default();
        let names = plan.options.backends.iter().map(|backend| backend.name.clone()).collect();
        let fetcher = FakeFetcher { fakes: fakes.clone(), host: host.clone(), names, clock: clock.clone() };
        service.hosts.set_fetcher(fetcher);
        let bench = Rc::new(Bench { service, plan, notes: Rc::clone(&notes), asked: Cell::new(0), clock });
        let ask: TestService = Rc::new(move |asked| {
            let bench = bench.clone();
            Box::pin(async move { bench.answer(asked).await })
        });
        let tests = host.load_tests(file, root, &ask, &fakes).map_err(|error| unusable(&error))?;
        Ok(Self { tests, notes, _scratch: scratch })
    }
}

/// Runs a test to its end. The returned value of the test is ignored.
async fn run(test: &Test) -> Result<(), CallError> {
    let mut call = test.call();
    loop {
        match call.resume() {
            Step::Sliced => {}
            Step::Waiting => poll_fn(|context| call.poll_wait(context)).await,
            Step::Done(result) => return result.map(drop),
            Step::Passed(_) => return Ok(()),
            Step::Streams(_) | Step::Ended(_) => return Ok(()),
        }
    }
}

/// Answers the requests of tests.
struct Bench {
    service: Service,
    plan: Plan,
    notes: Rc<RefCell<Vec<String>>>,
    /// Number of requests so far.
    asked: Cell<u128>,
    clock: Clock,
}

impl Bench {
    async fn answer(&self, asked: TestRequest) -> Result<TestReply, String> {
        let what = format!("{} {}", asked.method, asked.target);
        let head =
            head(&asked, &self.plan.options.connection.head).map_err(|text| format!("{what}: {text}"))?;
        let destination = match self.service.find(&head) {
            Ok(found) => found.destination(&head),
            Err(reply) => Destination::Reply(reply),
        };
        let (endpoint, place, routes) = match destination {
            Destination::Reply(reply) => return Ok(test_reply((*reply).into(), None)),
            Destination::Endpoint { endpoint, place, routes } => (endpoint, place, routes),
        };
        self.asked.set(self.asked.get() + 1);
        let request = Request {
            head,
            place,
            remote_addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            id: RequestId::Made(Uuid::from_u128(self.asked.get())),
            time_us: self.clock.wall_us(),
            trace_rule: TraceRule::TakeOrMake,
            body: asked.content.unwrap_or_default().into(),
            context: Context::default(),
        };
        let exchange = Exchange {
            endpoint,
            request: Rc::new(request),
            routes,
            begun: Instant::now(),
            peer: None,
            trusted_header: None,
            scheme: ConnectionScheme::Http,
            permit: None,
            upload: None,
        };
        let (rehearsed, stream) = exchange.rehearse().await?;
        let mut notes = self.notes.borrow_mut();
        notes.extend(rehearsed.error.iter().map(|error| format!("{what}: script failed: {error}")));
        notes.extend(rehearsed.rejects.iter().map(|reason| format!("{what}: record rejected: {reason}")));
        Ok(test_reply(rehearsed, stream))
    }
}

fn test_reply(rehearsed: Rehearsed, stream: Option<String>) -> TestReply {
    let Rehearsed { reply, records, emitted, rejects, error } = rehearsed;
    TestReply {
        status: reply.status.as_u16(),
        fields: reply.all_fields(),
        content: reply.content,
        stream,
        records,
        emitted,
        rejects,
        error,
    }
}
