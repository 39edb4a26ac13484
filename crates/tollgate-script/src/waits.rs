//! The operations that calls wait for. An operation is a future, which the server polls while other calls use
//! the VM.
//!
//! A function of ours that waits is made by [`sys::operation`](crate::sys::operation): it begins its
//! operation by [`Waits::begin`], and the call is suspended where it stands, so that `pcall` around it holds.
//! The call takes the operation with it ([`Waits::leave`]), has it polled, and goes on with its
//! [`ReturnValues`].
//!
//! Invariant: only the coroutine of the call that runs is suspended. In a coroutine that the script made, the
//! wait would look like a yield of the script; in a metamethod, or a function that `table.sort` or
//! `string.gsub` calls, Luau cannot yield. There a function that waits is an error, always, and not only when
//! it would have to wait.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, MultiValue};
use tokio::sync::Semaphore;

use crate::form_parts::AT_ONCE_MAX;
use crate::pipe::Pipe;

/// What a call waits for. Polled inside the runtime of its worker.
pub(crate) type Operation = Pin<Box<dyn Future<Output = ReturnValues>>>;

/// Makes the values that the function which waited returns, at most [`RETURN_VALUES_MAX`], or the error that
/// it raises.
pub(crate) type ReturnValues = Box<dyn FnOnce(&Lua) -> mlua::Result<MultiValue>>;

/// A suspended function has room for so many values without its stack growing.
pub(crate) const RETURN_VALUES_MAX: usize = 8;

/// The operations of a host.
#[derive(Default)]
pub(crate) struct Waits {
    /// The coroutine of the call that runs; null while none does.
    coroutine: Cell<*const c_void>,
    /// The `out` of the reply that it writes, and where that leads.
    out: RefCell<Option<(*const c_void, Rc<Pipe>)>>,
    begun: RefCell<Option<Operation>>,
    places: Places,
}

/// Places for threads that wait for a disk.
struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE_MAX)))
    }
}

impl Waits {
    /// A call runs from now on, in a coroutine.
    pub(crate) fn enter(&self, coroutine: *const c_void) {
        self.coroutine.set(coroutine);
    }

    /// It writes a reply by an `out`.
    pub(crate) fn write_to(&self, out: *const c_void, pipe: Rc<Pipe>) {
        self.out.replace(Some((out, pipe)));
    }

    /// Where an `out` leads; none if it is not that of the call which runs.
    pub(crate) fn pipe(&self, out: *const c_void) -> Option<Rc<Pipe>> {
        self.out.borrow().as_ref().filter(|(own, _)| *own == out).map(|(_, pipe)| Rc::clone(pipe))
    }

    /// The call is set aside, or over. Returns what it waits for, if it does.
    pub(crate) fn leave(&self) -> Option<Operation> {
        self.coroutine.set(ptr::null());
        self.out.take();
        self.begun.take()
    }

    /// Says why the coroutine cannot wait here, if it cannot.
    pub(crate) fn refusal(&self, coroutine: *const c_void, can_yield: bool) -> Option<&'static str> {
        if self.coroutine.get().is_null() {
            Some("cannot wait while a script is loaded: call it in a handler")
        } else if self.coroutine.get() != coroutine {
            Some("cannot wait inside a coroutine of the script: call it outside")
        } else if !can_yield {
            Some("cannot wait inside a metamethod, or a function that the library calls")
        } else {
            None
        }
    }

    /// Begins what the function that runs waits for, as soon as it returns.
    pub(crate) fn begin(&self, operation: impl Future<Output = ReturnValues> + 'static) {
        self.begun.replace(Some(Box::pin(operation)));
    }

    /// Places for threads that read and write what does not fit into memory.
    pub(crate) fn places(&self) -> &Arc<Semaphore> {
        &self.places.0
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.borrow().is_some()
    }
}

/// The answer of an operation that gives nothing.
pub(crate) fn nothing() -> ReturnValues {
    Box::new(|_| Ok(MultiValue::new()))
}
