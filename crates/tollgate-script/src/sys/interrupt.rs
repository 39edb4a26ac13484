//! A short form of Luau's interrupts. All but one in a million decide nothing, and the callback of mlua costs
//! 13 ns. Luau calls it for each call, return and turn of a loop, so a comparison stands in front of it.

use std::cell::Cell;
use std::ffi::c_int;

use mlua::{Lua, ffi};

type Interrupt = unsafe extern "C-unwind" fn(state: *mut ffi::lua_State, gc: c_int);

thread_local! {
    static IS_DUE: Cell<fn() -> bool> = const { Cell::new(|| true) };
    static THOROUGH: Cell<Option<Interrupt>> = const { Cell::new(None) };
}

/// Puts `is_due` in front of the interrupt that mlua has set. All VMs of a thread have the same two.
///
/// # Errors
/// The VM cannot be reached.
pub(crate) fn shorten(lua: &Lua, is_due: fn() -> bool) -> mlua::Result<()> {
    IS_DUE.set(is_due);
    // SAFETY: the callbacks live as long as the VM; mlua's interrupt needs nothing but the state.
    unsafe {
        lua.exec_raw::<()>((), |state| {
            let callbacks = ffi::lua_callbacks(state);
            THOROUGH.set((*callbacks).interrupt.replace(interrupt));
        })
    }
}

unsafe extern "C-unwind" fn interrupt(state: *mut ffi::lua_State, gc: c_int) {
    if gc < 0
        && IS_DUE.get()()
        && let Some(thorough) = THOROUGH.get()
    {
        // SAFETY: the VM calls us as it would call mlua's, with the same state.
        unsafe { thorough(state, gc) }
    }
}
