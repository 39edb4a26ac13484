//! Tests of an app. Each test sends requests to a new service of the configuration, without a socket and
//! without a log.

mod fakes;
mod head;
mod isolation;
mod sample;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_http::{RequestError, RequestHead, UriScheme};
use tollgate_script::{
    CallError, Caller, ClientCertificate, Clock, FakeBackends, Host, HostOptions, RequestId, Test, TestReply,
    TestRequest, TestService, TestSignature, TlsSession,
};
use uuid::Uuid;

use fakes::FakeFetcher;
use head::head;
pub use isolation::TestError;
use isolation::{exchange, isolated, runtime, unusable};
pub use sample::{SampleRecord, SampleReject, SampleReply, SampleRequest, sample};

use crate::admit::Destination;
use crate::auth::Access;
use crate::clock::Moment;
use crate::handler::{Endpoint, RecordOrigin, Rehearsed};
use crate::observe::WorkerCells;
use crate::options::{ServerOptions, VerifySpec};
use crate::overload::ScriptQueue;
use crate::reply::Reply;
use crate::service::{Plan, Service};

/// The scheme of requests of tests.
const SCHEME: UriScheme = UriScheme::Http;

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
    let runtime = runtime()?;
    let names: Vec<_> =
        Stage::new(options, app, file, root)?.tests.into_iter().map(|test| test.name).collect();
    for name in names.iter().filter(|name| name.contains(filter)) {
        let Stage { tests, notes, _scratch } = Stage::new(options, app, file, root)?;
        let Some(test) = tests.into_iter().find(|test| test.name == *name) else { continue };
        // The returned value of a test is ignored.
        let result = runtime.block_on(test.call().finish());
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
        let clock = Clock::Test(Arc::default());
        let (options, scratch) = isolated(options, &clock)?;
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
        let cells = WorkerCells::new();
        let bench =
            Rc::new(Bench { service, plan, notes: Rc::clone(&notes), asked: Cell::new(0), clock, cells });
        let ask: TestService = Rc::new(move |asked| {
            let bench = bench.clone();
            Box::pin(async move { bench.answer(asked).await })
        });
        let tests = host.load_tests(file, root, &ask, &fakes).map_err(|error| unusable(&error))?;
        Ok(Self { tests, notes, _scratch: scratch })
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
    /// Counters of refusals, which the test does not read.
    cells: WorkerCells,
}

impl Bench {
    /// Returns the head with the fields of the signature, if the test wants one.
    fn signed(
        &self,
        asked: &TestRequest,
        unsigned: RequestHead,
        verify: &VerifySpec,
        content: &[u8],
    ) -> Result<RequestHead, String> {
        let secret = match &asked.signature {
            None => return Ok(unsigned),
            Some(TestSignature::Own) => None,
            Some(TestSignature::Secret(secret)) => Some(secret.as_slice()),
        };
        let now = Duration::from_micros(u64::try_from(self.clock.wall_us()).unwrap_or_default());
        let added = verify.sign(&unsigned, SCHEME, content, now, secret)?;
        let added = added.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes()));
        let fields = asked.fields.iter().cloned().chain(added).collect();
        let (method, target) = (asked.method.clone(), asked.target.clone());
        let content = asked.content.clone();
        let signed = TestRequest {
            method,
            target,
            fields,
            content,
            caller: None,
            client_certificate: None,
            signature: None,
        };
        head(&signed, &self.plan.options.connection.head)
    }

    /// Verifies the signature of a request, or returns the refusal.
    fn verified(
        &self,
        endpoint: &Endpoint,
        verify: &Arc<VerifySpec>,
        head: &RequestHead,
        content: &[u8],
    ) -> Result<(), Box<Reply>> {
        let now_s = self.clock.wall_us().div_euclid(1_000_000);
        let refused = |fault| Box::new(endpoint.refuse_signature(&fault, head));
        let mut verification = verify.begin(head, SCHEME, now_s).map_err(refused)?;
        let too_long = |error: RequestError| Box::new(Reply::text(error.status(), error.client_text()));
        verification.update(content).map_err(too_long)?;
        verification.finish().map_err(refused)
    }

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
            Destination::Refused(refused) => return Ok(test_reply(refused.reply.into(), None)),
            Destination::Endpoint { endpoint, place, routes } => (endpoint, place, routes),
        };
        let tls = asked.client_certificate.clone().map(session_with);
        self.asked.set(self.asked.get() + 1);
        let id = RequestId::Made(Uuid::from_u128(self.asked.get()));
        let admitted = self.admitted(&endpoint, head, &asked, tls.as_deref()).await;
        let (head, admitted) = admitted.map_err(|text| format!("{what}: {text}"))?;
        let (caller, refusal) = match admitted {
            Ok(caller) => (caller, None),
            Err(refusal) if endpoint.records_refusal(&refusal) => (None, Some(refusal)),
            Err(refusal) => return Ok(test_reply((*refusal).into(), None)),
        };
        let content = asked.content.filter(|_| refusal.is_none()).unwrap_or_default();
        let exchange = exchange(endpoint, routes, head, place, (id, &self.clock), (tls, caller), content);
        let (rehearsed, stream) = match refusal {
            None => exchange.rehearse().await?,
            Some(refusal) => exchange.rehearse_refusal(*refusal).await?,
        };
        let mut notes = self.notes.borrow_mut();
        notes.extend(rehearsed.error.iter().map(|error| format!("{what}: script failed: {error}")));
        let rejects = rehearsed.rejects().into_iter();
        notes.extend(rejects.map(|reason| format!("{what}: record rejected: {reason}")));
        Ok(test_reply(rehearsed, stream))
    }
}

