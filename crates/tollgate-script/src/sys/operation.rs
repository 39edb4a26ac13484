//! Functions that suspend their call. A Rust function begins the operation, and the C function around it
//! yields.

use std::ffi::{CStr, c_int, c_void};
use std::rc::Rc;

use mlua::{AnyUserData, Function, Lua, ffi};

use crate::waits::Waits;

/// Creates the function `name`. The function calls `begin` with its arguments, in a coroutine that can wait.
///
/// If `begin` began an operation, the call continues with the result of the operation. If not, the call
/// continues with the return values of `begin`.
///
/// # Errors
/// Out of memory.
pub(crate) fn function(
    lua: &Lua,
    waits: &Rc<Waits>,
    name: &'static CStr,
    begin: &Function,
) -> mlua::Result<Function> {
    let address = Rc::as_ptr(waits).cast_mut().cast::<c_void>();
    let owner: AnyUserData = lua.create_any_userdata(Rc::clone(waits))?;
    let shown = name.to_str().unwrap_or_default();
    // SAFETY: the upvalues are the values in the order of `upvalue`. The owner is one of them and keeps the
    // address valid.
    unsafe {
        lua.exec_raw((owner, mlua::LightUserData(address), begin, shown), |state| {
            ffi::lua_pushcclosurek(state, run, name.as_ptr(), ffi::lua_gettop(state), None);
        })
    }
}

/// Indices of the upvalues of the C function. The owner has index 1.
mod upvalue {
    pub(super) const WAITS: i32 = 2;
    pub(super) const BEGIN: i32 = 3;
    pub(super) const NAME: i32 = 4;
}

unsafe extern "C-unwind" fn run(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: `function` made the upvalues, and their owner lives as long as this function. No value here
    // needs to be dropped when Luau throws through this function.
    unsafe {
        let waits = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(upvalue::WAITS)).cast::<Waits>();
        let can_yield = ffi::lua_isyieldable(state) != 0;
        if let Some(reason) = (*waits).refusal(state.cast_const().cast(), can_yield) {
            ffi::luaL_where(state, 1);
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(upvalue::NAME));
            ffi::lua_pushlstring_(state, c" ".as_ptr(), 1);
            ffi::lua_pushlstring_(state, reason.as_ptr().cast(), reason.len());
            ffi::lua_concat(state, 4);
            ffi::lua_error(state);
        }
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(upvalue::BEGIN));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        if (*waits).has_begun() { ffi::lua_yield(state, 0) } else { ffi::lua_gettop(state) }
    }
}
