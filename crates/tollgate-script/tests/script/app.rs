//! A folder of scripts with a `Host`, and helpers to call them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;
use tollgate_http::route::MatchedPath;
use tollgate_http::{HeadReader, Limits, RequestHead};
use tollgate_script::{
    Call, CallError, Context, FieldValue, Host, HostOptions, LoadError, LoadedScript, Outcome, RecordFields,
    Request, RequestId, Step, TraceRule,
};
use uuid::Uuid;

pub(crate) struct App {
    folder: TempDir,
    pub(crate) host: Host,
}

impl App {
    pub(crate) fn new() -> Self {
        Self::with(HostOptions::default())
    }

    pub(crate) fn with(options: HostOptions) -> Self {
        Self { folder: TempDir::new().unwrap(), host: Host::new(options).unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str, source: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, source).unwrap();
        path
    }

    pub(crate) fn load(&self, source: &str, fields: &RecordFields) -> Result<LoadedScript, LoadError> {
        self.host.load(&self.file("main.luau", source), self.root(), fields)
    }

    pub(crate) fn handler(&self, source: &str) -> LoadedScript {
        self.load(source, &RecordFields::default()).unwrap()
    }

    /// Loads a chunk that is the body of a handler, and calls it.
    pub(crate) fn run(&self, body: &str) -> Result<Outcome, CallError> {
        finish(self.handler(&handler_of(body)).call(get("/")))
    }

    /// Returns the text of the error that ends the body.
    pub(crate) fn error(&self, body: &str) -> String {
        self.run(body).expect_err(body).to_string()
    }

    /// Returns the content of the reply that the body returns.
    pub(crate) fn text(&self, body: &str) -> String {
        text(&self.run(body).unwrap_or_else(|error| panic!("{body}: {error}")))
    }
}

pub(crate) fn handler_of(body: &str) -> String {
    format!("return function(req)\n{body}\nend")
}

pub(crate) fn fields(names: &[&str]) -> RecordFields {
    RecordFields { names: names.iter().map(|&name| name.to_owned()).collect(), whole: false }
}

pub(crate) fn text(outcome: &Outcome) -> String {
    String::from_utf8(outcome.body.to_vec()).unwrap()
}

pub(crate) fn finish(mut call: Call) -> Result<Outcome, CallError> {
    loop {
        if let Step::Done(result) = call.resume() {
            return result;
        }
    }
}

pub(crate) fn head(text: &str) -> RequestHead {
    let mut bytes = BytesMut::from(text.as_bytes());
    HeadReader::default().read(&mut bytes, &Limits::default()).unwrap().unwrap()
}

pub(crate) fn request(head_text: &str, body: &[u8]) -> Rc<Request> {
    let head = head(head_text);
    Rc::new(Request {
        place: place(),
        remote_addr: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        tls: None,
        id: RequestId::Made(Uuid::from_u128(1)),
        time_us: 1_700_000_000_123_456,
        caller: None,
        trace_rule: TraceRule::TakeOrMake,
        is_sampled: false,
        body: Bytes::copy_from_slice(body).into(),
        context: Context::default(),
        choice: std::cell::RefCell::default(),
        head,
    })
}

/// Returns the path `/42/rest` as the pattern `/{id}/*` matches it.
fn place() -> MatchedPath {
    MatchedPath {
        decoded: Some("/42/a rest".into()),
        names: Some(Rc::from([Box::from("id")])),
        spans: vec![(1, 3)],
        path_info_bytes: 7,
    }
}

pub(crate) fn get(target: &str) -> Rc<Request> {
    request(&format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"), b"")
}

/// Returns the recorded value of the one column `x`.
pub(crate) fn recorded(app: &App, value: &str) -> FieldValue {
    let source = handler_of(&format!("return {{ record = {{ x = {value} }} }}"));
    let handler = app.load(&source, &fields(&["x"])).unwrap();
    finish(handler.call(get("/"))).unwrap().record.values.remove(0)
}
