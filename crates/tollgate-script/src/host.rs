//! The `Host` of one worker thread: its current VM, and the scripts loaded into it.
//!
//! A `Host` is not `Send`. Each worker creates its own `Host` and loads the same files. Several calls may run
//! in turns, slice by slice, but only one call runs at a time. [`crate::renewal`] replaces a VM that keeps
//! too much memory.

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

/// A sandboxed Luau VM with the API of Tollgate, and the scripts loaded into it.
#[derive(Clone)]
pub struct Host(pub(crate) Rc<Hosted>);

/// The current VM, and the state that the `Host` keeps when another VM replaces it.
pub(crate) struct Hosted {
    pub(crate) parts: Rc<VmParts>,
    pub(crate) vm: RefCell<Rc<Vm>>,
    pub(crate) scripts: RefCell<Vec<Weak<ScriptSlot>>>,
    pub(crate) pace: Pace,
}

impl Host {
    /// Creates a VM for the calling thread. The first `Host` also starts the ticker of the process.
    ///
    /// # Errors
    /// `Ticker` if the operating system refuses a thread. `Setup` if memory runs out.
    pub fn new(options: HostOptions) -> Result<Self, HostError> {
        Self::with_streams(options, Vec::new())
    }

    /// Creates a `Host` whose scripts may emit records to `streams`.
    ///
    /// # Errors
    /// The errors of [`Host::new`].
    pub fn with_streams(options: HostOptions, streams: Vec<EmitStream>) -> Result<Self, HostError> {
        ticker::start().map_err(HostError::Ticker)?;
        let parts = Rc::new(VmParts { options, streams, fetcher: Rc::default(), keeper: RefCell::default() });
        let vm = RefCell::new(Vm::new(&parts, Modules::default())?);
        Ok(Self(Rc::new(Hosted { parts, vm, scripts: RefCell::default(), pace: Pace::default() })))
    }

    /// Returns the current VM.
    pub(crate) fn vm(&self) -> Rc<Vm> {
        Rc::clone(&self.0.vm.borrow())
    }

    /// Sets the client that scripts use for requests to backends. Without a client, scripts have no backends.
    pub fn set_fetcher(&self, fetcher: Rc<dyn Fetcher>) {
        self.0.parts.fetcher.replace(Some(fetcher));
    }

    /// Sets the keeper. A VM that holds too much memory notifies the keeper. The keeper also closes VMs that
    /// are no longer used, in steps.
    pub fn set_keeper(&self, keeper: &Rc<Keeper>) {
        self.0.parts.keeper.replace(Some(Rc::clone(keeper)));
    }

    /// Loads the file of a handler like [`Host::load_source`]. Calls of the handler get an empty `Reach`: no
    /// upload folder and no database.
    ///
    /// # Errors
    /// The errors of [`Host::load_source`].
    pub fn load(&self, file: &Path, root: &Path, fields: &RecordFields) -> Result<LoadedScript, LoadError> {
        self.load_source(ScriptSource {
            file: file.to_path_buf(),
            root: root.to_path_buf(),
            fields: fields.clone(),
            role: Role::default(),
            reach: Rc::default(),
        })
    }

    /// Compiles a file and runs it once. The file must return a function, or a table of functions by method.
    ///
    /// `require` in the file cannot leave the root. Required files are loaded once for each `Host`. A changed
    /// file takes effect only in a new `Host`.
    ///
    /// # Errors
    /// Each error names the file. `Syntax` and `Run` also name the line. A retry is useful only after the
    /// file changed.
    pub fn load_source(&self, source: ScriptSource) -> Result<LoadedScript, LoadError> {
        let script = RefCell::new(Rc::new(self.vm().load(&source)?));
        let slot = Rc::new(ScriptSlot { source: Some(source), script });
        let mut scripts = self.0.scripts.borrow_mut();
        scripts.retain(|script| script.strong_count() > 0);
        scripts.push(Rc::downgrade(&slot));
        Ok(LoadedScript(slot))
    }

    /// Compiles a file, runs it once, and returns its value.
    pub(crate) fn evaluate(&self, file: &Path, root: &Path) -> Result<Value, LoadError> {
        self.vm().evaluate(file, root)
    }

    /// Creates a script from a function, for every method. This script stays in the current VM.
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

    /// Returns the path at which the app of the scripts is mounted. The path is empty for the server's own
    /// scripts.
    pub fn base(&self) -> String {
        self.0.parts.options.base.clone()
    }

    /// Collects garbage for at most 200 us, if no call ran since the last call of this function. The server
    /// calls this at each tick.
    pub fn collect_while_idle(&self) {
        let vm = self.vm();
        vm.extra_collection.while_idle(&vm.lua);
    }

    /// Returns the memory of the VM in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.vm().lua.used_memory()
    }

    /// Returns all files that were read so far, in order. A file that was read twice is listed twice.
    pub fn sources(&self) -> Vec<SourceFile> {
        self.vm().modules.sources()
    }
}
