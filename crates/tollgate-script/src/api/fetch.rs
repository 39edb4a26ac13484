//! `tollgate.fetch` and `tollgate.fetch_all`: requests to backends, which the call waits for.
//!
//! A reply is a table. If there is no reply, the table has the fields `error`, a word, and `message`. A
//! mistake in the call itself raises an error, for example an unknown backend or option.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use mlua::{Function, Lua, MultiValue, Table, Value};
use tollgate_http::{Method, is_authority, is_field_name, is_field_value, is_framing_field, is_single_field};

use super::url;
use crate::active::ActiveCell;
use crate::api::req::fold_metatable;
use crate::arguments::{bytes_of, options, text, unfit};
use crate::budget::Budget;
use crate::error::shown;
use crate::fetch::{FetchError, FetchRequest, Fetched, FetcherCell, Fetching};
use crate::json;
use crate::json::{Encoder, Scratch};
use crate::marks::Marks;
use crate::memory::{check_memory, string_within, watched};
use crate::nearest::hint;
use crate::sys::{operation, raw};
use crate::waits::{ReturnValues, Waits};

/// Maximum number of requests in one `fetch_all`.
const AT_ONCE_MAX: usize = 64;
const TIMEOUT_S_MAX: f64 = 86_400.0;
const NAMES: [&str; 8] = ["method", "path", "query", "headers", "body", "json", "timeout", "backend"];

/// State that both functions need while they run.
struct FetchTools {
    marks: Rc<Marks>,
    budget: Rc<Budget>,
    active: Rc<ActiveCell>,
    fetcher: Rc<FetcherCell>,
    bytes_max: usize,
    /// Metatable of every reply, with the method `json`.
    reply_metatable: Table,
    headers_metatable: Table,
}

/// State of a VM from which the functions are created.
pub(crate) struct FetchParts<'a> {
    pub(crate) marks: &'a Rc<Marks>,
    pub(crate) budget: &'a Rc<Budget>,
    pub(crate) active: &'a Rc<ActiveCell>,
    pub(crate) waits: &'a Rc<Waits>,
    pub(crate) fetcher: &'a Rc<FetcherCell>,
    pub(crate) bytes_max: usize,
}

/// Adds `fetch` and `fetch_all` to the table `tollgate`.
pub(super) fn install(lua: &Lua, tollgate: &Table, parts: &FetchParts<'_>) -> mlua::Result<()> {
    let tools = Rc::new(FetchTools {
        marks: Rc::clone(parts.marks),
        budget: Rc::clone(parts.budget),
        active: Rc::clone(parts.active),
        fetcher: Rc::clone(parts.fetcher),
        bytes_max: parts.bytes_max,
        reply_metatable: reply_metatable(lua, parts)?,
        headers_metatable: fold_metatable(lua)?,
    });
    let (own, waits) = (Rc::clone(&tools), Rc::clone(parts.waits));
    let fetch = lua.create_function(move |lua, (backend, given): (Value, Value)| {
        let fetching = own.begin(lua, "tollgate.fetch", Some(&backend), &given)?;
        let own = Rc::clone(&own);
        waits.begin(async move { own.answer_one(fetching.await) });
        Ok(())
    })?;
    tollgate.raw_set("fetch", operation::function(lua, parts.waits, c"tollgate.fetch", &fetch)?)?;
    let (own, waits) = (tools, Rc::clone(parts.waits));
    let fetch_all = lua.create_function(move |lua, given: Value| {
        let Value::Table(list) = &given else {
            return Err(unfit("tollgate.fetch_all", &given, "a list of tables"));
        };
        let count = list.raw_len();
        if count > AT_ONCE_MAX {
            let text = format!("tollgate.fetch_all has {count} requests, limit {AT_ONCE_MAX} requests");
            return Err(mlua::Error::runtime(text));
        }
        let one = |index| own.begin(lua, "tollgate.fetch_all", None, &list.raw_get::<Value>(index)?);
        let all = (1..=count).map(one).collect::<mlua::Result<Vec<_>>>()?;
        let own = Rc::clone(&own);
        waits.begin(async move { own.answer_all(together(all).await) });
        Ok(())
    })?;
    tollgate.raw_set("fetch_all", operation::function(lua, parts.waits, c"tollgate.fetch_all", &fetch_all)?)
}

