//! Conditional requests of scripted resources (RFC 9110 section 13).
//!
//! The validators `etag` and `last_modified` come from a reply or from `req:precondition`.

use std::borrow::Cow;

use mlua::{Lua, Table, Value};
use tollgate_http::{Precondition, RequestHead, Validators};
use tollgate_value::TIMESTAMP_LAST_US;

use crate::arguments::{options, text, unfit, whole_number};
use crate::error::shown;

/// Returns the entity tag for a text. A plain text gets quotes, while `"..."` and `W/"..."` are already tags.
///
/// # Errors
/// The text has a character that a tag must not have (RFC 9110 section 8.8.3). The error states the allowed
/// texts.
pub(crate) fn entity_tag(given: &[u8]) -> Result<Vec<u8>, String> {
    let opaque = given.strip_prefix(b"W/").unwrap_or(given);
    let quoted = opaque.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let inner = quoted.unwrap_or(given);
    let is_tag = !inner.is_empty()
        && inner.len() <= TAG_BYTES_MAX
        && inner.iter().all(|&byte| byte != b'"' && (byte.is_ascii_graphic() || byte >= 0x80));
    match (is_tag, quoted) {
        (true, Some(_)) => Ok(given.to_vec()),
        (true, None) => Ok([b"\"", given, b"\""].concat()),
        (false, _) => Err(format!(
            "\"{}\": allowed are 1 to {TAG_BYTES_MAX} bytes without blanks and quotes, or a whole tag such as W/\"7\"",
            shown(given)
        )),
    }
}

/// Evaluates the conditions of a request for a resource with these validators. An empty tag means no tag.
pub(crate) fn evaluate(head: &RequestHead, etag: &[u8], modified_us: Option<i64>) -> Precondition {
    let modified_s = modified_us.and_then(|us| u64::try_from(us / 1_000_000).ok());
    Precondition::evaluate(head, &Validators { etag, modified_s })
}

/// Evaluates the conditions of a request before the handler acts. Returns nil, or the reply 304 or 412.
pub(crate) fn precondition(lua: &Lua, head: &RequestHead, given: &Value) -> mlua::Result<Option<Table>> {
    let [etag, last_modified, exists] =
        options("argument of req:precondition", given, ["etag", "last_modified", "exists"])?;
    let tag = match &etag {
        Value::Nil => Cow::Borrowed(&[][..]),
        value => entity_tag(&text("etag of req:precondition", value)?)
            .map_err(|problem| mlua::Error::runtime(format!("etag of req:precondition is {problem}")))?
            .into(),
    };
    let modified_us = match &last_modified {
        Value::Nil => None,
        value => Some(whole_number("last_modified of req:precondition", value, 0..=TIMESTAMP_LAST_US)?),
    };
    let exists = match exists {
        Value::Nil => true,
        Value::Boolean(exists) => exists,
        other => return Err(unfit("exists of req:precondition", &other, "true, false")),
    };
    let outcome = match exists {
        true => evaluate(head, &tag, modified_us),
        // No tag matches a resource that does not exist, not even `*` (RFC 9110 section 13.1.1).
        false if head.field("if-match").is_some() => Precondition::Failed,
        false => Precondition::Met,
    };
    let status = match outcome {
        Precondition::Met => return Ok(None),
        Precondition::NotModified => 304,
        Precondition::Failed => 412,
    };
    let reply = lua.create_table()?;
    reply.raw_set("status", status)?;
    reply.raw_set("etag", etag)?;
    reply.raw_set("last_modified", last_modified)?;
    Ok(Some(reply))
}

const TAG_BYTES_MAX: usize = 256;