/// Validates the content of a request whose content type its route accepts.
fn valid(endpoint: &Endpoint, head: &RequestHead, content: bytes::Bytes) -> Result<(), Box<Reply>> {
    match endpoint.refusal(head) {
        // The rehearsal refuses it.
        Some(_) => Ok(()),
        None => endpoint.validate_whole(head, &content.into()),
    }
}

/// Returns a TLS session with a client that has this certificate.
fn session_with(client: ClientCertificate) -> Rc<TlsSession> {
    Rc::new(TlsSession { version: "1.3".into(), client: Some(client), ..TlsSession::default() })
}

impl Bench {
    /// Checks certificate, credentials and signature of a request, as far as its route asks for them. Returns
    /// the head, with the signature of the test. The inner error is the refusal.
    async fn admitted(
        &self,
        endpoint: &Endpoint,
        head: RequestHead,
        asked: &TestRequest,
        tls: Option<&TlsSession>,
    ) -> Result<(RequestHead, Result<Option<Rc<Caller>>, Box<Reply>>), String> {
        if let Err(refusal) = endpoint.check_certificate(&head, tls) {
            return Ok((head, Err(refusal)));
        }
        let caller = self.caller(endpoint, &head, asked.caller.clone()).await?;
        let content = asked.content.clone().unwrap_or_default();
        match (&endpoint.verify, &caller) {
            (None, _) if asked.signature.is_some() => {
                Err(format!("the route {} has no verify", endpoint.path))
            }
            (Some(verify), Ok(_)) => {
                let head = self.signed(asked, head, verify, &content)?;
                let verified = self.verified(endpoint, verify, &head, &content);
                let valid = verified.and_then(|()| valid(endpoint, &head, content));
                Ok((head, valid.and(caller)))
            }
            (None, Ok(_)) => {
                let valid = valid(endpoint, &head, content);
                Ok((head, valid.and(caller)))
            }
            (_, Err(_)) => Ok((head, caller)),
        }
    }

    /// Returns the caller that the test names, or checks the credentials of the request. The inner error is
    /// the reply to a request without access.
    async fn caller(
        &self,
        endpoint: &Endpoint,
        head: &RequestHead,
        given: Option<Caller>,
    ) -> Result<Result<Option<Rc<Caller>>, Box<Reply>>, String> {
        if let Some(caller) = given {
            return endpoint.admit_given(caller, head, &self.cells).map(|given| given.map(Some));
        }
        let client = || Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let now = Moment { at: Instant::now(), wall_us: self.clock.wall_us() };
        let checked = match endpoint.authenticate(head, client, now, &self.cells) {
            Ok(Access::Checking(mut checking)) => {
                endpoint.finish_check(&mut checking, head, &self.cells).await
            }
            checked => checked,
        };
        Ok(checked.map(|access| access.caller().cloned()))
    }
}

fn test_reply(rehearsed: Rehearsed, stream: Option<String>) -> TestReply {
    let own = rehearsed.rows(|origin| matches!(origin, RecordOrigin::Route(_)));
    let emitted = rehearsed.rows(|origin| origin == RecordOrigin::Emitted);
    let rejects = rehearsed.rejects();
    let Rehearsed { reply, error, .. } = rehearsed;
    TestReply {
        status: reply.status.as_u16(),
        fields: reply.all_fields(),
        content: reply.content,
        stream,
        records: own.into_iter().map(|(_, record)| record).collect(),
        emitted,
        rejects,
        error,
    }
}
