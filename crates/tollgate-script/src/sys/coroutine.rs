//! The coroutine of a call, which runs on its own stack. The `req` of the call is at the bottom of the stack,
//! and the returned values are above it.

use std::ffi::{c_int, c_void};

use mlua::{Function, Lua, LuaString, MultiValue, Table, Thread, Value, ffi};

use super::raw::{RawValue, SLOTS};
use crate::memory::unlimited;
use crate::waits::RETURN_VALUES_MAX;

/// A coroutine that serves one call after another.
pub(crate) struct Coroutine {
    state: *mut ffi::lua_State,
    /// Protects the coroutine from garbage collection.
    _thread: Thread,
}

/// Result of one run of the coroutine.
pub(crate) enum Ran {
    Returned,
    Yielded,
    Failed(mlua::Error),
}

/// Stack position of `req`. The returned values are above `req`.
const REQ: c_int = 1;

impl Coroutine {
    /// Creates a coroutine and adds it to `coroutines`, so that no script can resume or close it.
    ///
    /// `any` may be any function.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn new(lua: &Lua, any: &Function, coroutines: &Table) -> mlua::Result<Self> {
        let thread = lua.create_thread(any.clone())?;
        coroutines.raw_set(&thread, true)?;
        Ok(Self { state: thread.state(), _thread: thread })
    }

    /// Returns an address that identifies the coroutine.
    pub(crate) fn address(&self) -> *const c_void {
        self.state.cast()
    }

    /// Prepares a call of `function` with a new `req`, and returns the address of `req`.
    ///
    /// `req` is an empty read-only table with `metatable`. The coroutine must be new, or its last call must
    /// have returned.
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
            // SAFETY: the coroutine does not run. Values pushed on the main stack are moved to the coroutine
            // at once. No memory limit is set here, so no call raises an error.
            unsafe {
                ffi::lua_settop(state, 0);
                if ffi::lua_checkstack(raw.state(), 2) == 0 || ffi::lua_checkstack(state, PREPARED_SLOTS) == 0
                {
                    return Err(mlua::Error::StackError);
                }
                ffi::lua_createtable(state, 0, KEPT_FIELDS);
                raw.push(function)?;
                raw.push(metatable)?;
                ffi::lua_xmove(raw.state(), state, 2);
                ffi::lua_setmetatable(state, REQ);
                ffi::lua_setreadonly(state, REQ, 1);
                ffi::lua_pushvalue(state, REQ);
                Ok(ffi::lua_topointer(state, REQ))
            }
        })
    }

    /// Runs the prepared call.
    pub(crate) fn start(&self, lua: &Lua) -> Ran {
        self.run(lua, 1)
    }

    /// Adds an argument after `req` to the prepared call.
    ///
    /// # Errors
    /// The stack cannot grow.
    pub(crate) fn add_argument(&self, lua: &Lua, argument: &Table) -> mlua::Result<()> {
        let state = self.state;
        lua.exec_raw_lua(|raw| {
            // SAFETY: as in `prepare`.
            unsafe {
                if ffi::lua_checkstack(raw.state(), 1) == 0 || ffi::lua_checkstack(state, 1) == 0 {
                    return Err(mlua::Error::StackError);
                }
                raw.push(argument)?;
                ffi::lua_xmove(raw.state(), state, 1);
                Ok(())
            }
        })
    }

    /// Runs the prepared call with one more argument.
    pub(crate) fn start_with_argument(&self, lua: &Lua) -> Ran {
        self.run(lua, 2)
    }

    /// Resumes after a yield. A script cannot resume or close this coroutine. If a script did so, this call
    /// would fail.
    pub(crate) fn resume(&self, lua: &Lua) -> Ran {
        if self.is_suspended() { self.run(lua, 0) } else { Ran::Failed(mlua::Error::CoroutineUnresumable) }
    }

    /// Resumes after one of our functions waited.
    ///
    /// In the script, that function returns the values, or raises the error with the position of its call.
    pub(crate) fn settle(&self, lua: &Lua, answer: mlua::Result<MultiValue>) -> Ran {
        if !self.is_suspended() {
            return Ran::Failed(mlua::Error::CoroutineUnresumable);
        }
        match answer.and_then(|values| self.hand_over(lua, &values)) {
            Ok(count) => self.run(lua, count),
            Err(error) => {
                self.push_error(lua, &error);
                let state = self.state;
                // SAFETY: the coroutine is suspended, and the error is on top of its stack.
                let status = lua.exec_raw_lua(|raw| unsafe { ffi::lua_resumeerror(state, raw.state()) });
                self.ran(lua, status)
            }
        }
    }

    fn is_suspended(&self) -> bool {
        // SAFETY: the state lives as long as the thread.
        unsafe { ffi::lua_status(self.state) == ffi::LUA_YIELD }
    }

    /// Moves values to the coroutine.
    fn hand_over(&self, lua: &Lua, values: &MultiValue) -> mlua::Result<c_int> {
        let count = values.len().min(RETURN_VALUES_MAX);
        lua.exec_raw_lua(|raw| {
            // SAFETY: pushing a handle allocates nothing. The frame of a C function has more slots than these
            // values need.
            unsafe {
                if ffi::lua_checkstack(raw.state(), 1) == 0 {
                    return Err(mlua::Error::StackError);
                }
                for value in values.iter().take(count) {
                    raw.push(value)?;
                    ffi::lua_xmove(raw.state(), self.state, 1);
                }
            }
            Ok(count as c_int)
        })
    }

    fn push_error(&self, lua: &Lua, error: &mlua::Error) {
        let text = match error {
            mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
            other => other.to_string(),
        };
        // SAFETY: the frame of a C function has slots for three values. Without a limit nothing raises.
        unlimited(lua, || unsafe {
            ffi::luaL_where(self.state, 1);
            ffi::lua_pushlstring_(self.state, text.as_ptr().cast(), text.len());
            ffi::lua_concat(self.state, 2);
        });
    }

    /// Returns the traceback of the suspended coroutine.
    pub(crate) fn traceback(&self, lua: &Lua) -> String {
        let coroutine = self.state;
        // SAFETY: the frames of a coroutine that does not run do not change.
        let text: mlua::Result<LuaString> =
            unsafe { lua.exec_raw((), |state| ffi::luaL_traceback(state, coroutine, std::ptr::null(), 0)) };
        text.map(|text| text.to_string_lossy()).unwrap_or_default()
    }

    fn run(&self, lua: &Lua, arguments: c_int) -> Ran {
        // SAFETY: the coroutine is suspended, or its function and the arguments are on top of its stack.
        let status = lua.exec_raw_lua(|raw| unsafe { ffi::lua_resume_(self.state, raw.state(), arguments) });
        self.ran(lua, status)
    }

    fn ran(&self, lua: &Lua, status: c_int) -> Ran {
        match status {
            ffi::LUA_OK => Ran::Returned,
            ffi::LUA_YIELD => Ran::Yielded,
            status => Ran::Failed(self.error(lua, status).unwrap_or_else(|error| error)),
        }
    }

    /// Removes the error from the stack and returns it. If the error has no traceback, one is added, which
    /// may run a metamethod of the script.
    fn error(&self, lua: &Lua, status: c_int) -> mlua::Result<mlua::Error> {
        let coroutine = self.state;
        // SAFETY: a failed coroutine has the error on top of its stack, and its frames still exist for the
        // traceback.
        unsafe {
            let raised: Value = lua.exec_raw((), |state| ffi::lua_xmove(coroutine, state, 1))?;
            match raised {
                Value::Error(error) => Ok(*error),
                Value::String(text) => {
                    let text = text.to_string_lossy();
                    let traceback = unlimited(lua, || self.traceback(lua));
                    Ok(match status {
                        ffi::LUA_ERRMEM => {
                            let cause = mlua::Error::MemoryError(text).into();
                            mlua::Error::CallbackError { traceback, cause }
                        }
                        _ => mlua::Error::RuntimeError(format!("{text}\n{traceback}")),
                    })
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

    /// Passes the first two values that the handler returned to `f`.
    ///
    /// If the handler returned more values than `SLOTS`, the second value counts as a value of an unknown
    /// type. `f` must not run the VM: see [`super::raw`]. No memory limit is set here.
    pub(crate) fn read_returned<R>(&self, f: impl for<'a> FnOnce(RawValue<'a>, RawValue<'a>) -> R) -> R {
        // SAFETY: `lua_checkstack` reserves the slots after the values above the second one are dropped. The
        // stack is then far below a million slots, the maximum of Luau. The two values do not change while
        // `f` reads them. The slots are not reserved before the call, because a waiting call would then hold
        // 8 KiB.
        unsafe {
            let is_flood = ffi::lua_gettop(self.state) > SLOTS;
            ffi::lua_settop(self.state, REQ + 2);
            ffi::lua_checkstack(self.state, SLOTS);
            let second = if is_flood { RawValue::Other("flood") } else { RawValue::at(self.state, REQ + 2) };
            let result = f(RawValue::at(self.state, REQ + 1), second);
            ffi::lua_settop(self.state, REQ + 1);
            result
        }
    }

    /// Removes `req` and the reply table from the stack. Returns `req`, and the function in the field `field`
    /// of the table.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn streaming(&self, lua: &Lua, field: &str) -> mlua::Result<(Table, Function)> {
        let coroutine = self.state;
        // SAFETY: `read_returned` left the two values on the stack.
        unsafe {
            lua.exec_raw(field, |state| {
                ffi::lua_xmove(coroutine, state, 2);
                ffi::lua_insert(state, 1);
                ffi::lua_insert(state, 1);
                // The name is on top, the table is below it, and `req` is below the table.
                ffi::lua_rawget(state, 2);
                ffi::lua_replace(state, 2);
                ffi::lua_settop(state, 2);
            })
        }
    }

    /// Drops the values on the stack.
    ///
    /// If a script has kept the coroutine, the coroutine is dead for that script. If its stack held values,
    /// the script could resume the coroutine.
    pub(crate) fn clear(&self) {
        // SAFETY: the coroutine does not run.
        unsafe { ffi::lua_settop(self.state, 0) };
    }

    /// Prepares a call of `function` with `out`, while `req` stays alive. The coroutine must be cleared.
    ///
    /// # Errors
    /// The stack cannot grow.
    pub(crate) fn prepare_stream(
        &self,
        lua: &Lua,
        req: &Table,
        function: &Function,
        out: &Table,
    ) -> mlua::Result<()> {
        let state = self.state;
        lua.exec_raw_lua(|raw| {
            // SAFETY: as in `prepare`.
            unsafe {
                ffi::lua_settop(state, 0);
                if ffi::lua_checkstack(raw.state(), 3) == 0 || ffi::lua_checkstack(state, PREPARED_SLOTS) == 0
                {
                    return Err(mlua::Error::StackError);
                }
                raw.push(req)?;
                raw.push(function)?;
                raw.push(out)?;
                ffi::lua_xmove(raw.state(), state, 3);
                Ok(())
            }
        })
    }
}

/// Number of stack slots for `req`, the function, and the metatable or the argument.
const PREPARED_SLOTS: c_int = 3;

/// Number of fields for which `req` is created. [`super::stack::Stack::texts`] adds tables to `req`.
const KEPT_FIELDS: c_int = 1;
