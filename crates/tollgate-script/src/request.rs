//! Answers for `req`, the first argument of each handler.
//!
//! `req` is an empty read-only table of its own for each call; its metatable, shared by all calls of a host, asks
//! for each field when it is touched. Query, headers and params become tables at the first touch, and then are fields
//! of `req` itself until the slice ends; so do cookies. Forms are in [`form`], conditions in [`mod@precondition`].
//!
//! Invariant: a `req` answers only while its own call runs. One that a script kept answers with an error,
//! not with another client's data.

mod accepts;
mod form;
mod parts;
pub(crate) mod precondition;

use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, Lua, LuaString, Table, Value, Variadic};
use tollgate_http::{RequestHead, cookie_pairs, query_pairs};

use crate::api::{Emissions, Emitted};
use crate::arguments::kind;
use crate::body::Body;
use crate::budget::Budget;
use crate::error::shown;
use crate::handler::Reach;
use crate::id::RequestId;
use crate::interned::Interned;
use crate::marks::Marks;
use crate::memory::{check_memory, string_within, unlimited, watched};
use crate::nearest::hint;
use crate::place::Place;
use crate::sys::stack::{self, Fields, Kept, Stack};
use crate::trace::TraceRule;
use crate::waits::Waits;
use crate::{json, xml};

use form::FormReader;
pub(crate) use parts::Parts;
use precondition::precondition;

/// One complete request as a handler gets it.
#[derive(Debug)]
pub struct Request {
    /// The head as it came.
    pub head: RequestHead,
    /// Where it led.
    pub place: Place,
    /// The client, as far as the server trusts what it was told; none behind a Unix socket.
    pub remote_addr: Option<IpAddr>,
    /// The request's id, for logs and records.
    pub id: RequestId,
    /// When the head was complete: microseconds since 1970, UTC. A script sees the same number (exact until 2255).
    pub time_us: i64,
    /// Where its trace comes from.
    pub trace_rule: TraceRule,
    /// The content, without a content coding.
    pub body: Body,
    /// What the scripts of one request tell each other.
    pub context: Context,
}

/// The table `req.ctx` of a request, once a script asked for it.
#[derive(Default)]
pub struct Context(RefCell<Option<Table>>);

impl Context {
    fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        if let Some(table) = &*self.0.borrow() {
            return Ok(table.clone());
        }
        let table = unlimited(lua, || lua.create_table())?;
        Ok(self.0.borrow_mut().insert(table).clone())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

impl Request {
    /// The same request where it leads to another route.
    pub fn at(self: Rc<Self>, place: Place) -> Rc<Self> {
        let own = Rc::try_unwrap(self).unwrap_or_else(|shared| Self {
            head: shared.head.clone(),
            place: Place::default(),
            remote_addr: shared.remote_addr,
            id: shared.id.clone(),
            time_us: shared.time_us,
            trace_rule: shared.trace_rule,
            body: shared.body.clone(),
            context: Context(RefCell::new(shared.context.0.borrow().clone())),
        });
        Rc::new(Self { place, ..own })
    }

    /// Returns the path, decoded and normalised.
    pub fn path(&self) -> &str {
        self.place.path(&self.head)
    }

    /// Returns what `*` of the route stands for, with the slash before it.
    pub fn path_info(&self) -> &str {
        self.place.path_info(&self.head)
    }

    /// Lists the captures of the route, in its order.
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.place.params(&self.head)
    }
}

/// The request of a call, while that call runs.
pub(crate) struct Active {
    pub(crate) request: Rc<Request>,
    /// The address of its `req`, which the coroutine of the call holds on to.
    pub(crate) req: *const c_void,
    pub(crate) reach: Rc<Reach>,
    /// The form that the call reads part by part.
    pub(crate) parts: Option<Box<Parts>>,
    /// The records that it emitted; none behind the head of its reply.
    pub(crate) emissions: Option<Emissions>,
    /// What is replied if the error that was raised last ends the call: a status, and why.
    pub(crate) refusal: Option<Box<(u16, String)>>,
}

