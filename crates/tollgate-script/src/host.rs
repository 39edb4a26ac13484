//! Answers for the VM of one worker thread: setting it up, closing it, and loading scripts into it.
//!
//! A host is not `Send`: each worker makes its own, and loads the same files. Calls of one host interleave by slices,
//! but only one runs at a time.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::time::Duration;

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use tollgate_http::{Method, Methods};

use crate::api::json::Scratch;
use crate::api::{self, Database, EmitParts, EmitStream, Marks, Outs, Streams};
use crate::budget::Budget;
use crate::call::Call;
use crate::clock::Clock;
use crate::error::{CallError, HostError, LoadError, placed, shown};
use crate::fetch::{FakeBackends, Fetcher, FetcherCell};
use crate::interned::Interned;
use crate::nearest::hint;
use crate::reply::{PARTS, RecordFields, Replied};
use crate::request::{self, ActiveCell, Request};
use crate::require::{Loader, Modules, SourceFile};
use crate::shared::Shared;
use crate::sys::coroutine::Coroutine;
use crate::sys::stack::Kept;
use crate::testing::{self, Ask, Test};
use crate::ticker;
use crate::uploads::Uploads;
use crate::waits::Waits;

/// The bounds of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The processor time of a call, summed over its slices, and of loading a file. In whole milliseconds.
    pub cpu_budget: Duration,
    /// How long a call runs before it gives the worker back. In whole milliseconds.
    pub slice: Duration,
    /// How long a call may take from its first wait on, by the monotonic clock.
    pub wall_budget: Duration,
    /// Server-sent events that pause for so long are told to go on by a comment.
    pub heartbeat: Duration,
    /// By how much the memory of the VM may grow in one call; of a streamed reply between two waits.
    pub memory_bytes_max: usize,
    /// The longest content of a reply, and the longest JSON.
    pub reply_bytes_max: usize,
    /// The variables of the environment that scripts may read.
    pub env: Vec<String>,
    /// What scripts share with those of every host that has the same.
    pub shared: Arc<Shared>,
    /// How many bytes the shared values may take.
    pub shared_bytes_max: usize,
    /// Where they have their time from.
    pub clock: Clock,
    /// The path that the app of the scripts is mounted at, decoded and without a slash at its end; empty at the root.
    pub base: String,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            cpu_budget: Duration::from_millis(50),
            slice: Duration::from_millis(2),
            wall_budget: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            memory_bytes_max: 16 << 20,
            reply_bytes_max: 16 << 20,
            env: Vec::new(),
            shared: Arc::default(),
            shared_bytes_max: 16 << 20,
            clock: Clock::System,
            base: String::new(),
        }
    }
}

/// A Luau VM with the API of Tollgate, closed to everything else.
#[derive(Clone)]
pub struct Host(Rc<Vm>);

pub(crate) struct Vm {
    pub(crate) lua: Lua,
    pub(crate) options: HostOptions,
    pub(crate) budget: Rc<Budget>,
    pub(crate) active: Rc<ActiveCell>,
    pub(crate) waits: Rc<Waits>,
    pub(crate) outs: Outs,
    /// Where the `req` of the call that runs now keeps fields.
    pub(crate) kept: Rc<Kept>,
    pub(crate) marks: Rc<Marks>,
    pub(crate) req_metatable: Table,
    pub(crate) reply_parts: Interned,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
    streams: Rc<Streams>,
    modules: Rc<Modules>,
    /// Coroutines whose calls ended well, for the next ones.
    pub(crate) idle: RefCell<Vec<Coroutine>>,
    fetcher: Rc<FetcherCell>,
}

impl Host {
    /// Makes a VM for the calling thread, and the process's ticker with the first one.
    ///
    /// # Errors
    /// `Ticker` if the operating system gives no thread.
    pub fn new(options: HostOptions) -> Result<Self, HostError> {
        ticker::start().map_err(HostError::Ticker)?;
        Vm::new(options).map(|vm| Self(Rc::new(vm))).map_err(|error| HostError::Setup(error.to_string()))
    }

    /// Tells which streams scripts may emit records to; once.
    ///
    /// # Errors
    /// `Setup`: out of memory, or they are known already.
    pub fn with_streams(self, streams: &[EmitStream]) -> Result<Self, HostError> {
        let set = self.0.streams.set(&self.0.lua, streams);
        set.map_err(|error| HostError::Setup(error.to_string()))?;
        Ok(self)
    }

    /// Has scripts ask backends by `fetcher`; without one they know none.
    pub fn set_fetcher(&self, fetcher: Rc<dyn Fetcher>) {
        self.0.fetcher.replace(Some(fetcher));
    }

