//! Loads scripts into a VM. A file is compiled and run once, under the budgets of a call.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use mlua::{Lua, Value};

use crate::error::{CallError, LoadError, placed};
use crate::interned::Interned;
use crate::require::Loader;
use crate::script::{Script, ScriptSource, Shape};
use crate::vm::Vm;

impl Vm {
    pub(crate) fn load(self: &Rc<Self>, source: &ScriptSource) -> Result<Script, LoadError> {
        let ScriptSource { file, root, fields, role, reach } = source;
        let value = self.evaluate(file, root)?;
        let shape = Shape::of(&value).map_err(|text| LoadError::Shape { file: file.clone(), text })?;
        let columns = Interned::new(&self.lua, fields.names.iter().map(String::as_str))
            .map_err(|error| load_error(file, Charged::Call(self.call_error(&error))))?;
        self.check_loaded(file)?;
        let (vm, reach, role) = (Rc::clone(self), Rc::clone(reach), *role);
        Ok(Script { vm, shape, columns, whole: fields.whole, reach, role })
    }

    /// Compiles a file, runs it once, and returns its value.
    pub(crate) fn evaluate(&self, file: &Path, root: &Path) -> Result<Value, LoadError> {
        let loader = Loader::new(root, &self.modules)?;
        let source = loader.read(file)?;
        let path = source.path.clone();
        let returned = self.charged(|lua| loader.run(lua, &path, &loader.compile(lua, source)?));
        returned.map_err(|error| load_error(file, error))
    }

    /// Runs `f` under the budgets of a call, without suspending it.
    fn charged<R>(&self, f: impl FnOnce(&Lua) -> mlua::Result<R>) -> Result<R, Charged> {
        self.budget.enter(Duration::ZERO, None);
        // `set_memory_limit` fails only for a VM that mlua did not create.
        let _ = self.lua.set_memory_limit(self.lua.used_memory() + self.parts.options.memory_bytes_max);
        let result = f(&self.lua);
        let _ = self.lua.set_memory_limit(0);
        if let Some(traceback) = self.budget.leave().over {
            return Err(Charged::Call(self.cpu_error(traceback)));
        }
        result.map_err(|error| match syntax_of(&error) {
            Some(text) => Charged::Syntax(text.to_owned()),
            None => Charged::Call(self.call_error(&error)),
        })
    }

    /// Refuses scripts that keep more than half of `vm_bytes_max` after loading. A new VM with these scripts
    /// would soon be replaced again.
    fn check_loaded(&self, file: &Path) -> Result<(), LoadError> {
        let limit_bytes = self.parts.options.vm_bytes_max / 2;
        if self.lua.used_memory() <= limit_bytes {
            return Ok(());
        }
        let collected = self.lua.gc_collect().and_then(|()| self.lua.gc_collect());
        let bytes = self.lua.used_memory();
        if collected.is_ok() && bytes <= limit_bytes {
            return Ok(());
        }
        Err(LoadError::Total { file: file.to_path_buf(), bytes, limit_bytes })
    }
}

enum Charged {
    Syntax(String),
    Call(CallError),
}

fn load_error(file: &Path, error: Charged) -> LoadError {
    let file = file.to_path_buf();
    match error {
        Charged::Syntax(message) => {
            let (line, text) = placed(&message);
            LoadError::Syntax { file, line, text: text.to_owned() }
        }
        Charged::Call(error) => {
            let line = match &error {
                CallError::Script { message, .. } => placed(message).0,
                _ => 0,
            };
            LoadError::Run { file, line, error }
        }
    }
}

/// Returns the text of a syntax error in the file itself.
///
/// A syntax error in a required file has a traceback that names this file. An error with such a traceback is
/// not returned.
fn syntax_of(error: &mlua::Error) -> Option<&str> {
    match error {
        mlua::Error::SyntaxError { message, .. } => Some(message),
        mlua::Error::CallbackError { traceback, cause } if !traceback.contains(".luau:") => syntax_of(cause),
        _ => None,
    }
}