impl Active {
    pub(crate) fn new(request: Rc<Request>, req: *const c_void, reach: &Rc<Reach>) -> Self {
        let emissions = Some(Emissions::default());
        Self { request, req, reach: Rc::clone(reach), parts: None, emissions, refusal: None }
    }
}

impl Active {
    /// The records that were emitted so far.
    pub(crate) fn take_emitted(&mut self) -> Vec<Emitted> {
        self.emissions.take().map(|emissions| emissions.records).unwrap_or_default()
    }
}

/// Where the call that runs now keeps its request.
pub(crate) type ActiveCell = RefCell<Option<Active>>;

/// Makes the metatable that all `req` share.
pub(crate) fn metatable(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    kept: &Rc<Kept>,
    waits: &Rc<Waits>,
    memory_bytes_max: usize,
) -> mlua::Result<Table> {
    let (names, own, kept) = (Interned::new(lua, FIELDS)?, Rc::clone(active), Rc::clone(kept));
    let fields = RequestFields { names, active: own, kept };
    let own = Rc::clone(active);
    let refuse = lua.create_function(move |lua, (req, key): (Table, Value)| refuse(lua, &own, &req, &key))?;
    let [body, json, all, form, precondition, xml] = functions(lua, active, marks, budget)?;
    let parts = parts::install(lua, active, waits, memory_bytes_max)?;
    let accepts = accepts::install(lua, active)?;
    let functions = [body, json, all, form, precondition, parts, accepts, xml];
    let index = stack::index(lua, Rc::new(fields), &refuse, &functions, &fold_metatable(lua)?)?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", index)?;
    metatable.raw_set("__metatable", "request")?;
    metatable.raw_set("__type", "request")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

fn with_active<R>(
    cell: &ActiveCell,
    req: &Table,
    f: impl FnOnce(&mut Active) -> mlua::Result<R>,
) -> mlua::Result<R> {
    match cell.borrow_mut().as_mut() {
        Some(active) if active.req == req.to_pointer() => f(active),
        _ => Err(mlua::Error::runtime(
            "this req belongs to another call: it lives as long as its handler runs",
        )),
    }
}

/// The fields of `req`.
struct RequestFields {
    names: Interned,
    active: Rc<ActiveCell>,
    kept: Rc<Kept>,
}

impl Fields for RequestFields {
    fn push(&self, table: *const c_void, key: &[u8], stack: &Stack) -> bool {
        let active = self.active.borrow();
        let Some(active) = active.as_ref().filter(|active| active.req == table) else { return false };
        let Some(index) = self.names.position(key) else { return false };
        let request = &active.request;
        match FIELDS[index] {
            "method" => stack.text(request.head.method().as_str().as_bytes()),
            "path" => stack.text(request.path().as_bytes()),
            "path_info" => stack.text(request.path_info().as_bytes()),
            "id" => stack.text(request.id.text(&mut [0; 36])),
            "remote_addr" => match request.remote_addr {
                Some(address) => stack.text(address.to_string().as_bytes()),
                None => stack.nil(),
            },
            // Exact until 2255.
            "time" => stack.number(request.time_us as f64),
            "query" => {
                let raw = request.head.query_bytes().unwrap_or_default();
                let expected = raw.iter().filter(|&&byte| byte == b'=').count();
                stack.texts(&self.kept, query_pairs(raw), expected, false);
            }
            "params" => {
                stack.texts(&self.kept, request.params(), request.place.spans.len(), false);
            }
            "headers" => {
                let fields = request.head.fields().map(|(name, value)| (name.to_ascii_lowercase(), value));
                stack.texts(&self.kept, fields, request.head.fields().count(), true);
            }
            "cookies" => {
                stack.texts(&self.kept, cookies(&request.head), COOKIES_EXPECTED, false);
            }
            "trace" => match request.trace() {
                Some(_) => stack.texts(&self.kept, trace_texts(request), TRACE_FIELDS, false),
                None => stack.nil(),
            },
            "body" => stack.function(BODY),
            "json" => stack.function(JSON),
            "form" => stack.function(FORM),
            "precondition" => stack.function(PRECONDITION),
            "parts" => stack.function(PARTS),
            "accepts" => stack.function(ACCEPTS),
            "xml" => stack.function(XML),
            _ => stack.function(ALL),
        }
        true
    }
}

/// Gives the field that a script made, or says why one cannot be had.
#[cold]
fn refuse(lua: &Lua, active: &ActiveCell, req: &Table, key: &Value) -> mlua::Result<Table> {
    with_active(active, req, |active| {
        let Value::String(name) = key else {
            return Err(mlua::Error::runtime(format!("req has no field of type {}", kind(key))));
        };
        if *name == CONTEXT {
            return active.request.context.table(lua);
        }
        let name = shown(&name.as_bytes());
        let hint = hint(&name, FIELDS.into_iter().chain([CONTEXT]));
        Err(mlua::Error::runtime(format!("req has no field \"{name}\"{hint}")))
    })
}

/// Makes the methods of `req`, at [`BODY`], [`JSON`], [`ALL`], [`FORM`] and [`PRECONDITION`], and that at [`XML`].
fn functions(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
) -> mlua::Result<[Function; 6]> {
    let own = Rc::clone(active);
    let body = move |lua: &Lua, req: Table| {
        watched(lua, |memory_max| {
            with_active(&own, &req, |active| {
                let body = content(lua, &active.request.body, memory_max)?;
                string_within(lua, &body, memory_max)
            })
        })
    };
    let (own, marks, own_budget) = (Rc::clone(active), Rc::clone(marks), Rc::clone(budget));
    let json = move |lua: &Lua, req: Table| {
        let body = with_active(&own, &req, |active| Ok(active.request.body.clone()))?;
        watched(lua, |memory_max| {
            json::answer(lua, &content(lua, &body, memory_max)?, &marks, &own_budget, memory_max)
        })
    };
    let (own, own_budget) = (Rc::clone(active), Rc::clone(budget));
    let all = move |lua: &Lua, (req, part, name): (Table, LuaString, LuaString)| {
        watched(lua, |memory_max| {
            check_memory(lua, 0, memory_max)?;
            let request = with_active(&own, &req, |active| Ok(Rc::clone(&active.request)))?;
            if part.as_bytes() == b"form" {
                let body = content(lua, &request.body, memory_max)?;
                let reader = FormReader { lua, budget: &own_budget, memory_max };
                return reader.all(&request.head, &body, &name.as_bytes());
            }
            Ok(Variadic::from_iter([Value::Table(all(lua, &request, &part, &name)?)]))
        })
    };
    let (own, own_budget) = (Rc::clone(active), Rc::clone(budget));
    let form = move |lua: &Lua, req: Table| {
        let request = with_active(&own, &req, |active| Ok(Rc::clone(&active.request)))?;
        watched(lua, |memory_max| {
            let body = content(lua, &request.body, memory_max)?;
            FormReader { lua, budget: &own_budget, memory_max }.firsts(&request.head, &body)
        })
    };
    let own = Rc::clone(active);
    let precondition = move |lua: &Lua, (req, given): (Table, Value)| {
        unlimited(lua, || with_active(&own, &req, |active| precondition(lua, &active.request.head, &given)))
    };
    let (own, own_budget) = (Rc::clone(active), Rc::clone(budget));
    let xml = move |lua: &Lua, req: Table| {
        let body = with_active(&own, &req, |active| Ok(active.request.body.clone()))?;
        watched(lua, |memory_max| {
            xml::answer(lua, &content(lua, &body, memory_max)?, &own_budget, memory_max)
        })
    };
    Ok([
        lua.create_function(body)?,
        lua.create_function(json)?,
        lua.create_function(all)?,
        lua.create_function(form)?,
        lua.create_function(precondition)?,
        lua.create_function(xml)?,
    ])
}

/// Lists what a script sees of the trace: the ids as hexadecimal digits, and the fields that pass it on.
fn trace_texts(request: &Request) -> impl Iterator<Item = (&'static str, Bytes)> {
    let trace = request.trace();
    let ids = trace.into_iter().flat_map(|trace| {
        let parent = trace.parent.map(|parent| ("parent", format!("{parent:016x}")));
        let own = [("id", format!("{:032x}", trace.id)), ("span", format!("{:016x}", trace.span))];
        own.into_iter().chain(parent).map(|(name, text)| (name, Bytes::from(text)))
    });
    ids.chain(request.trace_fields())
}

/// Lists the cookies of all `Cookie` fields.
fn cookies(head: &RequestHead) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    lines.flat_map(|(_, line)| cookie_pairs(line))
}

