//! `req`, the first argument of each handler.
//!
//! `req` is an empty read-only table, and each call gets a new table. All calls of a `Host` share its
//! metatable, which looks up each field when a script reads it. Query, headers, params and cookies become
//! tables at the first access. These tables are then fields of `req` itself until the slice ends. [`form`]
//! reads forms, and [`crate::precondition`] evaluates conditions.
//!
//! Invariant: a `req` works only while its own call runs. If a script keeps a `req` and uses it in a later
//! call, it gets an error, and never the data of another client.

mod accepts;
mod auth;
mod elements;
mod form;
mod parts;

use std::ffi::c_void;
use std::rc::Rc;

use bytes::Bytes;
use mlua::{Function, Lua, LuaString, Table, Value, Variadic};
use tollgate_http::{RequestHead, cookie_pairs, query_pairs};
use tollgate_validate::Schema;
use tollgate_xml::Doctype;

use crate::active::{ActiveCell, with_active};
use crate::arguments::kind;
use crate::body::Body;
use crate::budget::Budget;
use crate::error::shown;
use crate::interned::Interned;
use crate::marks::Marks;
use crate::memory::{check_memory, string_within, unlimited, watched};
use crate::nearest::hint;
use crate::options::HostOptions;
use crate::precondition::precondition;
use crate::request::Request;
use crate::route_choice::RouteChoice;
use crate::sys::stack::{self, Fields, KeptFields, Stack};
use crate::text::utf8;
use crate::tls::ClientCertificate;
use crate::waits::Waits;
use crate::{json, xml};

use form::FormReader;

