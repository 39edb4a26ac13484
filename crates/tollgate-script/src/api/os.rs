//! The time functions of `os`, for tests that stop the clock.

use std::time::Instant;

use mlua::Lua;

use crate::clock::Clock;

/// Makes `os` follow the clock of a test. Without this, `os` follows the system clock.
///
/// # Errors
/// Out of memory.
pub(super) fn install(lua: &Lua, clock: &Clock) -> mlua::Result<()> {
    if let Clock::System = clock {
        return Ok(());
    }
    let own = clock.clone();
    let wall_s = lua.create_function(move |_, ()| Ok(own.wall_us().div_euclid(1_000_000) as f64))?;
    let own = clock.clone();
    let ahead_s = lua.create_function(move |_, ()| {
        let (own, system) = (own.now(), Instant::now());
        let ahead = own.saturating_duration_since(system).as_secs_f64();
        Ok(ahead - system.saturating_duration_since(own).as_secs_f64())
    })?;
    lua.load(OS).set_name("=os").call((wall_s, ahead_s))
}

const OS: &str = r"
local wall_s, ahead_s = ...
local time, date, clock = os.time, os.date, os.clock

os.time = function(at)
	return if at == nil then wall_s() else time(at)
end

os.date = function(format, at)
	return date(format, if at == nil then wall_s() else at)
end

os.clock = function()
	return clock() + ahead_s()
end
";