/// The whole content, if the call may grow by as much.
fn content(lua: &Lua, body: &Body, memory_max: usize) -> mlua::Result<Bytes> {
    if let Body::Memory(bytes) = body {
        return Ok(bytes.clone());
    }
    let bytes_max = memory_max.saturating_sub(lua.used_memory());
    body.read_within(bytes_max).map_err(|error| mlua::Error::runtime(error.to_string()))
}

const CONTEXT: &str = "ctx";
const BODY: u8 = 0;
const JSON: u8 = 1;
const ALL: u8 = 2;
const FORM: u8 = 3;
const PRECONDITION: u8 = 4;
const PARTS: u8 = 5;
const ACCEPTS: u8 = 6;
const XML: u8 = 7;
const COOKIES_EXPECTED: usize = 4;
const TRACE_FIELDS: usize = 5;

/// Makes the metatable of headers: names match without case.
pub(crate) fn fold_metatable(lua: &Lua) -> mlua::Result<Table> {
    let index = |lua: &Lua, (headers, name): (Table, Value)| {
        let Value::String(name) = name else { return Ok(Value::Nil) };
        let name = name.as_bytes();
        if !name.iter().any(u8::is_ascii_uppercase) {
            return Ok(Value::Nil);
        }
        unlimited(lua, || headers.raw_get(lua.create_string(name.to_ascii_lowercase())?))
    };
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", lua.create_function(index)?)?;
    metatable.raw_set("__metatable", "headers")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

/// Lists all values of `name`, in the order they came.
fn all(lua: &Lua, request: &Request, part: &LuaString, name: &LuaString) -> mlua::Result<Table> {
    let (part, name) = (part.as_bytes(), name.as_bytes());
    match &part[..] {
        b"query" => {
            let pairs = request.head.query_bytes().into_iter().flat_map(query_pairs);
            let values = pairs.filter(|(key, _)| key[..] == name[..]);
            let values =
                values.map(|(_, value)| lua.create_string(value)).collect::<mlua::Result<Vec<_>>>()?;
            lua.create_sequence_from(values)
        }
        b"headers" => {
            let fields = request.head.fields();
            let values = fields.filter(|(key, _)| key.as_bytes().eq_ignore_ascii_case(&name));
            let values =
                values.map(|(_, value)| lua.create_string(value)).collect::<mlua::Result<Vec<_>>>()?;
            lua.create_sequence_from(values)
        }
        b"cookies" => {
            let values = cookies(&request.head).filter(|(key, _)| *key == &name[..]);
            let values =
                values.map(|(_, value)| lua.create_string(value)).collect::<mlua::Result<Vec<_>>>()?;
            lua.create_sequence_from(values)
        }
        unknown => {
            let unknown = shown(unknown);
            let hint = hint(&unknown, ["query", "headers", "cookies", "form"]);
            Err(mlua::Error::runtime(format!(
                "req:all has no part \"{unknown}\", allowed: \"query\", \"headers\", \"cookies\", \"form\"{hint}"
            )))
        }
    }
}

const FIELDS: [&str; 19] = [
    "method",
    "path",
    "path_info",
    "params",
    "query",
    "headers",
    "cookies",
    "remote_addr",
    "id",
    "time",
    "trace",
    "body",
    "json",
    "all",
    "form",
    "precondition",
    "parts",
    "accepts",
    "xml",
];