/// Creates the metatable that all `req` share.
pub(crate) fn metatable(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    kept: &Rc<KeptFields>,
    waits: &Rc<Waits>,
    options: &HostOptions,
) -> mlua::Result<Table> {
    let memory_bytes_max = options.memory_bytes_max;
    let (names, own, kept) = (Interned::new(lua, FIELDS)?, Rc::clone(active), Rc::clone(kept));
    let fields = RequestFields { names, active: own, kept };
    let own = Rc::clone(active);
    let (own_marks, own_budget) = (Rc::clone(marks), Rc::clone(budget));
    let refuse = lua.create_function(move |lua, (req, key): (Table, Value)| {
        rare(lua, &own, &req, &key, (&own_marks, &own_budget))
    })?;
    let [body, json, all, form, precondition, xml] = functions(lua, active, marks, budget, options.doctype)?;
    let parts = parts::install(lua, active, waits, memory_bytes_max)?;
    let accepts = accepts::install(lua, active)?;
    let elements = elements::install(lua, active, waits, budget, options)?;
    let functions = [body, json, all, form, precondition, parts, accepts, xml, elements];
    let index = stack::index(lua, Rc::new(fields), &refuse, &functions, &fold_metatable(lua)?)?;
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", index)?;
    metatable.raw_set("__metatable", "request")?;
    metatable.raw_set("__type", "request")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

/// The fields of `req`.
struct RequestFields {
    names: Interned,
    active: Rc<ActiveCell>,
    kept: Rc<KeptFields>,
}

impl Fields for RequestFields {
    fn push(&self, table: *const c_void, key: &[u8], stack: &Stack) -> bool {
        let active = self.active.borrow();
        let Some(active) = active.as_ref().filter(|active| active.req == table) else { return false };
        let Some(index) = self.names.position(key) else { return false };
        let request = &active.request;
        match FIELDS[index] {
            "method" => stack.text(request.head.method_name().as_bytes()),
            "path" => stack.text(request.path().as_bytes()),
            "target" => stack.text(request.head.raw_target().as_bytes()),
            "path_info" => stack.text(request.path_info().as_bytes()),
            "id" => stack.text(request.id.text(&mut [0; 36])),
            "remote_addr" => match request.remote_addr {
                Some(address) => stack.text(address.to_string().as_bytes()),
                None => stack.nil(),
            },
            // A double represents this time exactly until 2255.
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
            "xml_each" => stack.function(XML_EACH),
            _ => stack.function(ALL),
        }
        true
    }
}

/// Returns the table for the field `ctx`, in which scripts store values, the caller for the field `auth`, the
/// certificate of the client, or the choice of the route. Any other field is unknown, and an error.
#[cold]
fn rare(
    lua: &Lua,
    active: &ActiveCell,
    req: &Table,
    key: &Value,
    (marks, budget): (&Marks, &Budget),
) -> mlua::Result<Value> {
    let request = with_active(active, req, |active| {
        let Value::String(name) = key else {
            return Err(mlua::Error::runtime(format!("req has no field of type {}", kind(key))));
        };
        if RARE.iter().any(|known| *name == *known) {
            return Ok(Rc::clone(&active.request));
        }
        let name = shown(&name.as_bytes());
        let hint = hint(&name, FIELDS.into_iter().chain(RARE));
        Err(mlua::Error::runtime(format!("req has no field \"{name}\"{hint}")))
    })?;
    match key {
        Value::String(name) if *name == AUTH => auth::auth(lua, &request, marks, budget),
        Value::String(name) if *name == CLIENT_CERTIFICATE => {
            let table =
                request.client_certificate().map(|found| certificate_table(lua, found)).transpose()?;
            Ok(table.map_or(Value::Nil, Value::Table))
        }
        Value::String(name) if *name == XML_ROUTE => {
            let choice = request.choice.borrow();
            let table = choice.as_ref().map(|choice| choice_table(lua, choice)).transpose()?;
            Ok(table.map_or(Value::Nil, Value::Table))
        }
        _ => request.context.table(lua).map(Value::Table),
    }
}

fn choice_table(lua: &Lua, choice: &RouteChoice) -> mlua::Result<Table> {
    unlimited(lua, || {
        let values = lua.create_table()?;
        choice.found().try_for_each(|(path, value)| values.raw_set(path, value))?;
        let table = lua.create_table()?;
        table.raw_set("rule", choice.rule)?;
        table.raw_set("values", values)?;
        Ok(table)
    })
}

fn certificate_table(lua: &Lua, certificate: &ClientCertificate) -> mlua::Result<Table> {
    unlimited(lua, || {
        let table = lua.create_table()?;
        table.raw_set("subject", certificate.subject.as_str())?;
        table.raw_set("issuer", certificate.issuer.as_str())?;
        table.raw_set("serial", certificate.serial.as_str())?;
        table.raw_set("fingerprint", certificate.fingerprint.as_str())?;
        table.raw_set("names", lua.create_sequence_from(certificate.names.iter().map(String::as_str))?)?;
        table.raw_set("not_after", certificate.not_after_us as f64)?;
        Ok(table)
    })
}

/// Creates the methods of `req` for [`BODY`], [`JSON`], [`ALL`], [`FORM`], [`PRECONDITION`] and [`XML`].
fn functions(
    lua: &Lua,
    active: &Rc<ActiveCell>,
    marks: &Rc<Marks>,
    budget: &Rc<Budget>,
    doctype: Doctype,
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
    let xml = move |lua: &Lua, (req, options): (Table, Option<Table>)| {
        let body = with_active(&own, &req, |active| Ok(active.request.body.clone()))?;
        let schema = unlimited(lua, || schema_of_options(options.as_ref()))?;
        watched(lua, |memory_max| {
            let content = content(lua, &body, memory_max)?;
            if let Some(schema) = &schema
                && let Some(fault) = xml::fault(schema, &content, &own_budget)?
            {
                let reason = Value::String(lua.create_string(fault.to_string())?);
                return Ok((Value::Nil, reason, Value::Table(xml::fault_table(lua, &fault)?)));
            }
            let (element, reason) = xml::answer(lua, &content, doctype, &own_budget, memory_max)?;
            Ok((element, reason, Value::Nil))
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

/// Returns the schema in the options of `req:xml`, if they have one.
fn schema_of_options(options: Option<&Table>) -> mlua::Result<Option<Schema>> {
    let Some(options) = options else { return Ok(None) };
    for pair in options.pairs::<Value, Value>() {
        match pair?.0 {
            Value::String(name) if name.as_bytes() == b"schema" => {}
            name => {
                let name = name.to_string()?;
                return Err(mlua::Error::runtime(format!("req:xml has no option {name}: allowed is schema")));
            }
        }
    }
    xml::schema_of(&options.raw_get("schema")?, "schema of req:xml").map(Some)
}

/// Lists the parts of the trace for scripts: the ids as hexadecimal digits, and the fields that pass the
/// trace on.
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

/// Returns the whole content, if the memory of the call allows it.
fn content(lua: &Lua, body: &Body, memory_max: usize) -> mlua::Result<Bytes> {
    if let Body::Memory(bytes) = body {
        return Ok(bytes.clone());
    }
    let bytes_max = memory_max.saturating_sub(lua.used_memory());
    body.read_within(bytes_max).map_err(|error| mlua::Error::runtime(error.to_string()))
}

const CONTEXT: &str = "ctx";
const CLIENT_CERTIFICATE: &str = "client_certificate";
const AUTH: &str = "auth";
const XML_ROUTE: &str = "xml_route";
/// The fields that [`rare`] looks up.
const RARE: [&str; 4] = [CONTEXT, AUTH, CLIENT_CERTIFICATE, XML_ROUTE];
const BODY: u8 = 0;
const JSON: u8 = 1;
const ALL: u8 = 2;
const FORM: u8 = 3;
const PRECONDITION: u8 = 4;
const PARTS: u8 = 5;
const ACCEPTS: u8 = 6;
const XML: u8 = 7;
const XML_EACH: u8 = 8;
const COOKIES_EXPECTED: usize = 4;
const TRACE_FIELDS: usize = 5;

/// Creates the metatable of headers, which finds names regardless of case.
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

/// Lists all values of `name` in the order of the request.
fn all(lua: &Lua, request: &Request, part: &LuaString, name: &LuaString) -> mlua::Result<Table> {
    let (part, name) = (part.as_bytes(), name.as_bytes());
    match &part[..] {
        b"query" => {
            let pairs = request.head.query_bytes().into_iter().flat_map(query_pairs);
            let values = pairs.filter(|(key, _)| key[..] == name[..]);
            texts(lua, values.map(|(_, value)| value))
        }
        b"headers" => {
            let fields = request.head.fields();
            let values = fields.filter(|(key, _)| key.as_bytes().eq_ignore_ascii_case(&name));
            texts(lua, values.map(|(_, value)| value))
        }
        b"cookies" => {
            let values = cookies(&request.head).filter(|(key, _)| utf8(key)[..] == name[..]);
            texts(lua, values.map(|(_, value)| value))
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

/// Creates a list of texts in UTF-8.
fn texts<T: AsRef<[u8]>>(lua: &Lua, values: impl Iterator<Item = T>) -> mlua::Result<Table> {
    let values = values.map(|value| lua.create_string(utf8(value.as_ref())));
    lua.create_sequence_from(values.collect::<mlua::Result<Vec<_>>>()?)
}

const FIELDS: [&str; 21] = [
    "method",
    "target",
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
    "xml_each",
];
