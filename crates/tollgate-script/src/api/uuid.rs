//! `tollgate.uuid`: new ids (RFC 9562), random or ordered by time.

use mlua::{Lua, LuaString, Table};
use uuid::{Builder, Uuid};

use crate::arguments::close;
use crate::clock::Clock;
use crate::memory::unlimited;

/// Creates the table `tollgate.uuid`.
pub(super) fn install(lua: &Lua, clock: &Clock) -> mlua::Result<Table> {
    let uuid = lua.create_table()?;
    let v4 = |lua: &Lua, ()| random().and_then(|bytes| shown(lua, Builder::from_random_bytes(bytes)));
    uuid.raw_set("v4", lua.create_function(v4)?)?;
    let clock = clock.clone();
    let v7 = move |lua: &Lua, ()| {
        let millis = u64::try_from(clock.wall_us() / 1000).unwrap_or_default();
        random().and_then(|bytes| shown(lua, Builder::from_unix_timestamp_millis(millis, &bytes)))
    };
    uuid.raw_set("v7", lua.create_function(v7)?)?;
    close(lua, "tollgate.uuid", &uuid)?;
    Ok(uuid)
}

fn random<const N: usize>() -> mlua::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| mlua::Error::runtime(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

fn shown(lua: &Lua, builder: Builder) -> mlua::Result<LuaString> {
    let mut text = Uuid::encode_buffer();
    let text = builder.into_uuid().hyphenated().encode_lower(&mut text);
    unlimited(lua, || lua.create_string(text))
}
