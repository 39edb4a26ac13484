//! Raw values: values that a script made, read on the stack of the VM, without a copy, a handle or a
//! metamethod.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::slice;

use mlua::{Lua, Value, ffi};

use crate::interned::Interned;

/// A value of the VM. What it borrows is held by the stack while [`read`] runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum RawValue<'a> {
    #[default]
    Nil,
    /// `tollgate.json.null`.
    Null,
    Boolean(bool),
    /// A whole number within 64 bits, whatever type of Luau holds it.
    Integer(i64),
    Number(f64),
    /// Luau keeps one copy of each text: equal addresses are equal texts.
    Text(&'a [u8]),
    Buffer(&'a [u8]),
    Table(RawTable<'a>),
    /// Anything else, by the name of its type.
    Other(&'static str),
}

/// A table, read without its metamethods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawTable<'a> {
    state: *mut ffi::lua_State,
    /// Where it stands on the stack.
    slot: c_int,
    life: PhantomData<&'a ()>,
}

/// Gives a value to `f`, and returns what `f` returned.
///
/// `f` must not run the VM: no script may change the value meanwhile, and no garbage may be collected. The
/// callers give encoders of ours, which cannot reach the VM.
///
/// # Errors
/// The stack cannot grow.
pub(crate) fn read<R>(
    lua: &Lua,
    value: &Value,
    f: impl for<'a> FnOnce(RawValue<'a>) -> R,
) -> mlua::Result<R> {
    if let Value::Integer(number) = value {
        // On the stack, mlua would make a double of it.
        return Ok(f(RawValue::Integer(*number)));
    }
    // Without a protected call, which costs 0.2 us: with the slots at hand nothing below raises.
    lua.exec_raw_lua(|raw| {
        let state = raw.state();
        // SAFETY: the stack is as high afterwards as before; the value stands still in between.
        unsafe {
            if ffi::lua_checkstack(state, SLOTS) == 0 {
                return Err(mlua::Error::StackError);
            }
            let base = ffi::lua_gettop(state);
            let result = raw.push(value).map(|()| f(RawValue::at(state, base + 1)));
            ffi::lua_settop(state, base);
            result
        }
    })
}

/// More than values nested to the depth of JSON take, two each, and the fields of a reply.
pub(super) const SLOTS: c_int = 512;

impl<'a> RawValue<'a> {
    /// Reads what stands at an absolute place of the stack.
    ///
    /// # Safety
    /// The place holds a value, which stays reachable and unchanged for `'a`; a table stays at its place for
    /// `'a`.
    pub(super) unsafe fn at(state: *mut ffi::lua_State, slot: c_int) -> Self {
        // SAFETY: each read is of the type that was asked for first; none allocates or raises.
        unsafe {
            match ffi::lua_type(state, slot) {
                ffi::LUA_TNIL | ffi::LUA_TNONE => Self::Nil,
                ffi::LUA_TBOOLEAN => Self::Boolean(ffi::lua_toboolean(state, slot) != 0),
                ffi::LUA_TNUMBER => Self::number(ffi::lua_tonumberx(state, slot, ptr::null_mut())),
                ffi::LUA_TINTEGER => Self::Integer(ffi::lua_tointeger64(state, slot, ptr::null_mut())),
                ffi::LUA_TSTRING => {
                    let mut len = 0;
                    let bytes = ffi::lua_tolstringatom(state, slot, &raw mut len, ptr::null_mut());
                    Self::Text(slice::from_raw_parts(bytes.cast(), len))
                }
                ffi::LUA_TBUFFER => {
                    let mut len = 0;
                    let bytes = ffi::lua_tobuffer(state, slot, &raw mut len);
                    Self::Buffer(slice::from_raw_parts(bytes.cast(), len))
                }
                ffi::LUA_TTABLE => Self::Table(RawTable { state, slot, life: PhantomData }),
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_topointer(state, slot).is_null() => Self::Null,
                other => {
                    let name = CStr::from_ptr(ffi::lua_typename(state, other));
                    Self::Other(name.to_str().unwrap_or("value"))
                }
            }
        }
    }

    /// Reads a key of a table. Nearly all keys are texts: one call of the VM tells that and returns the
    /// bytes.
    ///
    /// # Safety
    /// As for [`at`](Self::at).
    unsafe fn key_at(state: *mut ffi::lua_State, slot: c_int) -> Self {
        let mut len = 0;
        // SAFETY: the place holds a value. A text stays where it is; of another type the call returns null.
        unsafe {
            let bytes = ffi::lua_tolstringatom(state, slot, &raw mut len, ptr::null_mut());
            if bytes.is_null() {
                Self::at(state, slot)
            } else {
                Self::Text(slice::from_raw_parts(bytes.cast(), len))
            }
        }
    }

    /// A double that is whole and within 64 bits is an integer, all but -0.
    #[expect(clippy::cast_possible_truncation, reason = "the cast back shows what was lost")]
    fn number(number: f64) -> Self {
        let whole = number as i64;
        if number.to_bits() == (whole as f64).to_bits() && whole != i64::MAX {
            Self::Integer(whole)
        } else {
            Self::Number(number)
        }
    }

    /// What a script's author calls its type.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Null => "userdata",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) | Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Buffer(_) => "buffer",
            Self::Table(_) => "table",
            Self::Other(name) => name,
        }
    }
}

