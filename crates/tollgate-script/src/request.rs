//! Answers for `req`, the first argument of each handler.
//!
//! `req` is an empty read-only table of its own for each call; its metatable, shared by all calls of a host, asks
//! for each field when it is touched. Query, headers and params become tables at the first touch and stay for the call.
//!
//! Invariant: a `req` answers only while its own call runs. One that a script kept answers with an error,
//! not with another client's data.

use std::cell::RefCell;
use std::ffi::c_void;
use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, Lua, LuaString, Table, Value};
use tollgate_http::{Method, RequestHead, query_pairs};

use crate::api::{Marks, json, unlimited, watched};
use crate::budget::Budget;
use crate::error::shown;
use crate::interned::Interned;
use crate::nearest::hint;

/// One complete request as a handler gets it.
#[derive(Debug)]
pub struct Request {
    /// The head as it came.
    pub head: RequestHead,
    /// The path, decoded and normalised.
    pub path: String,
    /// The captures of the route, in its order.
    pub params: Vec<(String, String)>,
    /// What is below the mount.
    pub path_info: String,
    /// The client, as far as the server trusts what it was told.
    pub remote_addr: IpAddr,
    /// The request's id, for logs and records.
    pub id: String,
    /// When the head was complete: microseconds since 1970, UTC. A script sees the same number (exact until 2255).
    pub time_us: i64,
    /// The content.
    pub body: Bytes,
}

/// The request of a call, while that call runs.
pub(crate) struct Active {
    pub(crate) request: Rc<Request>,
    /// The address of its `req`, which the call holds on to.
    req: *const c_void,
    query: Option<Table>,
    headers: Option<Table>,
    params: Option<Table>,
}

impl Active {
    pub(crate) fn new(request: Rc<Request>, req: &Table) -> Self {
        Self { request, req: req.to_pointer(), query: None, headers: None, params: None }
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
) -> mlua::Result<Table> {
    let fields = Fields::new(lua, active, marks, budget)?;
    let active = Rc::clone(active);
    let index = move |lua: &Lua, (req, key): (Table, Value)| {
        unlimited(lua, || with_active(&active, &req, |active| fields.get(lua, active, &key)))
    };
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", lua.create_function(index)?)?;
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

/// What is made once and handed out to each call.
struct Fields {
    names: Interned,
    methods: Vec<(Method, LuaString)>,
    body: Function,
    json: Function,
    all: Function,
    fold: Table,
}

impl Fields {
    fn new(lua: &Lua, active: &Rc<ActiveCell>, marks: &Rc<Marks>, budget: &Rc<Budget>) -> mlua::Result<Self> {
        let methods = Method::ALL.iter().map(|method| Ok((*method, lua.create_string(method.as_str())?)));
        let own = Rc::clone(active);
        let body = move |lua: &Lua, req: Table| {
            watched(lua, |memory_max| with_active(&own, &req, |active| body(lua, active, memory_max)))
        };
        let (own, marks, budget) = (Rc::clone(active), Rc::clone(marks), Rc::clone(budget));
        let json = move |lua: &Lua, req: Table| {
            let body = with_active(&own, &req, |active| Ok(active.request.body.clone()))?;
            watched(lua, |memory_max| json::answer(lua, &body, &marks, &budget, memory_max))
        };
        let own = Rc::clone(active);
        let all = move |lua: &Lua, (req, part, name): (Table, LuaString, LuaString)| {
            unlimited(lua, || with_active(&own, &req, |active| all(lua, &active.request, &part, &name)))
        };
        Ok(Self {
            names: Interned::new(lua, FIELDS)?,
            methods: methods.collect::<mlua::Result<_>>()?,
            body: lua.create_function(body)?,
            json: lua.create_function(json)?,
            all: lua.create_function(all)?,
            fold: fold_metatable(lua)?,
        })
    }

    fn get(&self, lua: &Lua, active: &mut Active, key: &Value) -> mlua::Result<Value> {
        let Value::String(name) = key else {
            return Err(mlua::Error::runtime(format!("req has no field of type {}", key.type_name())));
        };
        let Some(index) = self.names.position(name) else { return Err(unknown_field(name)) };
        let request = &active.request;
        let text = |text: &str| Ok(Value::String(lua.create_string(text)?));
        match FIELDS[index] {
            "method" => Ok(self.method(request.head.method())),
            "path" => text(&request.path),
            "path_info" => text(&request.path_info),
            "id" => text(&request.id),
            "remote_addr" => text(&request.remote_addr.to_string()),
            "time" => Ok(Value::Integer(request.time_us)),
            "query" => once(&mut active.query, || query(lua, request)),
            "headers" => once(&mut active.headers, || headers(lua, request, &self.fold)),
            "params" => once(&mut active.params, || params(lua, request)),
            "body" => Ok(Value::Function(self.body.clone())),
            "json" => Ok(Value::Function(self.json.clone())),
            _ => Ok(Value::Function(self.all.clone())),
        }
    }

    fn method(&self, method: Method) -> Value {
        let known = self.methods.iter().find(|(known, _)| *known == method);
        known.map_or(Value::Nil, |(_, text)| Value::String(text.clone()))
    }
}

#[cold]
fn unknown_field(name: &LuaString) -> mlua::Error {
    let name = shown(&name.as_bytes());
    let hint = hint(&name, FIELDS);
    mlua::Error::runtime(format!("req has no field \"{name}\"{hint}"))
}

fn once(slot: &mut Option<Table>, make: impl FnOnce() -> mlua::Result<Table>) -> mlua::Result<Value> {
    let table = match slot.take() {
        Some(table) => table,
        None => {
            let table = make()?;
            table.set_readonly(true);
            table
        }
    };
    *slot = Some(table.clone());
    Ok(Value::Table(table))
}

fn query(lua: &Lua, request: &Request) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    // From the last to the first, so that the first value of a name stays.
    let pairs: Vec<_> = request.head.query().into_iter().flat_map(query_pairs).collect();
    for (name, value) in pairs.iter().rev() {
        table.raw_set(name.as_ref(), value.as_ref())?;
    }
    Ok(table)
}

fn params(lua: &Lua, request: &Request) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in &request.params {
        table.raw_set(name.as_str(), value.as_str())?;
    }
    Ok(table)
}

