//! Test files: tables of named functions that send requests to a service and check its replies.
//!
//! A test is a call like the call of a handler, with the same sandbox and budgets. For each request, the test
//! waits for an operation. The time and the memory of the service therefore do not count against the budgets
//! of the test. The argument `t` of a test is written in Luau: `t.luau`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};
use tollgate_value::TIMESTAMP_LAST_US;
use uuid::Uuid;

use crate::arguments::kind;
use crate::call::Call;
use crate::caller::Caller;
use crate::clock::Clock;
use crate::error::{LoadError, shown};
use crate::host::Host;
use crate::loaded_script::LoadedScript;
use crate::memory::{check_memory, string_within, watched};
use crate::request::Request;
use crate::sys::operation;
use crate::tls::ClientCertificate;
use crate::trace::TraceRule;
use crate::waits::{ReturnValues, Waits};

/// A request of a test.
#[derive(Debug)]
pub struct TestRequest {
    /// The method as given.
    pub method: String,
    /// The request target as given.
    pub target: String,
    /// Names and values as given.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The content. `None` means no content, which differs from empty content.
    pub content: Option<Bytes>,
    /// The certificate of the client, as if it was verified in a handshake.
    pub client_certificate: Option<ClientCertificate>,
    /// The caller that the route gets without a check of credentials.
    pub caller: Option<Caller>,
    /// The signature that the service adds. `None`: none.
    pub signature: Option<TestSignature>,
}

/// The signature of a request of a test.
#[derive(Debug)]
pub enum TestSignature {
    /// A signature by the first secret of the route.
    Own,
    /// A signature by this secret.
    Secret(Vec<u8>),
}

/// The reply to a request of a test, with the records of the request.
#[derive(Debug, Default)]
pub struct TestReply {
    /// Status of the reply.
    pub status: u16,
    /// The fields in their order, with names in lower case.
    pub fields: Vec<(String, Bytes)>,
    /// Content of the reply.
    pub content: Bytes,
    /// Name of the stream for the records.
    pub stream: Option<String>,
    /// The records as JSON.
    pub records: Vec<String>,
    /// Emitted records: the name of the stream, and the record as JSON.
    pub emitted: Vec<(String, String)>,
    /// Reasons of the rejects.
    pub rejects: Vec<String>,
    /// Reason why the script failed.
    pub error: Option<String>,
}

/// The reply, or the reason why the request could not be sent.
pub type TestReplyFuture = Pin<Box<dyn Future<Output = Result<TestReply, String>>>>;

/// The service that handles the requests of tests.
pub type TestService = Rc<dyn Fn(TestRequest) -> TestReplyFuture>;

/// One test of a test file.
pub struct Test {
    /// Key of the test in the table that the test file returns.
    pub name: String,
    /// Line at which the test begins.
    pub line: usize,
    handler: LoadedScript,
    request: Rc<Request>,
}

impl Test {
    /// Creates the call of the test. The test passes unless the call fails.
    pub fn call(&self) -> Call {
        self.handler.call(Rc::clone(&self.request))
    }
}

/// Fake backends of a test, by name. Each fake backend is a function like a handler.
#[derive(Default)]
pub struct FakeBackends(RefCell<BTreeMap<String, Function>>);

impl FakeBackends {
    pub(crate) fn set(&self, name: String, function: Function) {
        self.0.borrow_mut().insert(name, function);
    }

    /// Returns the handler for a backend, in the VM of the test.
    pub fn handler(&self, host: &Host, name: &str) -> Option<LoadedScript> {
        self.0.borrow().get(name).map(|function| host.script_of(function.clone()))
    }
}

impl Host {
    /// Compiles a test file and runs it once. The file must return a table of functions by name.
    ///
    /// `service` handles the requests of the tests. `fakes` gets the fake backends that the tests define.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load).
    pub fn load_tests(
        &self,
        file: &Path,
        root: &Path,
        service: &TestService,
        fakes: &Rc<FakeBackends>,
    ) -> Result<Vec<Test>, LoadError> {
        load(self, file, root, service, fakes)
    }
}

