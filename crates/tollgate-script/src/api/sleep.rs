//! `tollgate.sleep`: suspends the call for a time.

use std::rc::Rc;
use std::time::Duration;

use mlua::{Function, Lua, Value};

use crate::arguments::kind;
use crate::clock::Clock;
use crate::sys::operation;
use crate::waits::{Waits, nothing};

/// Creates the function.
pub(super) fn install(lua: &Lua, waits: &Rc<Waits>, clock: &Clock) -> mlua::Result<Function> {
    let (own, clock) = (Rc::clone(waits), clock.clone());
    let begin = lua.create_function(move |_, seconds: Value| {
        let duration = duration(&seconds)?;
        let clock = clock.clone();
        own.begin(async move {
            // The sleep begins with the first poll, because a timer needs the runtime.
            clock.sleep(duration).await;
            nothing()
        });
        Ok(())
    })?;
    operation::function(lua, waits, c"tollgate.sleep", &begin)
}

fn duration(seconds: &Value) -> mlua::Result<Duration> {
    let found = match seconds {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        other => return Err(refused(&format!("a {}", kind(other)))),
    };
    let allowed = (0.0..=SECONDS_MAX).contains(&found).then_some(found);
    allowed.map(Duration::from_secs_f64).ok_or_else(|| refused(&found.to_string()))
}

fn refused(found: &str) -> mlua::Error {
    mlua::Error::runtime(format!(
        "time of tollgate.sleep is {found}: allowed are seconds from 0 to {SECONDS_MAX}"
    ))
}

const SECONDS_MAX: f64 = 86_400.0;
