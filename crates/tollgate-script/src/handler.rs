//! Answers for a loaded script: which function takes a request, and what its calls may reach.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use mlua::{Function, Table, Value};
use tollgate_http::{Method, Methods};

use crate::arguments::kind;
use crate::call::Call;
use crate::error::shown;
use crate::host::Vm;
use crate::interned::Interned;
use crate::nearest::hint;
use crate::reach::{Reach, Role};
use crate::record::RecordFields;
use crate::reply::Replied;
use crate::request::Request;

/// A loaded script. A VM that takes the place of another takes over its handlers; calls stay with the one that they began in.
#[derive(Clone)]
pub struct Handler(pub(crate) Rc<Slot>);

/// Where a script is found, whatever VM it is in now.
pub(crate) struct Slot {
    /// None: it cannot be loaded again.
    pub(crate) origin: Option<Origin>,
    pub(crate) script: RefCell<Rc<Script>>,
}

/// What a script is loaded from.
pub(crate) struct Origin {
    pub(crate) file: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) fields: RecordFields,
}

pub(crate) struct Script {
    pub(crate) vm: Rc<Vm>,
    pub(crate) shape: Shape,
    pub(crate) columns: Interned,
    pub(crate) whole: bool,
    pub(crate) reach: Rc<Reach>,
    pub(crate) role: Role,
}

pub(crate) enum Shape {
    Any(Function),
    ByMethod(Vec<(Method, Function)>),
}

impl Handler {
    /// Returns the methods that the script answers: `None` is every one. GET brings HEAD with it.
    pub fn methods(&self) -> Option<Methods> {
        let script = self.0.script.borrow();
        let Shape::ByMethod(functions) = &script.shape else { return None };
        let mut methods = Methods::default();
        for (method, _) in functions {
            methods.insert(*method);
            if *method == Method::Get {
                methods.insert(Method::Head);
            }
        }
        Some(methods)
    }

    /// Has it play another role. Only of a handler that was not called yet.
    #[must_use]
    pub fn playing(self, role: Role) -> Self {
        if let Some(script) = Rc::get_mut(&mut self.0.script.borrow_mut()) {
            script.role = role;
        }
        self
    }

    /// Whether it has a function for a method.
    pub fn takes(&self, method: Method) -> bool {
        self.0.script.borrow().function(method).is_some()
    }

    /// Lets its calls reach what they may. Only of a handler that was not called yet.
    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        if let Some(script) = Rc::get_mut(&mut self.0.script.borrow_mut()) {
            script.reach = Rc::new(reach);
        }
        self
    }

    fn script(&self) -> Rc<Script> {
        Rc::clone(&self.0.script.borrow())
    }

    /// Begins a call; nothing runs before [`Call::resume`].
    pub fn call(&self, request: Rc<Request>) -> Call {
        Call::new(self.script(), request, None)
    }

    /// Begins a call that is told a reply.
    pub fn call_after(&self, request: Rc<Request>, replied: Replied) -> Call {
        Call::new(self.script(), request, Some(Box::new(replied)))
    }
}

impl Script {
    /// Returns the function for a method. HEAD without a function of its own is GET.
    pub(crate) fn function(&self, method: Method) -> Option<&Function> {
        let functions = match &self.shape {
            Shape::Any(function) => return Some(function),
            Shape::ByMethod(functions) => functions,
        };
        let of = |method| functions.iter().find(|(known, _)| *known == method).map(|(_, function)| function);
        of(method).or_else(|| if method == Method::Head { of(Method::Get) } else { None })
    }
}

impl Shape {
    pub(crate) fn of(value: &Value) -> Result<Self, String> {
        match value {
            Value::Function(function) => Ok(Self::Any(function.clone())),
            Value::Table(table) => Self::of_table(table).map(Self::ByMethod),
            Value::Nil => {
                Err("returned nothing: return a function, or a table of functions by method".to_owned())
            }
            other => {
                let found = kind(other);
                Err(format!("returned a {found}: allowed are a function, a table of functions by method"))
            }
        }
    }

    fn of_table(table: &Table) -> Result<Vec<(Method, Function)>, String> {
        let pairs = table.pairs::<Value, Value>();
        let pairs: Vec<_> = pairs.collect::<mlua::Result<_>>().map_err(|error| error.to_string())?;
        if pairs.is_empty() {
            return Err("returned a table without a method: name at least one, as in GET".to_owned());
        }
        pairs.iter().map(|(key, value)| method_function(key, value)).collect()
    }
}

fn method_function(key: &Value, value: &Value) -> Result<(Method, Function), String> {
    let Value::String(name) = key else {
        return Err(format!("returned a table with a key of type {}: allowed are methods", kind(key)));
    };
    let name = name.as_bytes();
    let Some(method) = Method::from_bytes(&name) else {
        let name = shown(&name);
        let known = Method::ALL.map(Method::as_str);
        let hint = hint(&name, known);
        return Err(format!(
            "returned a table with a key \"{name}\"{hint}: allowed are {}",
            known.join(", ")
        ));
    };
    match value {
        Value::Function(function) => Ok((method, function.clone())),
        other => Err(format!("returned a table with {method} = a {}: allowed is a function", kind(other))),
    }
}