type FetchResult = Result<Fetched, FetchError>;

/// Waits for all requests, which may finish in any order.
async fn together(mut all: Vec<Fetching>) -> Vec<FetchResult> {
    let mut outcomes: Vec<Option<FetchResult>> = all.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_over = true;
        for (fetching, outcome) in all.iter_mut().zip(&mut outcomes) {
            if outcome.is_none() {
                match fetching.as_mut().poll(context) {
                    Poll::Ready(came) => *outcome = Some(came),
                    Poll::Pending => is_over = false,
                }
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

impl FetchTools {
    /// Begins a request. The name of the backend is the first argument or an option.
    fn begin(&self, lua: &Lua, what: &str, backend: Option<&Value>, given: &Value) -> mlua::Result<Fetching> {
        let [method, path, query, headers, body, json, timeout, named] =
            options(&format!("options of {what}"), given, NAMES)?;
        let backend = match (backend, &named) {
            (Some(backend), Value::Nil) => backend,
            (Some(_), _) => {
                let text = format!("{what} takes its backend first: no option \"backend\" is allowed");
                return Err(mlua::Error::runtime(text));
            }
            (None, named) => named,
        };
        let backend = shown(&text(&format!("backend of {what}"), backend)?);
        let fetcher = self.fetcher.borrow().clone();
        let names = fetcher.as_ref().map(|fetcher| fetcher.names()).unwrap_or_default();
        let Some(fetcher) = fetcher.filter(|_| names.contains(&backend)) else {
            let hint = hint(&backend, names.iter().map(String::as_str));
            return Err(mlua::Error::runtime(format!("{what}: unknown backend \"{backend}\"{hint}")));
        };
        let mut fields = self.fields(lua, &headers)?;
        let content = self.content(lua, &body, &json, &mut fields)?;
        let request = FetchRequest {
            method: method_of(&method, content.is_some())?,
            target: self.target(lua, &path, &query)?,
            fields,
            content,
            timeout: timeout_of(&timeout)?,
        };
        Ok(fetcher.fetch(&backend, request))
    }

    fn target(&self, lua: &Lua, path: &Value, query: &Value) -> mlua::Result<String> {
        let mut target = match path {
            Value::Nil => "/".to_owned(),
            path => {
                let path = text("path of a fetch", path)?;
                let path = std::str::from_utf8(&path).ok().filter(|path| path.starts_with('/'));
                path.ok_or_else(|| {
                    mlua::Error::runtime("path of a fetch: allowed is one that begins with \"/\"")
                })?
                .to_owned()
            }
        };
        if !query.is_nil() {
            let query = url::build_query(lua, query, &self.budget)?;
            let query = query.to_string_lossy();
            if !query.is_empty() {
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(&query);
            }
        }
        Ok(target)
    }

    /// Returns the given fields, and the fields that link this request to the current one: request id and
    /// trace.
    fn fields(&self, lua: &Lua, headers: &Value) -> mlua::Result<Vec<(String, Bytes)>> {
        let mut fields = Vec::new();
        match headers {
            Value::Nil => {}
            Value::Table(table) => {
                for pair in table.pairs::<Value, Value>() {
                    let (name, value) = pair?;
                    let name = header_name(&name)?;
                    match value {
                        Value::Table(list) => {
                            for index in 1..=list.raw_len() {
                                push_given(
                                    &mut fields,
                                    &name,
                                    header_value(lua, &name, &list.raw_get(index)?)?,
                                )?;
                            }
                        }
                        value => push_given(&mut fields, &name, header_value(lua, &name, &value)?)?,
                    }
                }
            }
            other => return Err(unfit("headers of a fetch", other, "a table")),
        }
        let active = self.active.borrow();
        if let Some(active) = active.as_ref() {
            let request = &active.request;
            let id = Bytes::copy_from_slice(request.id.text(&mut [0; 36]));
            push_missing(&mut fields, "X-Request-Id", Some(id));
            for (name, value) in request.trace_fields() {
                push_missing(&mut fields, name, Some(value));
            }
        }
        Ok(fields)
    }

    fn content(
        &self,
        lua: &Lua,
        body: &Value,
        json: &Value,
        fields: &mut Vec<(String, Bytes)>,
    ) -> mlua::Result<Option<Bytes>> {
        match (body, json) {
            (Value::Nil, Value::Nil) => Ok(None),
            (body, Value::Nil) => {
                bytes_of("body of a fetch", body, |bytes| Ok(Some(Bytes::copy_from_slice(bytes))))
            }
            (Value::Nil, json) => {
                let mut scratch = Scratch::default();
                let encoder = Encoder::new(&mut scratch, self.bytes_max, &self.marks, &self.budget);
                let encoded = raw::read(lua, json, |value| encoder.encode(value))?;
                let encoded =
                    encoded.map_err(|fault| mlua::Error::runtime(fault.in_words("json of a fetch")))?;
                push_missing(fields, "Content-Type", Some(Bytes::from_static(b"application/json")));
                Ok(Some(Bytes::copy_from_slice(encoded)))
            }
            _ => Err(mlua::Error::runtime("a fetch has both body and json: allowed is one of them")),
        }
    }

    fn answer_one(self: Rc<Self>, outcome: FetchResult) -> ReturnValues {
        Box::new(move |lua| {
            let table = watched(lua, |memory_max| self.reply(lua, outcome, memory_max))?;
            Ok(MultiValue::from_iter([Value::Table(table)]))
        })
    }

    fn answer_all(self: Rc<Self>, outcomes: Vec<FetchResult>) -> ReturnValues {
        Box::new(move |lua| {
            let list = watched(lua, |memory_max| {
                let list = lua.create_table_with_capacity(outcomes.len(), 0)?;
                for outcome in outcomes {
                    list.raw_push(self.reply(lua, outcome, memory_max)?)?;
                }
                Ok::<_, mlua::Error>(list)
            })?;
            Ok(MultiValue::from_iter([Value::Table(list)]))
        })
    }

    fn reply(&self, lua: &Lua, outcome: FetchResult, memory_max: usize) -> mlua::Result<Table> {
        check_memory(lua, 0, memory_max)?;
        let table = lua.create_table()?;
        let headers = lua.create_table()?;
        let mut body = lua.create_string("")?;
        match outcome {
            Err(FetchError { name, text }) => {
                table.raw_set("error", name)?;
                table.raw_set("message", text)?;
            }
            Ok(Fetched { status, fields, content }) => {
                table.raw_set("status", status)?;
                for (name, value) in &fields {
                    // The first value of a repeated field counts, as in `req.headers`.
                    if headers.raw_get::<Value>(name.as_str())?.is_nil() {
                        headers.raw_set(name.as_str(), string_within(lua, value, memory_max)?)?;
                    }
                }
                body = string_within(lua, &content, memory_max)?;
            }
        }
        headers.set_metatable(Some(self.headers_metatable.clone()))?;
        table.raw_set("headers", headers)?;
        table.raw_set("body", body)?;
        table.set_metatable(Some(self.reply_metatable.clone()))?;
        Ok(table)
    }
}

fn reply_metatable(lua: &Lua, parts: &FetchParts<'_>) -> mlua::Result<Table> {
    let (marks, budget) = (Rc::clone(parts.marks), Rc::clone(parts.budget));
    let decode: Function =
        lua.create_function(move |lua, reply: Table| match reply.raw_get::<Value>("body")? {
            Value::String(body) => {
                watched(lua, |memory_max| json::answer(lua, &body.as_bytes(), &marks, &budget, memory_max))
            }
            _ => Ok((Value::Nil, Value::String(lua.create_string("there is no reply")?))),
        })?;
    let methods = lua.create_table()?;
    methods.raw_set("json", decode)?;
    methods.set_readonly(true);
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", methods)?;
    metatable.raw_set("__metatable", "reply")?;
    metatable.set_readonly(true);
    Ok(metatable)
}

fn method_of(method: &Value, has_content: bool) -> mlua::Result<Method> {
    if method.is_nil() {
        return Ok(if has_content { Method::Post } else { Method::Get });
    }
    let name = text("method of a fetch", method)?;
    Method::from_bytes(&name).ok_or_else(|| {
        let (name, known) = (shown(&name), Method::ALL.map(Method::as_str));
        let hint = hint(&name, known);
        mlua::Error::runtime(format!(
            "method of a fetch is \"{name}\"{hint}: allowed are {}",
            known.join(", ")
        ))
    })
}

fn timeout_of(timeout: &Value) -> mlua::Result<Option<Duration>> {
    let seconds = match timeout {
        Value::Nil => return Ok(None),
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        other => return Err(unfit("timeout of a fetch", other, "a number of seconds")),
    };
    if seconds > 0.0 && seconds <= TIMEOUT_S_MAX {
        return Ok(Some(Duration::from_secs_f64(seconds)));
    }
    let text = format!("timeout of a fetch is {seconds}: allowed are seconds above 0, up to {TIMEOUT_S_MAX}");
    Err(mlua::Error::runtime(text))
}

fn header_name(name: &Value) -> mlua::Result<String> {
    let name = shown(&text("name of a header", name)?);
    if !is_field_name(name.as_bytes()) {
        return Err(mlua::Error::runtime(format!(
            "header \"{name}\": allowed is a token (RFC 9110 section 5.6.2)"
        )));
    }
    // The content of a request is sent together with its head, so `Expect` has no use.
    if is_framing_field(&name) || name.eq_ignore_ascii_case("expect") {
        return Err(mlua::Error::runtime(format!("header \"{name}\" is written by the server")));
    }
    Ok(name)
}

fn push_given(fields: &mut Vec<(String, Bytes)>, name: &str, value: Bytes) -> mlua::Result<()> {
    let is_single = is_single_field(name) || name.eq_ignore_ascii_case("host");
    if is_single && fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
        let text = format!("header \"{name}\" is repeated: allowed is once (RFC 9110 section 5.3)");
        return Err(mlua::Error::runtime(text));
    }
    fields.push((name.to_owned(), value));
    Ok(())
}

fn header_value(lua: &Lua, name: &str, value: &Value) -> mlua::Result<Bytes> {
    let value = match lua.coerce_string(value.clone())? {
        Some(value) if name.eq_ignore_ascii_case("host") && !is_authority(&value.as_bytes()) => {
            let value = shown(&value.as_bytes());
            let text = format!(
                "header \"{name}\" is \"{value}\": allowed is a host, and a port (RFC 9110 section 7.2)"
            );
            return Err(mlua::Error::runtime(text));
        }
        Some(value) if matches!(value.as_bytes(), bytes if is_field_value(&bytes)) => value,
        Some(_) => {
            let text = format!("header \"{name}\" has a control character, or a blank at an end");
            return Err(mlua::Error::runtime(text));
        }
        None => {
            return Err(unfit(&format!("header \"{name}\""), value, "a string, a number, a list of them"));
        }
    };
    Ok(Bytes::copy_from_slice(&value.as_bytes()))
}

fn push_missing(fields: &mut Vec<(String, Bytes)>, name: &str, value: Option<Bytes>) {
    if let Some(value) = value.filter(|_| !fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))) {
        fields.push((name.to_owned(), value));
    }
}
