//! The arguments of a guarded call, read on the stack without conversion.

use std::ffi::c_int;
use std::slice;

use mlua::ffi;

/// The arguments of a running call.
pub(super) struct Arguments {
    state: *mut ffi::lua_State,
}

impl Arguments {
    /// Refers to the arguments of a call.
    ///
    /// # Safety
    /// `state` runs a function that `guard` made, and only its arguments are on the stack. No reference to
    /// the arguments outlives the call.
    pub(super) unsafe fn of(state: *mut ffi::lua_State) -> Self {
        Self { state }
    }

    /// Returns a string argument. A number, which Luau would convert to a string, needs no guard because it
    /// is short.
    pub(super) fn text(&self, place: c_int) -> Option<&[u8]> {
        // SAFETY: a string on the stack does not move.
        unsafe {
            if ffi::lua_type(self.state, place) != ffi::LUA_TSTRING {
                return None;
            }
            let mut len = 0;
            let bytes = ffi::lua_tolstring(self.state, place, &raw mut len);
            Some(slice::from_raw_parts(bytes.cast(), len))
        }
    }

    pub(super) fn is_true(&self, place: c_int) -> bool {
        // SAFETY: nothing changes, and a missing argument is false.
        unsafe { ffi::lua_toboolean(self.state, place) != 0 }
    }

    /// Returns the offset at which a search in a text begins, counted from 0.
    ///
    /// The argument counts from 1, or from the end if it is negative. A missing argument counts as 1. An
    /// argument that is not a number raises Luau's own error.
    pub(super) fn position(&self, place: c_int, len: usize) -> usize {
        // SAFETY: the error passes through frames that own no values.
        let given = i64::from(unsafe { ffi::luaL_optinteger_(self.state, place, 1) });
        let from_one =
            if given < 0 { given.saturating_add_unsigned(len as u64).saturating_add(1) } else { given };
        usize::try_from(from_one.max(1) - 1).unwrap_or(usize::MAX)
    }

    /// Pushes the range that was found, or nil, and returns the number of values.
    pub(super) fn push_range(&self, found: Option<(usize, usize)>) -> c_int {
        // SAFETY: the frame of a C function has more slots than these values need.
        unsafe {
            match found {
                Some((first, last)) => {
                    ffi::lua_pushnumber(self.state, first as f64);
                    ffi::lua_pushnumber(self.state, last as f64);
                    2
                }
                None => {
                    ffi::lua_pushnil(self.state);
                    1
                }
            }
        }
    }

    /// Returns the maximum number of comparisons of characters with items of a set.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number, which saturates"
    )]
    pub(super) fn set_steps_max(&self) -> u64 {
        // SAFETY: `guard` made the upvalue.
        unsafe { ffi::lua_tonumber(self.state, ffi::lua_upvalueindex(2)) as u64 }
    }
}