    /// Compiles a file and runs it once; it must return a function, or a table of functions by method.
    ///
    /// `require` of the file stays inside `root`. What it requires is loaded once per host; a changed file needs a
    /// new host.
    ///
    /// # Errors
    /// Each names the file; `Syntax` and `Run` also the line. A retry makes sense after the file changed.
    pub fn load(&self, file: &Path, root: &Path, fields: &RecordFields) -> Result<Handler, LoadError> {
        let vm = &self.0;
        let value = self.evaluate(file, root)?;
        let shape = Shape::of(&value).map_err(|text| LoadError::Shape { file: file.to_path_buf(), text })?;
        let columns = Interned::new(&vm.lua, fields.names.iter().map(String::as_str))
            .map_err(|error| load_error(file, Charged::Call(vm.call_error(&error))))?;
        Ok(Handler(Rc::new(Script {
            vm: Rc::clone(vm),
            shape,
            columns,
            whole: fields.whole,
            reach: Rc::default(),
            role: Role::Handler,
        })))
    }

    /// Compiles a file of tests and runs it once; it must return a table of functions by name. They ask `ask`.
    /// They may answer for backends: `fakes` gets what they say.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_tests(
        &self,
        file: &Path,
        root: &Path,
        ask: &Ask,
        fakes: &Rc<FakeBackends>,
    ) -> Result<Vec<Test>, LoadError> {
        testing::load(self, file, root, ask, fakes)
    }

    /// Compiles a file and runs it once; returns what it returned.
    pub(crate) fn evaluate(&self, file: &Path, root: &Path) -> Result<Value, LoadError> {
        let vm = &self.0;
        let loader = Loader::new(root, &vm.modules)?;
        let source = loader.read(file)?;
        let path = source.path.clone();
        let returned = vm.charged(|lua| loader.run(lua, &path, &loader.compile(lua, source)?));
        returned.map_err(|error| load_error(file, error))
    }

    /// Makes a handler of a function, for every method.
    pub(crate) fn handler_of(&self, function: Function) -> Handler {
        let (shape, columns) = (Shape::Any(function), Interned::default());
        let reach = Rc::default();
        Handler(Rc::new(Script {
            vm: Rc::clone(&self.0),
            shape,
            columns,
            whole: false,
            reach,
            role: Role::Handler,
        }))
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.0.lua
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.options.clock
    }

    pub(crate) fn waits(&self) -> &Rc<Waits> {
        &self.0.waits
    }

    /// Memory of the VM, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.lua.used_memory()
    }

    /// All files that were read so far, in order; one that was read twice is there twice.
    pub fn sources(&self) -> Vec<SourceFile> {
        self.0.modules.sources()
    }
}

impl Vm {
    fn new(options: HostOptions) -> mlua::Result<Self> {
        set_flags();
        let libraries = StdLib::COROUTINE
            | StdLib::TABLE
            | StdLib::OS
            | StdLib::STRING
            | StdLib::UTF8
            | StdLib::BIT
            | StdLib::BUFFER
            | StdLib::VECTOR
            | StdLib::INTEGER
            | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let budget = Rc::new(Budget::new(options.cpu_budget, options.slice));
        let active = Rc::new(ActiveCell::default());
        let waits = Rc::new(Waits::default());
        let emit = EmitParts { streams: Rc::default(), scratch: Rc::default() };
        let fetcher = Rc::default();
        let marks = api::install(&lua, &active, &budget, &options, &waits, &emit, &fetcher)?;
        let kept = Rc::new(Kept::new(&lua, &marks.store_integer)?);
        let req_metatable =
            request::metatable(&lua, &active, &marks, &budget, &kept, &waits, options.memory_bytes_max)?;
        let reply_parts = Interned::new(&lua, PARTS)?;
        budget.watch(&lua)?;
        let modules = Rc::default();
        let outs = Outs::new(&lua, &waits)?;
        Ok(Self {
            lua,
            options,
            budget,
            active,
            outs,
            waits,
            kept,
            marks,
            req_metatable,
            reply_parts,
            scratch: emit.scratch,
            streams: emit.streams,
            modules,
            idle: RefCell::default(),
            fetcher,
        })
    }

