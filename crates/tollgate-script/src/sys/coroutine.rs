//! Answers for the coroutine of a call: run on its own stack, where its `req` lies at the bottom and what the handler
//! returned above it.

use std::ffi::{c_int, c_void};

use mlua::{Function, Lua, LuaString, Table, Thread, Value, ffi};

use super::seen::{SLOTS, Seen};

/// A coroutine for one call after the other.
pub(crate) struct Coroutine {
    state: *mut ffi::lua_State,
    /// Keeps it from being collected.
    _thread: Thread,
}

/// What a stretch of running came to.
pub(crate) enum Ran {
    Returned,
    Yielded,
    Failed(mlua::Error),
}

/// Where `req` stands, and above it what was returned.
const REQ: c_int = 1;

impl Coroutine {
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(lua: &Lua, any: &Function) -> mlua::Result<Self> {
        let thread = lua.create_thread(any.clone())?;
        Ok(Self { state: thread.state(), _thread: thread })
    }

    /// An address to know it by.
    pub(crate) fn address(&self) -> *const c_void {
        self.state.cast()
    }

    /// Prepares a call of `function` with a new `req`, an empty read-only table with `metatable`; returns the address of
    /// that. Only for a coroutine that is new, or whose last call returned.
    ///
    /// # Errors
    /// The stack cannot grow.
    pub(crate) fn prepare(
        &self,
        lua: &Lua,
        function: &Function,
        metatable: &Table,
    ) -> mlua::Result<*const c_void> {
        let state = self.state;
        lua.exec_raw_lua(|raw| {
            // SAFETY: the coroutine does not run; what is pushed on the main stack is moved over at once. There is no
            // memory limit now, so that nothing raises.
            unsafe {
                ffi::lua_settop(state, 0);
                if ffi::lua_checkstack(raw.state(), 1) == 0 || ffi::lua_checkstack(state, SLOTS) == 0 {
                    return Err(mlua::Error::StackError);
                }
                ffi::lua_createtable(state, 0, KEPT_FIELDS);
                raw.push(metatable)?;
                ffi::lua_xmove(raw.state(), state, 1);
                ffi::lua_setmetatable(state, REQ);
                ffi::lua_setreadonly(state, REQ, 1);
                raw.push(function)?;
                ffi::lua_xmove(raw.state(), state, 1);
                ffi::lua_pushvalue(state, REQ);
                Ok(ffi::lua_topointer(state, REQ))
            }
        })
    }

    /// Runs what was prepared.
    pub(crate) fn start(&self, lua: &Lua) -> Ran {
        self.run(lua, 1)
    }

    /// Goes on after a yield. Another call's script may have got hold of this coroutine meanwhile, and run it to its end.
    pub(crate) fn resume(&self, lua: &Lua) -> Ran {
        // SAFETY: the state lives as long as the thread.
        if unsafe { ffi::lua_status(self.state) } == ffi::LUA_YIELD {
            self.run(lua, 0)
        } else {
            Ran::Failed(mlua::Error::CoroutineUnresumable)
        }
    }

    fn run(&self, lua: &Lua, arguments: c_int) -> Ran {
        // SAFETY: the coroutine is suspended, or has its function and the arguments on top.
        let status = lua.exec_raw_lua(|raw| unsafe { ffi::lua_resume_(self.state, raw.state(), arguments) });
        match status {
            ffi::LUA_OK => Ran::Returned,
            ffi::LUA_YIELD => Ran::Yielded,
            status => Ran::Failed(self.error(lua, status).unwrap_or_else(|error| error)),
        }
    }

    /// Takes the error off the stack, with a traceback if it has none; that may run a metamethod of the script.
    fn error(&self, lua: &Lua, status: c_int) -> mlua::Result<mlua::Error> {
        let coroutine = self.state;
        // SAFETY: a failed coroutine has the error on top, and its frames are still there to be told.
        unsafe {
            let raised: Value = lua.exec_raw((), |state| ffi::lua_xmove(coroutine, state, 1))?;
            match raised {
                Value::Error(error) => Ok(*error),
                Value::String(text) if status == ffi::LUA_ERRMEM => {
                    Ok(mlua::Error::MemoryError(text.to_string_lossy()))
                }
                raised => {
                    let text: LuaString = lua.exec_raw(raised, |state| {
                        let text = ffi::luaL_tolstring(state, 1, std::ptr::null_mut());
                        ffi::luaL_traceback(state, coroutine, text, 0);
                        ffi::lua_replace(state, 1);
                        ffi::lua_settop(state, 1);
                    })?;
                    Ok(mlua::Error::RuntimeError(text.to_string_lossy()))
                }
            }
        }
    }

    /// Shows `f` the first two values that the handler returned, and drops them; a flood of values counts as two, whatever
    /// they are. `f` must not run the VM: see [`super::seen`].
    pub(crate) fn look<R>(&self, f: impl for<'a> FnOnce(Seen<'a>, Seen<'a>) -> R) -> R {
        // SAFETY: `prepare` made sure of the slots, which the values above the second one no longer take; the two stand
        // still while `f` reads them.
        unsafe {
            let is_flood = ffi::lua_gettop(self.state) > SLOTS;
            ffi::lua_settop(self.state, REQ + 2);
            let second = if is_flood { Seen::Other("flood") } else { Seen::at(self.state, REQ + 2) };
            let result = f(Seen::at(self.state, REQ + 1), second);
            // A script that kept the coroutine finds it dead; with values on its stack it could be resumed.
            ffi::lua_settop(self.state, 0);
            result
        }
    }
}

/// Room for the tables that [`super::stack::Stack::texts`] keeps in a `req`.
const KEPT_FIELDS: c_int = 1;
