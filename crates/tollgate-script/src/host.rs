//! The host of one worker thread: its VM of this moment, and the scripts that were loaded into it.
//!
//! A host is not `Send`: each worker makes its own, and loads the same files. Calls of one host interleave by
//! slices, but only one runs at a time. [`crate::renewal`] replaces a VM that keeps too much.

use std::cell::RefCell;
use std::path::Path;
use std::rc::{Rc, Weak};

use mlua::{Function, Value};

use crate::emitted::EmitStream;
use crate::error::{HostError, LoadError};
use crate::fetch::Fetcher;
use crate::interned::Interned;
use crate::keeper::Keeper;
use crate::loaded_script::{LoadedScript, ScriptSlot};
use crate::options::HostOptions;
use crate::pace::Pace;
use crate::reach::Role;
use crate::record::RecordFields;
use crate::require::{Modules, SourceFile};
use crate::script::{Script, ScriptSource, Shape};
use crate::ticker;
use crate::vm::{Vm, VmParts};

/// A Luau VM with the API of Tollgate, closed to everything else, and the scripts that were loaded into it.
#[derive(Clone)]
pub struct Host(pub(crate) Rc<Hosted>);

/// The VM of this moment, and what the host keeps when another VM takes its place.
pub(crate) struct Hosted {
    pub(crate) parts: Rc<VmParts>,
    pub(crate) vm: RefCell<Rc<Vm>>,
    pub(crate) scripts: RefCell<Vec<Weak<ScriptSlot>>>,
    pub(crate) pace: Pace,
}

impl Host {
    /// Makes a VM for the calling thread, and the process's ticker with the first one.
    ///
    /// # Errors
    /// `Ticker` if the operating system gives no thread. `Setup`: out of memory.
    pub fn new(options: HostOptions) -> Result<Self, HostError> {
        Self::with_streams(options, Vec::new())
    }

    /// Makes a host whose scripts may emit records to `streams`.
    ///
    /// # Errors
    /// Those of [`Host::new`].
    pub fn with_streams(options: HostOptions, streams: Vec<EmitStream>) -> Result<Self, HostError> {
        ticker::start().map_err(HostError::Ticker)?;
        let parts = Rc::new(VmParts { options, streams, fetcher: Rc::default(), keeper: RefCell::default() });
        let vm = RefCell::new(Vm::new(&parts, Modules::default())?);
        Ok(Self(Rc::new(Hosted { parts, vm, scripts: RefCell::default(), pace: Pace::default() })))
    }

    /// The VM of this moment.
    pub(crate) fn vm(&self) -> Rc<Vm> {
        Rc::clone(&self.0.vm.borrow())
    }

    /// Has scripts ask backends by `fetcher`; without one they know none.
    pub fn set_fetcher(&self, fetcher: Rc<dyn Fetcher>) {
        self.0.parts.fetcher.replace(Some(fetcher));
    }

    /// Tells `keeper` when the VM holds too much, and leaves it one that is out of use, to be closed bit by
    /// bit.
    pub fn set_keeper(&self, keeper: &Rc<Keeper>) {
        self.0.parts.keeper.replace(Some(Rc::clone(keeper)));
    }

    /// Loads the file of a handler that reaches nothing outside of the VM, as [`Host::load_source`] does.
    ///
    /// # Errors
    /// Those of [`Host::load_source`].
    pub fn load(&self, file: &Path, root: &Path, fields: &RecordFields) -> Result<LoadedScript, LoadError> {
        self.load_source(ScriptSource {
            file: file.to_path_buf(),
            root: root.to_path_buf(),
            fields: fields.clone(),
            role: Role::default(),
            reach: Rc::default(),
        })
    }

    /// Compiles a file and runs it once; it must return a function, or a table of functions by method.
    ///
    /// `require` of the file stays inside the root. What it requires is loaded once per host; a changed file
    /// needs a new host.
    ///
    /// # Errors
    /// Each names the file; `Syntax` and `Run` also the line. A retry makes sense after the file changed.
    pub fn load_source(&self, source: ScriptSource) -> Result<LoadedScript, LoadError> {
        let script = RefCell::new(Rc::new(self.vm().load(&source)?));
        let slot = Rc::new(ScriptSlot { source: Some(source), script });
        let mut scripts = self.0.scripts.borrow_mut();
        scripts.retain(|script| script.strong_count() > 0);
        scripts.push(Rc::downgrade(&slot));
        Ok(LoadedScript(slot))
    }

    /// Compiles a file and runs it once; returns what it returned.
    pub(crate) fn evaluate(&self, file: &Path, root: &Path) -> Result<Value, LoadError> {
        self.vm().evaluate(file, root)
    }

    /// Makes a script of a function, for every method. It stays with the VM of this moment.
    pub(crate) fn script_of(&self, function: Function) -> LoadedScript {
        let script = Script {
            vm: self.vm(),
            shape: Shape::Any(function),
            columns: Interned::default(),
            whole: false,
            reach: Rc::default(),
            role: Role::Handler,
        };
        LoadedScript(Rc::new(ScriptSlot { source: None, script: RefCell::new(Rc::new(script)) }))
    }

    /// The path that the app of the scripts is mounted at; empty for the server's own.
    pub fn base(&self) -> String {
        self.0.parts.options.base.clone()
    }

    /// Collects garbage for at most 200 us, if no call ran since it was called the last time. The server
    /// calls it at each tick.
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
