//! The operations that calls wait for. An operation is a future that the server polls while other calls use
//! the VM.
//!
//! [`sys::operation`](crate::sys::operation) creates each API function that waits. The function begins its
//! operation with [`Waits::begin`]. The call is suspended at that point, so that a `pcall` around it stays in
//! effect. The call gets the operation ([`Waits::leave`]), polls it, and continues with the [`ReturnValues`]
//! of the operation.
//!
//! Invariant: only the coroutine of the running call is suspended. In a coroutine that the script made, the
//! wait would look like a yield of the script. In a metamethod, or in a function called by `table.sort` or
//! `string.gsub`, Luau cannot yield. In such a place a function that can wait always raises an error, even if
//! it would not have to wait.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, MultiValue};
use tokio::sync::Semaphore;

use crate::pipe::Pipe;
use crate::stretch::AT_ONCE_MAX;

/// The operation that a call waits for. The runtime of the worker polls the operation.
pub(crate) type Operation = Pin<Box<dyn Future<Output = ReturnValues>>>;

/// Creates the return values of the waiting function, at most [`RETURN_VALUES_MAX`], or the error that it
/// raises.
pub(crate) type ReturnValues = Box<dyn FnOnce(&Lua) -> mlua::Result<MultiValue>>;

/// Maximum number of values that fit on the stack of a suspended function without growth.
pub(crate) const RETURN_VALUES_MAX: usize = 8;

/// The operations of a `Host`.
#[derive(Default)]
pub(crate) struct Waits {
    /// The coroutine of the running call, or null.
    coroutine: Cell<*const c_void>,
    /// The `out` of the reply that the call writes, and the pipe of that reply.
    out: RefCell<Option<(*const c_void, Rc<Pipe>)>>,
    begun: RefCell<Option<Operation>>,
    places: Places,
}

/// Permits for threads that wait for a disk.
struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE_MAX)))
    }
}

impl Waits {
    /// Records that a call runs in a coroutine from now on.
    pub(crate) fn enter(&self, coroutine: *const c_void) {
        self.coroutine.set(coroutine);
    }

    /// Records the `out` of the running call, and the pipe of its reply.
    pub(crate) fn write_to(&self, out: *const c_void, pipe: Rc<Pipe>) {
        self.out.replace(Some((out, pipe)));
    }

    /// Returns the pipe of an `out`, or `None` if `out` does not belong to the running call.
    pub(crate) fn pipe(&self, out: *const c_void) -> Option<Rc<Pipe>> {
        self.out.borrow().as_ref().filter(|(own, _)| *own == out).map(|(_, pipe)| Rc::clone(pipe))
    }

    /// Records that the call is suspended or over. Returns the operation that the call waits for, if there is
    /// one.
    pub(crate) fn leave(&self) -> Option<Operation> {
        self.coroutine.set(ptr::null());
        self.out.take();
        self.begun.take()
    }

    /// Returns the reason why the coroutine cannot wait here, or `None` if it can.
    pub(crate) fn refusal(&self, coroutine: *const c_void, can_yield: bool) -> Option<&'static str> {
        if self.coroutine.get().is_null() {
            Some("cannot wait while a script is loaded: call it in a handler")
        } else if self.coroutine.get() != coroutine {
            Some("cannot wait inside a coroutine of the script: call it outside")
        } else if !can_yield {
            Some("cannot wait inside a metamethod, or in a callback of a library function")
        } else {
            None
        }
    }

    /// Begins an operation. The call waits for it when the current function returns.
    pub(crate) fn begin(&self, operation: impl Future<Output = ReturnValues> + 'static) {
        self.begun.replace(Some(Box::pin(operation)));
    }

    /// Returns the permits for threads that read and write data that does not fit into memory.
    pub(crate) fn places(&self) -> &Arc<Semaphore> {
        &self.places.0
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.borrow().is_some()
    }
}

/// Returns the result of an operation without return values.
pub(crate) fn nothing() -> ReturnValues {
    Box::new(|_| Ok(MultiValue::new()))
}