/// Makes the table of header fields, with names in lower case; its metatable finds other cases.
fn headers(lua: &Lua, request: &Request, fold: &Table) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let fields: Vec<_> = request.head.fields().collect();
    for (name, value) in fields.iter().rev() {
        table.raw_set(name.to_ascii_lowercase(), lua.create_string(value)?)?;
    }
    table.set_metatable(Some(fold.clone()))?;
    Ok(table)
}

fn fold_metatable(lua: &Lua) -> mlua::Result<Table> {
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

fn body(lua: &Lua, active: &Active, memory_max: usize) -> mlua::Result<LuaString> {
    let body = &active.request.body;
    if lua.used_memory().saturating_add(body.len()) > memory_max {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    lua.create_string(body)
}

/// Lists all values of `name`, in the order they came.
fn all(lua: &Lua, request: &Request, part: &LuaString, name: &LuaString) -> mlua::Result<Table> {
    let (part, name) = (part.as_bytes(), name.as_bytes());
    match &part[..] {
        b"query" => {
            let pairs = request.head.query().into_iter().flat_map(query_pairs);
            let values = pairs.filter(|(key, _)| key.as_bytes() == &name[..]);
            lua.create_sequence_from(values.map(|(_, value)| value.into_owned()))
        }
        b"headers" => {
            let fields = request.head.fields();
            let values = fields.filter(|(key, _)| key.as_bytes().eq_ignore_ascii_case(&name));
            let values =
                values.map(|(_, value)| lua.create_string(value)).collect::<mlua::Result<Vec<_>>>()?;
            lua.create_sequence_from(values)
        }
        unknown => {
            let unknown = shown(unknown);
            let hint = hint(&unknown, ["query", "headers"]);
            Err(mlua::Error::runtime(format!(
                "req:all has no part \"{unknown}\", allowed: \"query\", \"headers\"{hint}"
            )))
        }
    }
}

const FIELDS: [&str; 12] = [
    "method",
    "path",
    "path_info",
    "params",
    "query",
    "headers",
    "remote_addr",
    "id",
    "time",
    "body",
    "json",
    "all",
];
