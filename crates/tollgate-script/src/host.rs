//! Answers for the VM of one worker thread: setting it up, closing it, and loading scripts into it.
//!
//! A host is not `Send`: each worker makes its own, and loads the same files. Calls of one host interleave by slices,
//! but only one runs at a time. What happens when a VM keeps too much is for [`crate::renewal`].

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Once;
use std::time::Duration;

use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use crate::active::ActiveCell;
use crate::api::{self, EmitParts, Outs, req};
use crate::budget::Budget;
use crate::collector::ExtraCollection;
use crate::emitted::{EmitStream, Streams};
use crate::error::{CallError, HostError, LoadError, placed};
use crate::fetch::{FakeBackends, Fetcher, FetcherCell};
use crate::handler::{Handler, Origin, Script, Shape, Slot};
use crate::interned::Interned;
use crate::json::Scratch;
use crate::keeper::Keeper;
use crate::marks::Marks;
use crate::options::HostOptions;
use crate::reach::{Reach, Role};
use crate::record::RecordFields;
use crate::renewal::{Fill, Pace};
use crate::reply::PARTS;
use crate::require::{Loader, Modules, SourceFile};
use crate::sys::coroutine::Coroutine;
use crate::sys::stack::Kept;
use crate::testing::{self, Ask, Test};
use crate::ticker;
use crate::waits::Waits;

/// A Luau VM with the API of Tollgate, closed to everything else, and the handlers that were loaded into it.
#[derive(Clone)]
pub struct Host(pub(crate) Rc<Hosted>);

/// What a host has beside the VM of this moment, so that another can take its place.
pub(crate) struct Hosted {
    pub(crate) vm: RefCell<Rc<Vm>>,
    pub(crate) handlers: RefCell<Vec<Weak<Slot>>>,
    pub(crate) streams: RefCell<Vec<EmitStream>>,
    pub(crate) pace: Pace,
}

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
    pub(crate) modules: Rc<Modules>,
    /// Coroutines whose calls ended well, for the next ones.
    pub(crate) idle: RefCell<Vec<Coroutine>>,
    pub(crate) fetcher: Rc<FetcherCell>,
    pub(crate) keeper: RefCell<Option<Rc<Keeper>>>,
    pub(crate) fill: Cell<Fill>,
    pub(crate) extra_collection: ExtraCollection,
}

impl Host {
    /// Makes a VM for the calling thread, and the process's ticker with the first one.
    ///
    /// # Errors
    /// `Ticker` if the operating system gives no thread.
    pub fn new(options: HostOptions) -> Result<Self, HostError> {
        ticker::start().map_err(HostError::Ticker)?;
        let vm = Vm::new(options, Rc::default(), Rc::default());
        let vm = vm.map_err(|error| HostError::Setup(error.to_string()))?;
        Ok(Self(Rc::new(Hosted {
            vm: RefCell::new(Rc::new(vm)),
            handlers: RefCell::default(),
            streams: RefCell::default(),
            pace: Pace::default(),
        })))
    }

    /// The VM of this moment.
    pub(crate) fn vm(&self) -> Rc<Vm> {
        Rc::clone(&self.0.vm.borrow())
    }

    /// Tells which streams scripts may emit records to; once.
    ///
    /// # Errors
    /// `Setup`: out of memory, or they are known already.
    pub fn with_streams(self, streams: &[EmitStream]) -> Result<Self, HostError> {
        self.vm().set_streams(streams)?;
        self.0.streams.replace(streams.to_vec());
        Ok(self)
    }

    /// Has scripts ask backends by `fetcher`; without one they know none.
    pub fn set_fetcher(&self, fetcher: Rc<dyn Fetcher>) {
        self.vm().fetcher.replace(Some(fetcher));
    }

    /// Tells `keeper` when the VM holds too much, and leaves it one that is out of use, to be closed bit by bit.
    pub fn set_keeper(&self, keeper: &Rc<Keeper>) {
        self.vm().keeper.replace(Some(Rc::clone(keeper)));
    }

    /// Compiles a file and runs it once; it must return a function, or a table of functions by method.
    ///
    /// `require` of the file stays inside `root`. What it requires is loaded once per host; a changed file needs a
    /// new host.
    ///
    /// # Errors
    /// Each names the file; `Syntax` and `Run` also the line. A retry makes sense after the file changed.
    pub fn load(&self, file: &Path, root: &Path, fields: &RecordFields) -> Result<Handler, LoadError> {
        let script = self.vm().load(file, root, fields, Rc::default(), Role::default())?;
        let origin = Origin { file: file.to_path_buf(), root: root.to_path_buf(), fields: fields.clone() };
        let slot = Rc::new(Slot { origin: Some(origin), script: RefCell::new(Rc::new(script)) });
        let mut handlers = self.0.handlers.borrow_mut();
        handlers.retain(|handler| handler.strong_count() > 0);
        handlers.push(Rc::downgrade(&slot));
        Ok(Handler(slot))
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
        self.vm().evaluate(file, root)
    }

