//! Reads the returned values of a script, depending on its role in the route.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate_http::StatusCode;

use super::content::{Content, ContentType, Streamed};
use super::headers::{headers, set_one_cookie, status};
use super::outcome::Outcome;
use super::reader::{Reader, Result, key_text, reply};
use super::validators::ReplyValidators;
use crate::error::CallError;
use crate::nearest::hint;
use crate::reach::Role;
use crate::sys::raw::{RawTable, RawValue};

impl Reader<'_> {
    /// Reads the first two returned values of a script, depending on its role. `None` means that the next
    /// stage decides.
    ///
    /// # Errors
    /// `Reply` names the field, the value found, and the allowed values.
    pub(crate) fn decision(
        &self,
        role: Role,
        value: RawValue<'_>,
        second: RawValue<'_>,
    ) -> Result<Option<Outcome>> {
        match (role, value, second) {
            (Role::Before | Role::After, RawValue::Nil, RawValue::Nil) => Ok(None),
            (Role::After, RawValue::Table(table), RawValue::Nil) if self.is_pass(table) => Err(reply(
                "an after script returned tollgate.pass, which is for handlers and before scripts: allowed are nothing, \
                 { headers = ... }",
            )),
            (_, RawValue::Table(table), RawValue::Nil) if self.is_pass(table) => Ok(None),
            (Role::After, value, RawValue::Nil) => self.change(value).map(Some),
            _ => self.outcome(value, second).map(Some),
        }
    }

    fn is_pass(&self, table: RawTable<'_>) -> bool {
        table.has_metatable(self.marks.pass_address)
    }

    /// Reads the changes to a reply, which are header fields only.
    fn change(&self, value: RawValue<'_>) -> Result<Outcome> {
        let mut changed = [RawValue::Nil; PARTS.len()];
        match value {
            RawValue::Table(table) => {
                table.pick(self.parts, &mut changed).map_err(|key| unknown_part(&key))?;
            }
            other => {
                return Err(reply(format!(
                    "an after script returned a {}: allowed are nothing, {{ headers = ... }}",
                    other.kind()
                )));
            }
        }
        let [status, given, rest @ ..] = &changed;
        if !matches!(status, RawValue::Nil) || rest.iter().any(|part| !matches!(part, RawValue::Nil)) {
            return Err(reply(
                "an after script may change only headers: allowed are nothing, { headers = ... }",
            ));
        }
        let mut left = self.reply_bytes_max;
        let headers = headers(*given, self.budget, &mut left)?;
        let sets_one_cookie = set_one_cookie(*given)?;
        Ok(Outcome { headers, sets_one_cookie, ..Outcome::empty(200) })
    }

    /// Reads the first two returned values of a handler.
    ///
    /// # Errors
    /// `Reply` names the field, the value found, and the allowed values.
    pub(crate) fn outcome(&self, value: RawValue<'_>, second: RawValue<'_>) -> Result<Outcome> {
        if !matches!(second, RawValue::Nil) {
            return Err(reply(
                "handler returned more than one value: put status, headers and body into one table",
            ));
        }
        match value {
            RawValue::Table(table) => self.table(table),
            RawValue::Integer(_) | RawValue::Number(_) => {
                Ok(Outcome { record: self.record(RawValue::Nil)?, ..Outcome::empty(status(value)?) })
            }
            RawValue::Text(text) => Ok(Outcome {
                content_type: Some(ContentType::Text),
                body: self.content("reply", text)?,
                record: self.record(RawValue::Nil)?,
                ..Outcome::empty(200)
            }),
            RawValue::Nil => Err(reply("handler returned nothing: return a status, a text or a table")),
            other => Err(reply(format!(
                "handler returned a {}: allowed are a status, a text, a table",
                other.kind()
            ))),
        }
    }

    fn table(&self, table: RawTable<'_>) -> Result<Outcome> {
        let mut parts = [RawValue::Nil; PARTS.len()];
        table.pick(self.parts, &mut parts).map_err(|key| unknown_part(&key))?;
        let [given_status, given_headers, record, etag, last_modified, contents @ ..] = &parts;
        let status = if let RawValue::Nil = given_status { 200 } else { status(*given_status)? };
        let mut left = self.reply_bytes_max;
        let mut headers = headers(*given_headers, self.budget, &mut left)?;
        let validators = ReplyValidators::read(*etag, *last_modified, self.active)?;
        validators.push_lines(&mut headers, &mut left)?;
        let Content { body, content_type, streamed, mut file } = self.body(contents)?;
        if body.len() > left {
            let (bytes, limit) = (body.len() + self.reply_bytes_max - left, self.reply_bytes_max);
            return Err(reply(format!(
                "reply with its headers exceeds limit: {bytes} bytes, limit {limit} bytes"
            )));
        }
        if let Some(file) = &mut file {
            file.take_type(&mut headers)?;
        }
        let has_content = streamed.is_some() || file.is_some() || !body.is_empty();
        if has_content && !StatusCode::new(status).is_some_and(StatusCode::may_have_content) {
            let beside = match (streamed, &file) {
                (Some(by), _) => by.name().to_owned(),
                (None, Some(_)) => "file".to_owned(),
                (None, None) => format!("{} bytes", body.len()),
            };
            return Err(reply(format!(
                "reply.status is {status}, which allows no content, but the reply has {beside}"
            )));
        }
        let is_said = |what: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(what));
        let content_type = content_type.filter(|_| !is_said("content-type"));
        if streamed == Some(Streamed::Events) {
            let missing = EVENT_HEADERS.into_iter().filter(|(name, _)| !is_said(name));
            let missing = missing.map(|(name, value)| (Cow::Borrowed(name), Bytes::from_static(value)));
            headers.extend(missing.collect::<Vec<_>>());
        }
        let record = self.record(*record)?;
        let mut outcome =
            Outcome { content_type, headers, body, streamed, file, record, ..Outcome::empty(status) };
        validators.apply(&mut outcome, self.active);
        Ok(outcome)
    }
}

/// Fields that a stream of events has unless the script sets them. Without `x-accel-buffering`, nginx holds
/// the events back until a buffer is full.
const EVENT_HEADERS: [(&str, &[u8]); 2] = [("cache-control", b"no-store"), ("x-accel-buffering", b"no")];

#[cold]
fn unknown_part(key: &RawValue<'_>) -> CallError {
    let name = key_text(key);
    let hint = hint(&name, PARTS);
    reply(format!("reply has an unknown field \"{name}\"{hint}: allowed are {}", PARTS.join(", ")))
}

/// The fields of a reply table. The fields of [`CONTENTS`](super::content::CONTENTS) are at the end of the
/// list.
pub(crate) const PARTS: [&str; 12] = [
    "status",
    "headers",
    "record",
    "etag",
    "last_modified",
    "body",
    "json",
    "html",
    "xml",
    "write",
    "events",
    "file",
];

#[cfg(test)]
mod tests {
    use super::super::content::CONTENTS;
    use super::*;

    #[test]
    fn the_last_fields_give_a_content() {
        assert_eq!(PARTS[PARTS.len() - CONTENTS.len()..], CONTENTS);
    }
}