    /// Runs `f` under the budgets of a call, in one go.
    fn charged<R>(&self, f: impl FnOnce(&Lua) -> mlua::Result<R>) -> Result<R, Charged> {
        self.budget.enter(Duration::ZERO, None);
        // A limit is refused only by a VM that mlua did not make.
        let _ = self.lua.set_memory_limit(self.lua.used_memory() + self.options.memory_bytes_max);
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

    pub(crate) fn cpu_error(&self, traceback: String) -> CallError {
        let limit_ms = u64::try_from(self.options.cpu_budget.as_millis()).unwrap_or(u64::MAX);
        CallError::CpuBudget { limit_ms, traceback }
    }

    pub(crate) fn wall_error(&self, traceback: String) -> CallError {
        let limit_ms = u64::try_from(self.options.wall_budget.as_millis()).unwrap_or(u64::MAX);
        CallError::WallBudget { limit_ms, traceback }
    }

    /// Classifies an error; after one of memory the VM is swept, so that the next call starts with room.
    pub(crate) fn call_error(&self, error: &mlua::Error) -> CallError {
        let error = CallError::from_lua(error, self.options.memory_bytes_max);
        if matches!(error, CallError::Memory { .. })
            && let Err(error) = self.lua.gc_collect()
        {
            tracing::warn!(%error, "luau cannot collect garbage");
        }
        error
    }
}

/// A loaded script.
#[derive(Clone)]
pub struct Handler(Rc<Script>);

pub(crate) struct Script {
    pub(crate) vm: Rc<Vm>,
    shape: Shape,
    pub(crate) columns: Interned,
    pub(crate) whole: bool,
    pub(crate) reach: Rc<Reach>,
    pub(crate) role: Role,
}

/// What a script is to its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// It replies.
    #[default]
    Handler,
    /// It runs before what replies, and may reply itself.
    Before,
    /// It is told the reply, and may change header fields of it.
    After,
}

/// What the calls of a script may reach outside of the VM.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Where they save files.
    pub uploads: Option<Uploads>,
    /// The database that replies wait for whatever they emit, by its place, if they do.
    pub awaits: Option<usize>,
    /// The databases that they may read.
    pub databases: Vec<Arc<dyn Database>>,
}

enum Shape {
    Any(Function),
    ByMethod(Vec<(Method, Function)>),
}

impl Handler {
    /// Returns the methods that the script answers: `None` is every one. GET brings HEAD with it.
    pub fn methods(&self) -> Option<Methods> {
        let Shape::ByMethod(functions) = &self.0.shape else { return None };
        let mut methods = Methods::default();
        for (method, _) in functions {
            methods.insert(*method);
            if *method == Method::Get {
                methods.insert(Method::Head);
            }
        }
        Some(methods)
    }

    /// Has it play another role. Only of a handler that nobody holds yet.
    #[must_use]
    pub fn playing(mut self, role: Role) -> Self {
        if let Some(script) = Rc::get_mut(&mut self.0) {
            script.role = role;
        }
        self
    }

    /// Whether it has a function for a method.
    pub fn takes(&self, method: Method) -> bool {
        self.0.function(method).is_some()
    }

    /// Lets its calls reach what they may. Only of a handler that nobody holds yet.
    #[must_use]
    pub fn reaching(mut self, reach: Reach) -> Self {
        if let Some(script) = Rc::get_mut(&mut self.0) {
            script.reach = Rc::new(reach);
        }
        self
    }

    /// Begins a call; nothing runs before [`Call::resume`].
    pub fn call(&self, request: Rc<Request>) -> Call {
        Call::new(Rc::clone(&self.0), request, None)
    }

    /// Begins a call that is told a reply.
    pub fn call_after(&self, request: Rc<Request>, replied: Replied) -> Call {
        Call::new(Rc::clone(&self.0), request, Some(Box::new(replied)))
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
    fn of(value: &Value) -> Result<Self, String> {
        match value {
            Value::Function(function) => Ok(Self::Any(function.clone())),
            Value::Table(table) => Self::of_table(table).map(Self::ByMethod),
            Value::Nil => {
                Err("returned nothing: return a function, or a table of functions by method".to_owned())
            }
            other => {
                let found = other.type_name();
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
        return Err(format!("returned a table with a key of type {}: allowed are methods", key.type_name()));
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
        other => {
            Err(format!("returned a table with {method} = a {}: allowed is a function", other.type_name()))
        }
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

/// Finds a syntax error of the file itself: one of a file that it requires comes with a traceback into this one.
fn syntax_of(error: &mlua::Error) -> Option<&str> {
    match error {
        mlua::Error::SyntaxError { message, .. } => Some(message),
        mlua::Error::CallbackError { traceback, cause } if !traceback.contains(".luau:") => syntax_of(cause),
        _ => None,
    }
}

/// Turns on fixes that this Luau has behind flags, before the first VM of the process.
fn set_flags() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        // `table.move` over a huge range of a sparse table walks the table, not the range; the metatable of vectors
        // closes with the others.
        for flag in ["LuauTableMoveTimeoutFix", "LuauSandboxFreezesVectorMetatable"] {
            if Lua::set_fflag(flag, true).is_err() {
                tracing::warn!(flag, "this luau does not know the flag");
            }
        }
    });
}
