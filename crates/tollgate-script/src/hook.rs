//! Hooks: files whose functions the server calls itself. No request causes such a call.
//!
//! A call has the sandbox and the budgets of a handler. Its function gets texts, and its returned values are
//! ignored. An error in the function is the failure of the hook.

use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;

use mlua::{Function, LuaString, Table, Value, Variadic};
use uuid::{Builder, Uuid};

use crate::arguments::kind;
use crate::call::{Call, Step};
use crate::error::{CallError, LoadError};
use crate::host::Host;
use crate::nearest::hint;
use crate::reply::Outcome;
use crate::request::Request;
use crate::trace::TraceRule;

/// The functions of a hook.
pub struct Hook {
    host: Host,
    functions: Vec<(&'static str, Function)>,
    /// Makes a handler that calls a function with texts.
    bind: Function,
}

impl Host {
    /// Compiles the file of a hook and runs it once. The file must return a table with exactly the functions
    /// of `names`.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load).
    pub fn load_hook(&self, file: &Path, root: &Path, names: &[&'static str]) -> Result<Hook, LoadError> {
        let value = self.evaluate(file, root)?;
        let unfit = |text: String| LoadError::Shape { file: file.to_path_buf(), text };
        let functions = functions(&value, names).map_err(unfit)?;
        let broken = |error: mlua::Error| unfit(error.to_string());
        let bind = self.vm().lua.load(BIND).set_name("=[hook]").into_function().map_err(broken)?;
        Ok(Hook { host: self.clone(), functions, bind })
    }
}

impl Hook {
    /// Calls a function with texts, and waits until it has returned.
    ///
    /// # Errors
    /// The function raised an error or exceeded a budget. A retry may succeed.
    pub async fn call(&self, name: &str, texts: &[&str]) -> Result<(), CallError> {
        let found = self.functions.iter().find(|(known, _)| *known == name);
        let (_, function) = found.ok_or_else(|| CallError::script(format!("the hook has no {name}")))?;
        let texts: Variadic<&str> = texts.iter().copied().collect();
        let bound = self.bind.call::<Function>((function, texts));
        let bound = bound.map_err(|error| CallError::script(error.to_string()))?;
        let request = Request::placeholder(new_id(), TraceRule::Off);
        let request = request.ok_or_else(|| CallError::script("the hook cannot be called"))?;
        self.host.script_of(bound).call(Rc::new(request)).finish().await.map(drop)
    }
}

impl Call {
    /// Runs a call to its end without other calls in between. `None`: the call passes the request on.
    ///
    /// # Errors
    /// The call failed.
    pub async fn finish(mut self) -> Result<Option<Outcome>, CallError> {
        loop {
            match self.resume() {
                Step::Sliced => {}
                Step::Waiting => poll_fn(|context| self.poll_wait(context)).await,
                Step::Done(result) => return result.map(Some),
                Step::Passed(_) => return Ok(None),
                Step::Streams(outcome) => return Ok(Some(outcome)),
                Step::Ended(ended) => {
                    let no_head = || CallError::Reply("the reply ended before its head".to_owned());
                    return Err(ended.err().unwrap_or_else(no_head));
                }
            }
        }
    }
}

/// Returns an id for log lines and for requests to backends.
fn new_id() -> Uuid {
    let mut bytes = [0; 16];
    // Without random bytes, calls have the same id.
    let _ = getrandom::fill(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid()
}

/// Returns the functions of the table that a hook returned.
fn functions(value: &Value, names: &[&'static str]) -> Result<Vec<(&'static str, Function)>, String> {
    let allowed = names.join(", ");
    let Value::Table(table) = value else {
        return Err(format!("returned a {}: allowed is a table with the functions {allowed}", kind(value)));
    };
    check_names(table, names)?;
    let function = |name: &&'static str| match table.raw_get(*name) {
        Ok(Value::Function(function)) => Ok((*name, function)),
        Ok(Value::Nil) => Err(format!("returned a table without {name}: it needs the functions {allowed}")),
        Ok(other) => Err(format!("returned a table with {name} = a {}: allowed is a function", kind(&other))),
        Err(error) => Err(error.to_string()),
    };
    names.iter().map(function).collect()
}

fn check_names(table: &Table, names: &[&'static str]) -> Result<(), String> {
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|error| error.to_string())?;
        let key = key.as_string().map_or_else(|| kind(&key).to_owned(), LuaString::to_string_lossy);
        if !names.contains(&key.as_str()) {
            let (hint, allowed) = (hint(&key, names.iter().copied()), names.join(", "));
            return Err(format!("returned a table with a key \"{key}\"{hint}: allowed are {allowed}"));
        }
    }
    Ok(())
}

const BIND: &str = "local f = ...
local texts = table.pack(select(2, ...))
return function()
\tf(table.unpack(texts, 1, texts.n))
\treturn 204
end";
