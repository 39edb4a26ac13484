//! The VM of a `Host`: its setup, its errors, and its memory.
//!
//! The memory limit of a call ends a call that grows too much. `vm_bytes_max` limits memory that many calls
//! accumulate. A VM that exceeds this limit notifies its [`Keeper`], and is collected or replaced
//! ([`crate::renewal`]).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Once;
use std::time::Instant;

use mlua::{Lua, LuaOptions, StdLib, Table};

use crate::active::ActiveCell;
use crate::api::{self, EmitParts, OutMetatables, req};
use crate::budget::Budget;
use crate::collector::ExtraCollection;
use crate::emitted::{EmitStream, Streams};
use crate::error::{CallError, HostError};
use crate::fetch::FetcherCell;
use crate::interned::Interned;
use crate::json::Scratch;
use crate::keeper::Keeper;
use crate::marks::Marks;
use crate::options::HostOptions;
use crate::reply::PARTS;
use crate::require::Modules;
use crate::sys::coroutine::Coroutine;
use crate::sys::stack::KeptFields;
use crate::waits::Waits;

/// Configuration of all VMs of a `Host`.
pub(crate) struct VmParts {
    pub(crate) options: HostOptions,
    /// The streams that scripts may emit records to.
    pub(crate) streams: Vec<EmitStream>,
    pub(crate) fetcher: Rc<FetcherCell>,
    pub(crate) keeper: RefCell<Option<Rc<Keeper>>>,
}

/// A Luau VM, and the state that its calls share.
pub(crate) struct Vm {
    pub(crate) lua: Lua,
    pub(crate) parts: Rc<VmParts>,
    pub(crate) budget: Rc<Budget>,
    pub(crate) active: Rc<ActiveCell>,
    pub(crate) waits: Rc<Waits>,
    pub(crate) outs: OutMetatables,
    /// Storage for the fields of the `req` of the running call.
    pub(crate) kept: Rc<KeptFields>,
    pub(crate) marks: Rc<Marks>,
    pub(crate) req_metatable: Table,
    pub(crate) reply_parts: Interned,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
    pub(crate) modules: Rc<Modules>,
    /// Coroutines of successful calls, for the next calls.
    pub(crate) idle: RefCell<Vec<Coroutine>>,
    pub(crate) fill: Cell<Fill>,
    pub(crate) extra_collection: ExtraCollection,
}

/// State of the memory of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    Within,
    /// The VM may hold too much memory or garbage, and has notified the keeper.
    Over,
    /// Another VM replaced the VM at this time.
    Replaced(Instant),
}

impl Vm {
    /// Creates a VM without scripts. `modules` finds and reads the files of scripts.
    ///
    /// # Errors
    /// `Setup`: the VM is out of memory.
    pub(crate) fn new(parts: &Rc<VmParts>, modules: Modules) -> Result<Rc<Self>, HostError> {
        let vm = Self::set_up(Rc::clone(parts), modules);
        vm.map(Rc::new).map_err(|error| HostError::Setup(error.to_string()))
    }

    fn set_up(parts: Rc<VmParts>, modules: Modules) -> mlua::Result<Self> {
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
        let options = &parts.options;
        options.collector.apply(&lua);
        let budget = Rc::new(Budget::new(options.cpu_budget, options.slice));
        let active = Rc::new(ActiveCell::default());
        let waits = Rc::new(Waits::default());
        let streams = Rc::new(Streams::new(&lua, &parts.streams)?);
        let emit = EmitParts { streams, scratch: Rc::default() };
        let modules = Rc::new(modules);
        let marks = api::install(&lua, &active, &budget, options, &waits, (&emit, &parts.fetcher, &modules))?;
        let kept = Rc::new(KeptFields::new(&lua, &marks.store_integer)?);
        let req_metatable = req::metatable(&lua, &active, &marks, &budget, &kept, &waits, options)?;
        let reply_parts = Interned::new(&lua, PARTS)?;
        budget.watch(&lua)?;
        let outs = OutMetatables::new(&lua, &waits, &budget, options.reply_bytes_max)?;
        Ok(Self {
            lua,
            parts,
            budget,
            active,
            outs,
            waits,
            kept,
            marks,
            req_metatable,
            reply_parts,
            scratch: emit.scratch,
            modules,
            idle: RefCell::default(),
            fill: Cell::new(Fill::Within),
            extra_collection: ExtraCollection::default(),
        })
    }

    pub(crate) fn cpu_error(&self, traceback: String) -> CallError {
        let limit_ms = u64::try_from(self.parts.options.cpu_budget.as_millis()).unwrap_or(u64::MAX);
        CallError::CpuBudget { limit_ms, traceback }
    }

    pub(crate) fn wall_error(&self, traceback: String) -> CallError {
        let limit_ms = u64::try_from(self.parts.options.wall_budget.as_millis()).unwrap_or(u64::MAX);
        CallError::WallBudget { limit_ms, traceback }
    }

    /// Classifies an error. After a memory error the garbage is collected, so that the next call has memory.
    pub(crate) fn call_error(&self, error: &mlua::Error) -> CallError {
        let error = CallError::from_lua(error, self.parts.options.memory_bytes_max);
        if matches!(error, CallError::Memory { .. }) {
            self.sweep();
        }
        error
    }

    /// Notifies the keeper if the VM holds more than `vm_bytes_max`.
    pub(crate) fn note_used(&self, bytes: usize) {
        if bytes > self.parts.options.vm_bytes_max {
            self.press();
        }
    }

    /// Notifies the keeper, which collects the garbage of a call that reached its memory limit. Without a
    /// keeper, this function collects the garbage.
    pub(crate) fn sweep(&self) {
        if self.parts.keeper.borrow().is_some() {
            self.press();
        } else if let Err(error) = self.lua.gc_collect() {
            tracing::warn!(%error, "luau cannot collect garbage");
        }
    }

    fn press(&self) {
        if self.fill.get() == Fill::Within {
            self.fill.set(Fill::Over);
            if let Some(keeper) = &*self.parts.keeper.borrow() {
                keeper.press();
            }
        }
    }

    /// Returns whether the VM was replaced more than a wall budget ago. Calls in such a VM must end.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.fill.get(), Fill::Replaced(at) if at.elapsed() > self.parts.options.wall_budget)
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if self.lua.used_memory() > CLOSED_AT_ONCE_BYTES
            && let Some(keeper) = &*self.parts.keeper.borrow()
        {
            keeper.take_over(self.lua.clone());
        }
    }
}

/// Enables fixes that Luau applies only if a flag is set. The flags are set before the process creates its
/// first VM.
fn set_flags() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        // The first flag makes `table.move` on a sparse table visit its entries, not its range. The second
        // flag freezes the metatable of vectors, like all other metatables of the library. With the third
        // flag, the collector works in proportion to the size of each allocation. Without the third flag, the
        // collector makes one step for a text of 8 MB, as for a small table.
        for flag in ["LuauTableMoveTimeoutFix", "LuauSandboxFreezesVectorMetatable", "LuauBackedgeHeapCheck"]
        {
            if Lua::set_fflag(flag, true).is_err() {
                tracing::warn!(flag, "this version of luau has no such flag");
            }
        }
    });
}

/// Maximum memory of a VM that is closed in one call, in bytes. Closing that much takes a few milliseconds.
const CLOSED_AT_ONCE_BYTES: usize = 4 << 20;
