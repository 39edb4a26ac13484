//! `req:accepts(...)`: selects the media type that the client prefers (RFC 9110 section 12.5.1).

use std::rc::Rc;

use mlua::{Function, Lua, Table, Value, Variadic};
use tollgate_http::acceptable_media;

use crate::active::{ActiveCell, with_active};
use crate::arguments::text;
use crate::error::shown;

/// Creates the function.
pub(super) fn install(lua: &Lua, active: &Rc<ActiveCell>) -> mlua::Result<Function> {
    let active = Rc::clone(active);
    lua.create_function(move |_, (req, offered): (Table, Variadic<Value>)| {
        let types = offered.iter().map(media_type).collect::<mlua::Result<Vec<_>>>()?;
        let types: Vec<_> = types.iter().map(String::as_str).collect();
        let place = with_active(&active, &req, |active| Ok(acceptable_media(&active.request.head, &types)))?;
        Ok(place.and_then(|place| offered.get(place)).cloned().unwrap_or(Value::Nil))
    })
}

fn media_type(value: &Value) -> mlua::Result<String> {
    let bytes = text("a media type of req:accepts", value)?;
    match std::str::from_utf8(&bytes) {
        Ok(text)
            if text.split('/').filter(|part| !part.is_empty()).count() == 2
                && !text.contains([';', '*', ',']) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(mlua::Error::runtime(format!(
            "req:accepts has \"{}\": allowed are media types like \"text/html\", without parameters",
            shown(&bytes)
        ))),
    }
}
