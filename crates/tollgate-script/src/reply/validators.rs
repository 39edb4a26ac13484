//! `etag` and `last_modified` of a reply, which become two header lines.
//!
//! For a 200 reply to GET or HEAD, they also decide the conditions of the request. With any other status the
//! conditions of the request are ignored (RFC 9110 section 13.2.1). The conditions are also ignored for a
//! method that writes. The script has already written when it returns its reply.

use bytes::Bytes;
use tollgate_http::{Method, Precondition, http_date_of_us};
use tollgate_value::TIMESTAMP_LAST_US;

use super::headers::{HeaderLine, push_line};
use super::outcome::Outcome;
use super::reader::{Result, reply};
use crate::active::ActiveCell;
use crate::error::CallError;
use crate::precondition::{entity_tag, evaluate};
use crate::sys::raw::RawValue;

/// Validators that a script gives for its representation.
#[derive(Default)]
pub(super) struct ReplyValidators {
    etag: Option<Vec<u8>>,
    modified_us: Option<i64>,
}

impl ReplyValidators {
    pub(super) fn read(etag: RawValue<'_>, last_modified: RawValue<'_>, active: &ActiveCell) -> Result<Self> {
        let etag = match etag {
            RawValue::Nil => None,
            RawValue::Text(text) => {
                Some(entity_tag(text).map_err(|problem| reply(format!("reply.etag is {problem}")))?)
            }
            other => return Err(reply(format!("reply.etag is a {}: allowed is a string", other.kind()))),
        };
        let modified_us = match last_modified {
            RawValue::Nil => None,
            RawValue::Integer(us @ 0..=TIMESTAMP_LAST_US) => {
                // A representation cannot be newer than its reply (RFC 9110 section 8.8.2.1).
                let now_us = active.borrow().as_ref().map_or(us, |active| active.request.time_us);
                Some(us.min(now_us))
            }
            RawValue::Integer(us) => return Err(no_time(&us.to_string())),
            RawValue::Number(us) => return Err(no_time(&us.to_string())),
            other => return Err(no_time(&format!("a {}", other.kind()))),
        };
        Ok(Self { etag, modified_us })
    }

    pub(super) fn push_lines(&self, lines: &mut Vec<HeaderLine>, left: &mut usize) -> Result<()> {
        if let Some(etag) = &self.etag {
            push_line(lines, left, "etag", RawValue::Text(etag))?;
        }
        if let Some(us) = self.modified_us {
            push_line(lines, left, "last-modified", RawValue::Text(&http_date_of_us(us)))?;
        }
        Ok(())
    }

    /// Changes the outcome to 304 or 412 if the conditions of the request require it. The record does not
    /// change.
    pub(super) fn apply(&self, outcome: &mut Outcome, active: &ActiveCell) {
        if self.etag.is_none() && self.modified_us.is_none() {
            return;
        }
        let active = active.borrow();
        let head = active.as_ref().map(|active| &active.request.head);
        let Some(head) =
            head.filter(|head| outcome.status == 200 && matches!(head.method(), Method::Get | Method::Head))
        else {
            return;
        };
        outcome.status = match evaluate(head, self.etag.as_deref().unwrap_or_default(), self.modified_us) {
            Precondition::Met => return,
            Precondition::NotModified => 304,
            Precondition::Failed => 412,
        };
        outcome.headers.retain(|(name, _)| !is_about_content(name));
        (outcome.content_type, outcome.streamed, outcome.file) = (None, None, None);
        outcome.body = Bytes::new();
    }
}

/// Returns whether a field describes content, which a 304 or 412 does not have (RFC 9110 section 15.4.5).
fn is_about_content(name: &str) -> bool {
    ["content-type", "content-encoding", "content-language", "content-range", "content-disposition"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

#[cold]
fn no_time(found: &str) -> CallError {
    reply(format!(
        "reply.last_modified is {found}: allowed are microseconds since 1970, such as req.time, up to the year 9999"
    ))
}
