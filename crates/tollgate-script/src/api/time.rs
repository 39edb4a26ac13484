//! `tollgate.time`: wall time and monotonic time in microseconds, and wall time as text.
//!
//! The text forms are RFC 3339, and IMF-fixdate of RFC 9110 section 5.6.7.

use std::sync::LazyLock;
use std::time::{Instant, UNIX_EPOCH};

use mlua::{Lua, LuaString, Table, Value};
use tollgate_http::{http_date_of_us, parse_http_date};
use tollgate_value::{TIMESTAMP_US, parse_timestamp, trimmed_timestamp_text};

use crate::arguments::{close, text};
use crate::clock::Clock;
use crate::error::shown;
use crate::memory::unlimited;
use crate::times::{number, timestamp};

/// Creates the table `tollgate.time`.
pub(super) fn install(lua: &Lua, clock: &Clock) -> mlua::Result<Table> {
    let time = lua.create_table()?;
    // A double represents this time exactly until 2255.
    let own = clock.clone();
    time.raw_set("now_us", lua.create_function(move |_, ()| Ok(own.wall_us() as f64))?)?;
    let (own, start) = (clock.clone(), *START);
    let monotonic = move |_: &Lua, ()| Ok(own.now().saturating_duration_since(start).as_micros() as f64);
    time.raw_set("monotonic_us", lua.create_function(monotonic)?)?;
    time.raw_set("rfc3339", lua.create_function(|lua, us: Value| rfc3339(lua, &us))?)?;
    let date = |lua: &Lua, us: Value| {
        let us = timestamp("time of tollgate.time.http_date", &us)?;
        unlimited(lua, || lua.create_string(http_date_of_us(us)))
    };
    time.raw_set("http_date", lua.create_function(date)?)?;
    time.raw_set("parse", lua.create_function(|lua, text: Value| parse(lua, &text))?)?;
    close(lua, "tollgate.time", &time)?;
    Ok(time)
}

fn rfc3339(lua: &Lua, us: &Value) -> mlua::Result<LuaString> {
    let us = timestamp("time of tollgate.time.rfc3339", us)?;
    unlimited(lua, || lua.create_string(trimmed_timestamp_text(us).unwrap_or_default()))
}

/// Returns microseconds since 1970, or nil and the reason.
fn parse(lua: &Lua, value: &Value) -> mlua::Result<(Option<f64>, Option<LuaString>)> {
    let given = text("text of tollgate.time.parse", value)?;
    match parsed(&given) {
        Some(us) => Ok((Some(number(us)), None)),
        None => {
            let reason = format!("\"{}\" is neither a time of RFC 3339 nor an HTTP date", shown(&given));
            unlimited(lua, || Ok((None, Some(lua.create_string(reason)?))))
        }
    }
}

fn parsed(given: &[u8]) -> Option<i64> {
    if given.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(given).ok()?;
    parse_timestamp(text, None).ok().or_else(|| from_http_date(given))
}

fn from_http_date(given: &[u8]) -> Option<i64> {
    let us = match parse_http_date(given)?.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_micros()).ok()?,
    };
    TIMESTAMP_US.contains(&us).then_some(us)
}

/// Start of the monotonic time, for all workers.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Maximum bytes of a text that is parsed. Any time with an offset is shorter.
const TEXT_BYTES_MAX: usize = 64;