    /// Makes a handler of a function, for every method. It stays with the VM of this moment.
    pub(crate) fn handler_of(&self, function: Function) -> Handler {
        let script = Script {
            vm: self.vm(),
            shape: Shape::Any(function),
            columns: Interned::default(),
            whole: false,
            reach: Rc::default(),
            role: Role::Handler,
        };
        Handler(Rc::new(Slot { origin: None, script: RefCell::new(Rc::new(script)) }))
    }

    /// The path that the app of the scripts is mounted at; empty for the server's own.
    pub fn base(&self) -> String {
        self.vm().options.base.clone()
    }

    /// Collects garbage for at most 200 us, if no call ran since it was called the last time. The server calls it at each
    /// tick.
    pub fn collect_while_idle(&self) {
        let vm = self.vm();
        vm.extra_collection.while_idle(&vm.lua);
    }

    /// Memory of the VM, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.vm().lua.used_memory()
    }

    /// All files that were read so far, in order; one that was read twice is there twice.
    pub fn sources(&self) -> Vec<SourceFile> {
        self.vm().modules.sources()
    }
}

impl Vm {
    pub(crate) fn new(
        options: HostOptions,
        fetcher: Rc<FetcherCell>,
        modules: Rc<Modules>,
    ) -> mlua::Result<Self> {
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
        options.collector.apply(&lua);
        let budget = Rc::new(Budget::new(options.cpu_budget, options.slice));
        let active = Rc::new(ActiveCell::default());
        let waits = Rc::new(Waits::default());
        let emit = EmitParts { streams: Rc::default(), scratch: Rc::default() };
        let marks = api::install(&lua, &active, &budget, &options, &waits, &emit, &fetcher)?;
        let kept = Rc::new(Kept::new(&lua, &marks.store_integer)?);
        let req_metatable =
            req::metatable(&lua, &active, &marks, &budget, &kept, &waits, options.memory_bytes_max)?;
        let reply_parts = Interned::new(&lua, PARTS)?;
        budget.watch(&lua)?;
        let outs = Outs::new(&lua, &waits, options.reply_bytes_max)?;
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
            keeper: RefCell::default(),
            fill: Cell::new(Fill::Within),
            extra_collection: ExtraCollection::default(),
        })
    }

    pub(crate) fn set_streams(&self, streams: &[EmitStream]) -> Result<(), HostError> {
        let set = self.streams.set(&self.lua, streams);
        set.map_err(|error| HostError::Setup(error.to_string()))
    }

    /// Makes a handler of a file.
    pub(crate) fn load(
        self: &Rc<Self>,
        file: &Path,
        root: &Path,
        fields: &RecordFields,
        reach: Rc<Reach>,
        role: Role,
    ) -> Result<Script, LoadError> {
        let value = self.evaluate(file, root)?;
        let shape = Shape::of(&value).map_err(|text| LoadError::Shape { file: file.to_path_buf(), text })?;
        let columns = Interned::new(&self.lua, fields.names.iter().map(String::as_str))
            .map_err(|error| load_error(file, Charged::Call(self.call_error(&error))))?;
        self.check_loaded(file)?;
        Ok(Script { vm: Rc::clone(self), shape, columns, whole: fields.whole, reach, role })
    }

    /// Compiles a file and runs it once; returns what it returned.
    fn evaluate(&self, file: &Path, root: &Path) -> Result<Value, LoadError> {
        let loader = Loader::new(root, &self.modules)?;
        let source = loader.read(file)?;
        let path = source.path.clone();
        let returned = self.charged(|lua| loader.run(lua, &path, &loader.compile(lua, source)?));
        returned.map_err(|error| load_error(file, error))
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
        if matches!(error, CallError::Memory { .. }) {
            self.sweep();
        }
        error
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
        // The first lets `table.move` walk a sparse table and not its range. The second freezes the metatable of vectors
        // with the others. By the third, an allocation pays for its bytes: without it, a text of 8 MB costs one step of
        // the collector, as a small table does.
        for flag in ["LuauTableMoveTimeoutFix", "LuauSandboxFreezesVectorMetatable", "LuauBackedgeHeapCheck"]
        {
            if Lua::set_fflag(flag, true).is_err() {
                tracing::warn!(flag, "this luau does not know the flag");
            }
        }
    });
}
