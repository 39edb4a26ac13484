//! A script in one VM: its functions by method, and the access of its calls outside the VM.

use std::path::PathBuf;
use std::rc::Rc;

use mlua::{Function, Table, Value};
use tollgate_http::Method;

use crate::arguments::kind;
use crate::error::shown;
use crate::interned::Interned;
use crate::nearest::hint;
use crate::reach::{Reach, Role};
use crate::record::RecordFields;
use crate::vm::Vm;

/// Source of a script, and the settings that its route has for it.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    /// The file of the script.
    pub file: PathBuf,
    /// The root folder, which `require` in the file cannot leave.
    pub root: PathBuf,
    /// The fields of a record that its route keeps.
    pub fields: RecordFields,
    /// Role of the script in its route.
    pub role: Role,
    /// Access that calls of the script have outside the VM.
    pub reach: Rc<Reach>,
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

impl Script {
    /// Returns the function for a method. The function for GET also serves HEAD, unless the script has a
    /// function for HEAD.
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
            return Err("returned a table without a method: add one, such as GET".to_owned());
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
