//! Tables whose fields Rust provides when a script reads them: an `__index` without handles.
//!
//! A push may exceed the memory limit of the call. Luau then throws through the frames of this file. The
//! throw drops their values, and the call ends with a memory error.

use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::rc::Rc;

use mlua::{AnyUserData, Function, Lua, Table, Thread, ffi};

use super::raw::RawValue;
use crate::text::utf8;

/// Provider of the fields of tables.
pub(crate) trait Fields: 'static {
    /// Pushes the field `key` of the table at `table`. Returns false, and pushes nothing, if there is no such
    /// field.
    fn push(&self, table: *const c_void, key: &[u8], stack: &Stack) -> bool;
}

/// Reference to the `req` to which [`Stack::texts`] has added tables.
///
/// With this reference the tables can be removed from `req` even if the call failed or was suspended.
pub(crate) struct KeptFields {
    /// The stack of a coroutine that never runs.
    state: *mut ffi::lua_State,
    /// Protects the coroutine from garbage collection.
    _thread: Thread,
}

impl KeptFields {
    /// Creates an empty reference. `any` may be any function.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(lua: &Lua, any: &Function) -> mlua::Result<Self> {
        let thread = lua.create_thread(any.clone())?;
        let state = thread.state();
        // SAFETY: the coroutine is new, with the function on its stack.
        unsafe { ffi::lua_settop(state, 0) };
        Ok(Self { state, _thread: thread })
    }

    /// Removes the added tables from `req`.
    pub(crate) fn take_out(&self) {
        // SAFETY: only `texts` pushes on this stack, and it pushes a table. Nothing below allocates.
        unsafe {
            if ffi::lua_gettop(self.state) > 0 {
                ffi::lua_setreadonly(self.state, 1, 0);
                ffi::lua_cleartable(self.state, 1);
                ffi::lua_setreadonly(self.state, 1, 1);
                ffi::lua_settop(self.state, 0);
            }
        }
    }
}

/// The stack of a running `__index`.
pub(crate) struct Stack {
    state: *mut ffi::lua_State,
}

/// Creates the `__index` of `fields`.
///
/// If `fields` has no such field, `refuse` gets the table and the key, and may raise an error. `functions`
/// are for [`Stack::function`], and `metatable` is for [`Stack::texts`].
///
/// # Errors
/// Out of memory.
pub(crate) fn index<F: Fields>(
    lua: &Lua,
    fields: Rc<F>,
    refuse: &Function,
    functions: &[Function],
    metatable: &Table,
) -> mlua::Result<Function> {
    let address = Rc::as_ptr(&fields).cast_mut().cast::<c_void>();
    let owner: AnyUserData = lua.create_any_userdata(fields)?;
    let functions = mlua::Variadic::from_iter(functions.iter().cloned());
    // SAFETY: the upvalues are the values in the order of `upvalue`. The owner is one of them and keeps the
    // address valid.
    unsafe {
        lua.exec_raw((owner, mlua::LightUserData(address), refuse, metatable, functions), |state| {
            ffi::lua_pushcclosure(state, run::<F>, ffi::lua_gettop(state));
        })
    }
}

/// Indices of the upvalues of `__index`. The owner has index 1.
mod upvalue {
    pub(super) const FIELDS: i32 = 2;
    pub(super) const REFUSE: i32 = 3;
    pub(super) const METATABLE: i32 = 4;
    pub(super) const FUNCTIONS: i32 = 5;
}

unsafe extern "C-unwind" fn run<F: Fields>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: `index` made the upvalues. Luau calls `__index` with a table and a key.
    unsafe {
        ffi::lua_settop(state, 2);
        let fields = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(upvalue::FIELDS)).cast::<F>();
        let table = ffi::lua_topointer(state, 1);
        let is_pushed = match RawValue::at(state, 2) {
            RawValue::Text(key) => (*fields).push(table, key, &Stack { state }),
            _ => false,
        };
        if !is_pushed {
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(upvalue::REFUSE));
            ffi::lua_insert(state, 1);
            ffi::lua_call(state, 2, 1);
        }
    }
    1
}

impl Stack {
    pub(crate) fn text(&self, text: &[u8]) {
        // SAFETY: Luau copies the bytes.
        unsafe { ffi::lua_pushlstring_(self.state, text.as_ptr().cast(), text.len()) };
    }

    pub(crate) fn nil(&self) {
        // SAFETY: nothing is read.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    pub(crate) fn number(&self, number: f64) {
        // SAFETY: nothing is read.
        unsafe { ffi::lua_pushnumber(self.state, number) };
    }

    /// Pushes the function at index `place`.
    pub(crate) fn function(&self, place: u8) {
        // SAFETY: Luau returns nil for a missing upvalue.
        unsafe {
            ffi::lua_pushvalue(self.state, ffi::lua_upvalueindex(upvalue::FUNCTIONS + i32::from(place)));
        };
    }

    /// Pushes a read-only table of names and values. The first value of a repeated name counts.
    ///
    /// The table also becomes a field of `req`, so the next access does not reach Rust.
    /// [`KeptFields::take_out`] removes the field. The table is created for `expected` pairs. Between two
    /// calls of `take_out`, all calls of this function must be for the same `req`.
    pub(crate) fn texts<N, V>(
        &self,
        kept: &KeptFields,
        pairs: impl Iterator<Item = (N, V)>,
        expected: usize,
        with_metatable: bool,
    ) where
        N: Deref<Target: AsRef<[u8]>>,
        V: Deref<Target: AsRef<[u8]>>,
    {
        let state = self.state;
        // SAFETY: the table is pushed first and stays at `table`. Each turn restores the height of the stack.
        unsafe {
            ffi::lua_createtable(state, 0, c_int::try_from(expected).unwrap_or(0));
            let table = ffi::lua_gettop(state);
            for (place, (name, value)) in pairs.enumerate() {
                self.text(&utf8((*name).as_ref()));
                if place == 0 || self.is_new(table) {
                    self.text(&utf8((*value).as_ref()));
                    ffi::lua_rawset(state, table);
                }
                ffi::lua_settop(state, table);
            }
            if with_metatable {
                ffi::lua_pushvalue(state, ffi::lua_upvalueindex(upvalue::METATABLE));
                ffi::lua_setmetatable(state, table);
            }
            ffi::lua_setreadonly(state, table, 1);
            if ffi::lua_gettop(kept.state) == 0 {
                ffi::lua_xpush(state, kept.state, 1);
            }
            // If memory runs out here, `req` stays writable for its own call, until `take_out` clears it.
            ffi::lua_setreadonly(state, 1, 0);
            ffi::lua_pushvalue(state, 2);
            ffi::lua_pushvalue(state, table);
            ffi::lua_rawset(state, 1);
            ffi::lua_setreadonly(state, 1, 1);
        }
    }

    /// Returns whether a table has no value for the name on top of the stack.
    ///
    /// # Safety
    /// The table is at index `table`, and the stack has one free slot.
    unsafe fn is_new(&self, table: c_int) -> bool {
        // SAFETY: the stack has the same height afterwards.
        unsafe {
            ffi::lua_pushvalue(self.state, -1);
            let found = ffi::lua_rawget(self.state, table);
            ffi::lua_settop(self.state, -2);
            found == ffi::LUA_TNIL
        }
    }
}
