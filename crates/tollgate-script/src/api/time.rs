//! `tollgate.time`: wall time and monotonic time in microseconds, and wall time as text.
//!
//! The text forms are RFC 3339, and IMF-fixdate of RFC 9110 section 5.6.7.

use std::sync::LazyLock;
use std::time::{Instant, UNIX_EPOCH};

use jiff::Timestamp;
use mlua::{Lua, LuaString, Table, Value};
use tollgate_http::parse_http_date;

use crate::arguments::{close, text, whole_number};
use crate::clock::Clock;
use crate::error::shown;
use crate::http_date::{HTTP_LAST_US, http_date_of};
use crate::memory::unlimited;

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
        let us = whole_number("time of tollgate.time.http_date", &us, 0..=HTTP_LAST_US)?;
        unlimited(lua, || lua.create_string(http_date_of(us)))
    };
    time.raw_set("http_date", lua.create_function(date)?)?;
    time.raw_set("parse", lua.create_function(|lua, text: Value| parse(lua, &text))?)?;
    close(lua, "tollgate.time", &time)?;
    Ok(time)
}

fn rfc3339(lua: &Lua, us: &Value) -> mlua::Result<LuaString> {
    let us = whole_number("time of tollgate.time.rfc3339", us, RFC3339_FIRST_US..=HTTP_LAST_US)?;
    let time = Timestamp::from_microsecond(us).map_err(|error| mlua::Error::runtime(error.to_string()))?;
    unlimited(lua, || lua.create_string(time.to_string()))
}

/// Returns microseconds since 1970, or nil and the reason.
fn parse(lua: &Lua, value: &Value) -> mlua::Result<(Option<f64>, Option<LuaString>)> {
    let given = text("text of tollgate.time.parse", value)?;
    match parsed(&given) {
        Some(us) => Ok((Some(us as f64), None)),
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
    let stamp = std::str::from_utf8(given).ok()?.parse::<Timestamp>();
    let from_date = || {
        let since = parse_http_date(given)?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_micros()).ok()
    };
    stamp.map(Timestamp::as_microsecond).ok().or_else(from_date)
}

/// Start of the monotonic time, for all workers.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// Start of the year 0000, the first year of RFC 3339, in microseconds since 1970.
const RFC3339_FIRST_US: i64 = -62_167_219_200_000_000;
/// Maximum bytes of a text that is parsed. Any time with an offset is shorter.
const TEXT_BYTES_MAX: usize = 64;