/// Loads a test file, and lists its tests in the order of their lines.
fn load(
    host: &Host,
    file: &Path,
    root: &Path,
    service: &TestService,
    fakes: &Rc<FakeBackends>,
) -> Result<Vec<Test>, LoadError> {
    let value = host.evaluate(file, root)?;
    let unfit = |text: String| LoadError::Shape { file: file.to_path_buf(), text };
    let Value::Table(table) = &value else {
        return Err(unfit(format!("returned a {}: allowed is a table of functions by name", kind(&value))));
    };
    let broken = |error: mlua::Error| unfit(error.to_string());
    let vm = host.vm();
    let wrap = wrapper(&vm.lua, &vm.waits, &vm.parts.options.clock, (service, fakes)).map_err(broken)?;
    let request = Request::placeholder(Uuid::nil(), TraceRule::TakeOrMake);
    let request = Rc::new(request.ok_or_else(|| unfit("cannot be called".to_owned()))?);
    let mut tests = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (name, function) = match pair.map_err(broken)? {
            (Value::String(name), Value::Function(function)) => (shown(&name.as_bytes()), function),
            (key, value) => {
                let (key, value) = (kind(&key), kind(&value));
                return Err(unfit(format!(
                    "returned a table with a {value} under a {key}: allowed are functions by name"
                )));
            }
        };
        let line = function.info().line_defined.unwrap_or_default();
        let handler = host.script_of(wrap.call(function).map_err(broken)?);
        tests.push(Test { name, line, handler, request: Rc::clone(&request) });
    }
    tests.sort_by(|a, b| (a.line, &a.name).cmp(&(b.line, &b.name)));
    Ok(tests)
}

/// Creates the function that turns a test into a handler.
fn wrapper(
    lua: &Lua,
    waits: &Rc<Waits>,
    clock: &Clock,
    (service, fakes): (&TestService, &Rc<FakeBackends>),
) -> mlua::Result<Function> {
    let (own, service) = (Rc::clone(waits), Rc::clone(service));
    let send = lua.create_function(move |_, given: GivenRequest| {
        let reply = service(asked(given)?);
        own.begin(async move { answer(reply.await) });
        Ok(())
    })?;
    let send = operation::function(lua, waits, c"t:request", &send)?;
    let (set, advance) = clock_functions(lua, clock)?;
    let fakes = Rc::clone(fakes);
    let fake = lua.create_function(move |_, (name, function): (LuaString, Function)| {
        fakes.set(name.to_string_lossy(), function);
        Ok(())
    })?;
    lua.load(T).set_name("=[t]").call((send, fake, set, advance))
}

/// Reads the certificate of a client. A field that the test leaves out is empty.
fn certificate_of(table: &Table) -> mlua::Result<ClientCertificate> {
    let text = |name: &str| Ok::<_, mlua::Error>(table.raw_get::<Option<String>>(name)?.unwrap_or_default());
    Ok(ClientCertificate {
        subject: text("subject")?,
        issuer: text("issuer")?,
        serial: text("serial")?,
        names: table.raw_get::<Option<Vec<String>>>("names")?.unwrap_or_default(),
        fingerprint: text("fingerprint")?,
        not_after_us: table.raw_get::<Option<f64>>("not_after")?.unwrap_or_default() as i64,
    })
}

/// A request as `t.luau` passes it: method, target, names and values of fields, content, the caller, the
/// certificate of the client, and the signature. The caller is an empty list, or its scheme, its name, and
/// its claims as JSON if it has any.
type GivenRequest =
    (LuaString, LuaString, Vec<LuaString>, Option<LuaString>, Vec<LuaString>, Option<Table>, Value);

fn asked(
    (method, target, fields, content, caller, certificate, sign): GivenRequest,
) -> mlua::Result<TestRequest> {
    let pair = |pair: &[LuaString; 2]| (pair[0].as_bytes().to_vec(), pair[1].as_bytes().to_vec());
    let caller = match caller.as_slice() {
        [scheme, name, claims @ ..] => Some(caller_of(scheme, name, claims.first())?),
        _ => None,
    };
    Ok(TestRequest {
        method: method.to_string_lossy(),
        target: target.to_string_lossy(),
        fields: fields.as_chunks::<2>().0.iter().map(pair).collect(),
        content: content.map(|content| Bytes::copy_from_slice(&content.as_bytes())),
        caller,
        client_certificate: certificate.as_ref().map(certificate_of).transpose()?,
        signature: match sign {
            Value::Boolean(true) => Some(TestSignature::Own),
            Value::String(secret) => Some(TestSignature::Secret(secret.as_bytes().to_vec())),
            _ => None,
        },
    })
}

