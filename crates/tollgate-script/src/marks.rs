//! Values that the setup of a VM creates once: metatables that mark tables, and Luau functions.

use std::ffi::c_void;

use mlua::{Function, Lua, Table};

/// The marks of one VM.
pub(crate) struct Marks {
    /// The metatable that marks a table as a JSON array.
    pub(crate) array: Table,
    /// The address of `array`, for comparisons.
    pub(crate) array_address: *const c_void,
    /// The metatable of `tollgate.pass`.
    pub(crate) pass: Table,
    /// The address of `pass`, for comparisons.
    pub(crate) pass_address: *const c_void,
    /// Function `(table, key, digits)` that stores a 64-bit integer of Luau. Luau code does this because mlua
    /// would turn an integer from Rust into a double.
    pub(crate) store_integer: Function,
    /// The coroutines of calls, in a table with weak keys. A script that tries to resume or close one of them
    /// gets an error.
    pub(crate) call_coroutines: Table,
}

impl Marks {
    /// Creates the metatables. The two parameters `store_integer` and `call_coroutines` come from the Luau
    /// code that changes the standard library.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(lua: &Lua, store_integer: Function, call_coroutines: Table) -> mlua::Result<Self> {
        let (array, pass) = (named_metatable(lua, "array")?, named_metatable(lua, "pass")?);
        Ok(Self {
            array_address: array.to_pointer(),
            array,
            pass_address: pass.to_pointer(),
            pass,
            store_integer,
            call_coroutines,
        })
    }
}

/// Creates a read-only metatable. `getmetatable` in a script returns `name` instead of the metatable.
fn named_metatable(lua: &Lua, name: &str) -> mlua::Result<Table> {
    let metatable = lua.create_table()?;
    metatable.raw_set("__metatable", name)?;
    metatable.set_readonly(true);
    Ok(metatable)
}
