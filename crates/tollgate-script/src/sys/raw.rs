//! Raw values: values of a script that are read on the stack of the VM, without a copy, a handle or a
//! metamethod.

use std::ffi::{CStr, CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::slice;

use mlua::{Lua, LuaString, Value, ffi};

use crate::interned::Interned;

/// A value of the VM. The stack keeps the borrowed data alive while [`read`] runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum RawValue<'a> {
    #[default]
    Nil,
    /// `tollgate.json.null`.
    Null,
    Boolean(bool),
    /// A whole number within 64 bits, of any Luau type.
    Integer(i64),
    Number(f64),
    /// Luau keeps one copy of each text, so texts with equal addresses are equal.
    Text(&'a [u8]),
    Buffer(&'a [u8]),
    Table(RawTable<'a>),
    /// Any other value, with the name of its type.
    Other(&'static str),
}

/// A table, read without its metamethods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawTable<'a> {
    state: *mut ffi::lua_State,
    /// Position on the stack.
    slot: c_int,
    life: PhantomData<&'a ()>,
}

/// The name of a field. The VM keeps its text.
#[derive(Debug)]
pub(crate) struct FieldName {
    text: CString,
    _held: LuaString,
}

impl FieldName {
    /// # Errors
    /// The name has a zero byte, or the VM is out of memory.
    pub(crate) fn new(lua: &Lua, name: &str) -> mlua::Result<Self> {
        let text = CString::new(name).map_err(mlua::Error::external)?;
        Ok(Self { text, _held: lua.create_string(name)? })
    }
}

/// Passes a value to `f`, and returns the result of `f`.
///
/// `f` must not run the VM, so that no script changes the value and no garbage is collected. The callers pass
/// encoders of this crate, which cannot reach the VM.
///
/// # Errors
/// The stack cannot grow.
pub(crate) fn read<R>(
    lua: &Lua,
    value: &Value,
    f: impl for<'a> FnOnce(RawValue<'a>) -> R,
) -> mlua::Result<R> {
    if let Value::Integer(number) = value {
        // mlua would turn the integer into a double when it pushes it on the stack.
        return Ok(f(RawValue::Integer(*number)));
    }
    // A protected call would cost 0.2 us, and is not needed. Once the slots are reserved, nothing below
    // raises an error.
    lua.exec_raw_lua(|raw| {
        let state = raw.state();
        // SAFETY: the stack has the same height afterwards. The value does not change while `f` reads it.
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

/// Number of reserved slots. The number exceeds two slots for each level of JSON, plus the fields of a reply.
pub(super) const SLOTS: c_int = 512;

impl<'a> RawValue<'a> {
    /// Reads the value at an absolute position of the stack.
    ///
    /// # Safety
    /// The position holds a value that stays reachable and unchanged for `'a`. A table stays at its position
    /// for `'a`.
    pub(super) unsafe fn at(state: *mut ffi::lua_State, slot: c_int) -> Self {
        // SAFETY: each read matches the type that was checked first. No read allocates or raises.
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

    /// Reads a key of a table. Nearly all keys are texts, so one call of the VM checks the type and returns
    /// the bytes.
    ///
    /// # Safety
    /// The conditions of [`at`](Self::at).
    unsafe fn key_at(state: *mut ffi::lua_State, slot: c_int) -> Self {
        let mut len = 0;
        // SAFETY: the position holds a value. A text does not move. For another type the call returns null.
        unsafe {
            let bytes = ffi::lua_tolstringatom(state, slot, &raw mut len, ptr::null_mut());
            if bytes.is_null() {
                Self::at(state, slot)
            } else {
                Self::Text(slice::from_raw_parts(bytes.cast(), len))
            }
        }
    }

    /// Returns the integer variant for a double that is whole and within 64 bits, except for -0.
    #[expect(clippy::cast_possible_truncation, reason = "the cast back shows what was lost")]
    fn number(number: f64) -> Self {
        let whole = number as i64;
        if number.to_bits() == (whole as f64).to_bits() && whole != i64::MAX {
            Self::Integer(whole)
        } else {
            Self::Number(number)
        }
    }

    /// Returns the type, as script authors know it.
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
    /// Visits each pair until `visit` fails. The array part comes first, in order.
    pub(crate) fn each<E>(
        &self,
        mut visit: impl for<'b> FnMut(RawValue<'b>, RawValue<'b>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        // SAFETY: nothing is read.
        let base = unsafe { ffi::lua_gettop(self.state) };
        loop {
            // SAFETY: the table is at its slot. The pair is on the stack, and in the table, until it is
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

    /// Stores the values of known names in `picked`, each at the index of its name.
    ///
    /// # Errors
    /// The first unknown key.
    pub(crate) fn pick<const N: usize>(
        &self,
        names: &Interned,
        picked: &mut [RawValue<'a>; N],
    ) -> Result<(), RawValue<'a>> {
        let mut at = 0;
        // SAFETY: nothing is read.
        let mut value = unsafe { ffi::lua_gettop(self.state) };
        loop {
            // SAFETY: as in `each`, but picked values stay on the stack at their position until `read` ends.
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

    /// Passes the value at an index to `f`.
    pub(crate) fn with_index<R>(&self, index: usize, f: impl for<'b> FnOnce(RawValue<'b>) -> R) -> R {
        // SAFETY: the table is at its slot. The value is on the stack until it is popped.
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

    /// Passes the value of a field to `f`.
    pub(crate) fn with_field<R>(&self, name: &FieldName, f: impl for<'b> FnOnce(RawValue<'b>) -> R) -> R {
        // SAFETY: the table is at its slot. The VM has the text of the name already, so nothing is allocated.
        // The value is on the stack until it is popped.
        unsafe {
            ffi::lua_rawgetfield(self.state, self.slot, name.text.as_ptr());
            let top = ffi::lua_gettop(self.state);
            let result = f(RawValue::at(self.state, top));
            ffi::lua_settop(self.state, top - 1);
            result
        }
    }

    /// Returns the length of the table, as the operator `#` computes it.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the table is at its slot.
        unsafe { ffi::lua_objlen(self.state, self.slot) }
    }

    /// Returns whether the metatable is at `address`.
    pub(crate) fn has_metatable(&self, address: *const c_void) -> bool {
        // SAFETY: the table is at its slot.
        unsafe { ffi::lua_getmetatablepointer(self.state, self.slot) == address }
    }
}
