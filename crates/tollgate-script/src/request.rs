//! A complete request, which a handler gets as data.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use mlua::{Lua, Table};
use tollgate_http::route::MatchedPath;
use tollgate_http::{HeadReader, Limits, RequestHead};
use uuid::Uuid;

use crate::body::Body;
use crate::caller::Caller;
use crate::id::RequestId;
use crate::memory::unlimited;
use crate::route_choice::RouteChoice;
use crate::tls::{ClientCertificate, TlsSession};
use crate::trace::{Trace, TraceRule};

/// A complete request, which a handler gets.
#[derive(Debug)]
pub struct Request {
    /// The head as sent.
    pub head: RequestHead,
    /// The path, with the parts that the route matched.
    pub place: MatchedPath,
    /// The address of the client, from sources that the server trusts. `None` for a Unix socket.
    pub remote_addr: Option<IpAddr>,
    /// The TLS session of the connection. `None` without TLS.
    pub tls: Option<Rc<TlsSession>>,
    /// The id of the request, for logs and records.
    pub id: RequestId,
    /// Time when the head was complete, in microseconds since 1970, UTC. A script gets the same number as a
    /// double, which is exact until 2255.
    pub time_us: i64,
    /// The caller whose credentials are valid. `None` if the route asks for no credentials.
    pub caller: Option<Rc<Caller>>,
    /// Source of the trace.
    pub trace_rule: TraceRule,
    /// Whether the span of the request is exported, if its trace begins here.
    pub is_sampled: bool,
    /// The content, after decoding of its content coding.
    pub body: Body,
    /// What the rules of the route have found. `None` for a route without rules.
    pub choice: RefCell<Option<Rc<RouteChoice>>>,
    /// Values that the scripts of one request share.
    pub context: Context,
}

/// The tables `req.ctx` and `req.auth` of a request. Each table is created when a script first uses it.
#[derive(Default)]
pub struct Context {
    table: RefCell<Option<Table>>,
    caller: RefCell<Option<Table>>,
}

impl Context {
    pub(crate) fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        kept(&self.table, || unlimited(lua, || lua.create_table()))
    }

    /// Returns the table of the caller. `make` creates it at the first call.
    pub(crate) fn caller_table(&self, make: impl FnOnce() -> mlua::Result<Table>) -> mlua::Result<Table> {
        kept(&self.caller, make)
    }

    fn copied(&self) -> Self {
        Self { table: self.table.clone(), caller: self.caller.clone() }
    }
}

fn kept(place: &RefCell<Option<Table>>, make: impl FnOnce() -> mlua::Result<Table>) -> mlua::Result<Table> {
    if let Some(table) = &*place.borrow() {
        return Ok(table.clone());
    }
    let table = make()?;
    Ok(place.borrow_mut().insert(table).clone())
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

impl Request {
    /// Creates the request of a call that no client caused. The called function cannot read it.
    pub(crate) fn placeholder(id: Uuid, trace_rule: TraceRule) -> Option<Self> {
        let mut text = BytesMut::from("GET / HTTP/1.1\r\nHost: none\r\n\r\n");
        Some(Self {
            head: HeadReader::default().read(&mut text, &Limits::default()).ok().flatten()?,
            place: MatchedPath::default(),
            remote_addr: None,
            tls: None,
            id: RequestId::Made(id),
            time_us: 0,
            caller: None,
            trace_rule,
            is_sampled: false,
            body: Bytes::new().into(),
            choice: RefCell::default(),
            context: Context::default(),
        })
    }

    /// Returns the same request with the path that another route matched.
    pub fn at(self: Rc<Self>, place: MatchedPath) -> Rc<Self> {
        let own = Rc::try_unwrap(self).unwrap_or_else(|shared| Self {
            head: shared.head.clone(),
            place: MatchedPath::default(),
            remote_addr: shared.remote_addr,
            tls: shared.tls.clone(),
            id: shared.id.clone(),
            time_us: shared.time_us,
            caller: shared.caller.clone(),
            trace_rule: shared.trace_rule,
            is_sampled: shared.is_sampled,
            body: shared.body.clone(),
            choice: RefCell::default(),
            context: shared.context.copied(),
        });
        own.choice.take();
        Rc::new(Self { place, ..own })
    }

    /// Returns the verified certificate of the client.
    pub fn client_certificate(&self) -> Option<&ClientCertificate> {
        self.tls.as_ref()?.client.as_ref()
    }

    /// Returns the path, decoded and normalised.
    pub fn path(&self) -> &str {
        self.place.path(&self.head)
    }

    /// Returns the part of the path that `*` matched, with the slash before it.
    pub fn path_info(&self) -> &str {
        self.place.path_info(&self.head)
    }

    /// Lists the captures of the route, in the order of its pattern.
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.place.params(&self.head)
    }
}

impl Request {
    /// Returns the trace of the request, according to its rule.
    pub fn trace(&self) -> Option<Trace> {
        let parent = self.trace_rule.parent(&self.head);
        let has_trace = parent.is_some() || self.trace_rule.makes();
        has_trace.then(|| Trace::of(parent, self.id.uuid(), self.time_us, self.is_sampled))
    }

    /// Returns the fields that pass the trace to a backend.
    ///
    /// These are `traceparent` and, if the trace came with the request, the received `tracestate` (W3C
    /// Trace Context, section 3.3).
    pub fn trace_fields(&self) -> Vec<(&'static str, Bytes)> {
        let mut fields = Vec::new();
        self.each_trace_field(|name, value| fields.push((name, Bytes::copy_from_slice(value))));
        fields
    }

    /// Passes each of the [`trace_fields`](Self::trace_fields) to `take`.
    pub fn each_trace_field(&self, mut take: impl FnMut(&'static str, &[u8])) {
        let Some(trace) = self.trace() else { return };
        take("traceparent", &trace.traceparent());
        if trace.parent.is_some() {
            let states = self.head.raw_fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"tracestate"));
            let states: Vec<_> = states.map(|(_, value)| value).filter(|value| !value.is_empty()).collect();
            if !states.is_empty() {
                take("tracestate", &states.join(&b","[..]));
            }
        }
    }

    /// Returns the id of the trace, for a log line.
    pub fn trace_text(&self) -> Option<String> {
        self.trace().map(|trace| format!("{:032x}", trace.id))
    }
}