/// Creates the caller of a request. `claims` is a JSON object.
fn caller_of(scheme: &LuaString, name: &LuaString, claims: Option<&LuaString>) -> mlua::Result<Caller> {
    let unfit = |text: &str| mlua::Error::runtime(format!("t:request: {text}"));
    let scheme = ["basic", "bearer", "jwt"].into_iter().find(|known| *scheme == *known);
    let claims = claims.map(|claims| serde_json::from_slice(&claims.as_bytes())).transpose();
    Ok(Caller {
        scheme: scheme.ok_or_else(|| unfit("scheme of auth is unknown: allowed are basic, bearer, jwt"))?,
        name: name.to_string_lossy(),
        claims: claims
            .map_err(|_| unfit("claims of auth are no object: allowed is a table with text keys"))?,
    })
}

/// Creates the two functions that set and advance the clock of a test.
///
/// The first function stops the clock at a time in microseconds since 1970. The second function adds seconds.
/// Each function returns whether it changed the clock.
fn clock_functions(lua: &Lua, clock: &Clock) -> mlua::Result<(Function, Function)> {
    let clock = match clock {
        Clock::Test(clock) => Arc::clone(clock),
        Clock::System => Arc::default(),
    };
    let own = Arc::clone(&clock);
    let set = lua.create_function(move |_, us: f64| {
        let is_time = us.fract() == 0.0 && (0..=TIMESTAMP_LAST_US).contains(&(us as i64));
        if is_time {
            own.set(us as i64);
        }
        Ok(is_time)
    })?;
    let advance = lua.create_function(move |_, seconds: f64| {
        let duration = Duration::try_from_secs_f64(seconds);
        Ok(duration.is_ok_and(|duration| clock.advance(duration, TIMESTAMP_LAST_US)))
    })?;
    Ok((set, advance))
}

fn answer(test_reply: Result<TestReply, String>) -> ReturnValues {
    Box::new(move |lua| {
        let values = match test_reply {
            Ok(test_reply) => {
                [Value::Table(watched(lua, |memory_max| reply(lua, &test_reply, memory_max))?), Value::Nil]
            }
            Err(problem) => [Value::Nil, Value::String(lua.create_string(&problem)?)],
        };
        Ok(MultiValue::from_iter(values))
    })
}

fn reply(lua: &Lua, test_reply: &TestReply, memory_max: usize) -> mlua::Result<Table> {
    check_memory(lua, 0, memory_max)?;
    let reply = lua.create_table()?;
    reply.raw_set("status", test_reply.status)?;
    reply.raw_set("headers", headers(lua, &test_reply.fields)?)?;
    reply.raw_set("body", string_within(lua, &test_reply.content, memory_max)?)?;
    reply.raw_set("stream", test_reply.stream.as_deref())?;
    let records = lua.create_table()?;
    for record in &test_reply.records {
        records.raw_push(string_within(lua, record.as_bytes(), memory_max)?)?;
    }
    reply.raw_set("records", records)?;
    let emitted = lua.create_table()?;
    for (stream, record) in &test_reply.emitted {
        let list = match emitted.raw_get(stream.as_str())? {
            Value::Table(list) => list,
            _ => lua.create_table()?,
        };
        list.raw_push(string_within(lua, record.as_bytes(), memory_max)?)?;
        emitted.raw_set(stream.as_str(), list)?;
    }
    reply.raw_set("emitted", emitted)?;
    reply.raw_set("reject", test_reply.rejects.first().map(String::as_str))?;
    reply.raw_set("error", test_reply.error.as_deref())?;
    Ok(reply)
}

/// Returns the header fields. A repeated field is a list.
fn headers(lua: &Lua, fields: &[(String, Bytes)]) -> mlua::Result<Table> {
    let headers = lua.create_table()?;
    for (name, value) in fields {
        let value = lua.create_string(value)?;
        match headers.raw_get(name.as_str())? {
            Value::Nil => headers.raw_set(name.as_str(), value)?,
            Value::Table(list) => list.raw_push(value)?,
            first => {
                headers.raw_set(name.as_str(), lua.create_sequence_from([first, Value::String(value)])?)?;
            }
        }
    }
    Ok(headers)
}

const T: &str = include_str!("testing/t.luau");
