//! The arguments of a guarded call, read where they lie. Nothing is converted.

use std::ffi::c_int;
use std::slice;

use mlua::ffi;

/// The arguments of a call under way.
pub(super) struct Arguments {
    state: *mut ffi::lua_State,
}

impl Arguments {
    /// # Safety
    /// `state` runs a function that `guard` made, with its arguments alone on the stack; none of them is kept
    /// longer than that.
    pub(super) unsafe fn of(state: *mut ffi::lua_State) -> Self {
        Self { state }
    }

    /// A string; numbers, which Luau would take for one, are short.
    pub(super) fn text(&self, place: c_int) -> Option<&[u8]> {
        // SAFETY: a string on the stack stays where it is.
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
        // SAFETY: nothing is changed, and an argument that is not there is false.
        unsafe { ffi::lua_toboolean(self.state, place) != 0 }
    }

    /// Where a search begins in a text, from 0: an argument that counts from 1, or from the end if it is
    /// negative; none is 1.
    ///
    /// Raises Luau's own error if it is no number.
    pub(super) fn position(&self, place: c_int, len: usize) -> usize {
        // SAFETY: the error passes through frames that own nothing.
        let given = i64::from(unsafe { ffi::luaL_optinteger_(self.state, place, 1) });
        let from_one =
            if given < 0 { given.saturating_add_unsigned(len as u64).saturating_add(1) } else { given };
        usize::try_from(from_one.max(1) - 1).unwrap_or(usize::MAX)
    }

    /// Pushes where something was found, or nil; returns the count of values.
    pub(super) fn push_range(&self, found: Option<(usize, usize)>) -> c_int {
        // SAFETY: a C function has room for more values than these.
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

    /// Comparisons of characters with items of a set that a repetition may take.
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