impl<'a> RawTable<'a> {
    /// Visits each pair until `visit` fails. The array part comes first and in order.
    pub(crate) fn each<E>(
        &self,
        mut visit: impl for<'b> FnMut(RawValue<'b>, RawValue<'b>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        // SAFETY: nothing is read.
        let base = unsafe { ffi::lua_gettop(self.state) };
        loop {
            // SAFETY: the table is at its slot. The pair lies on the stack, and in the table, until it is
            // popped.
            let visited = unsafe {
                at = ffi::lua_rawiter(self.state, self.slot, at);
                if at < 0 {
                    return Ok(());
                }
                let visited =
                    visit(RawValue::key_at(self.state, base + 1), RawValue::at(self.state, base + 2));
                ffi::lua_settop(self.state, base);
                visited
            };
            visited?;
        }
    }

    /// Puts the values of known names at their places.
    ///
    /// # Errors
    /// The first key that is none of them.
    pub(crate) fn pick<const N: usize>(
        &self,
        names: &Interned,
        picked: &mut [RawValue<'a>; N],
    ) -> Result<(), RawValue<'a>> {
        let mut at = 0;
        // SAFETY: nothing is read.
        let mut value = unsafe { ffi::lua_gettop(self.state) };
        loop {
            // SAFETY: as in `each`, but what was picked stays on the stack, and with it in its place, until
            // `read` ends.
            unsafe {
                at = ffi::lua_rawiter(self.state, self.slot, at);
                if at < 0 {
                    return Ok(());
                }
                value += 2;
                let key = RawValue::key_at(self.state, value - 1);
                let known = match key {
                    RawValue::Text(name) => names.position(name).filter(|&index| index < N),
                    _ => None,
                };
                let Some(index) = known else { return Err(key) };
                picked[index] = RawValue::at(self.state, value);
            }
        }
    }

    /// Shows `f` the value of an index.
    pub(crate) fn with_index<R>(&self, index: usize, f: impl for<'b> FnOnce(RawValue<'b>) -> R) -> R {
        // SAFETY: the table is at its slot; the value lies on the stack until it is popped.
        unsafe {
            match c_int::try_from(index) {
                Ok(index) => _ = ffi::lua_rawgeti_(self.state, self.slot, index),
                Err(_) => ffi::lua_pushnil(self.state),
            }
            let top = ffi::lua_gettop(self.state);
            let result = f(RawValue::at(self.state, top));
            ffi::lua_settop(self.state, top - 1);
            result
        }
    }

    /// The border of the array, as `#` gives it.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the table is at its slot.
        unsafe { ffi::lua_objlen(self.state, self.slot) }
    }

    /// Whether the metatable is the one at `address`.
    pub(crate) fn has_metatable(&self, address: *const c_void) -> bool {
        // SAFETY: the table is at its slot.
        unsafe { ffi::lua_getmetatablepointer(self.state, self.slot) == address }
    }
}
