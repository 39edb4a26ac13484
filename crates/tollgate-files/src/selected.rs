//! Selects the part of a representation for a request: all of it, ranges, or only a 304 (RFC 9110 sections 13
//! to 15).

use std::ops::Range;

use bytes::Bytes;
use tollgate_http::{Method, Precondition, Ranges, RequestHead, StatusCode, Validators, is_range_current};

use crate::file_slice::FileSlice;
use crate::reply::{FilePart, FileReply};
use crate::representation::{Heads, Representation};
use crate::source::Content;

/// Returns the reply to GET or HEAD. `now_s` is the current time in seconds since 1970.
pub(crate) fn reply(of: &Representation, heads: &Heads, head: &RequestHead, now_s: u64) -> FileReply {
    let validators = of.validators(heads);
    match Precondition::evaluate(head, &validators) {
        Precondition::Failed => {
            FileReply::text(StatusCode::PRECONDITION_FAILED, "the resource does not match the precondition")
        }
        Precondition::NotModified => FileReply {
            lines: heads.lines_without_content.clone(),
            ..FileReply::empty(StatusCode::NOT_MODIFIED)
        },
        Precondition::Met => match ranges(of.len(), &of.validators_of_ranges(heads), head, now_s) {
            Ranges::Whole => all(of, heads),
            Ranges::Unsatisfiable => {
                let text = "the resource has no byte of this range";
                let length = format!("bytes */{}", of.len());
                FileReply::text(StatusCode::RANGE_NOT_SATISFIABLE, text).with("Content-Range", length)
            }
            Ranges::Parts(parts) => match &parts[..] {
                [part] => single(of, heads, part),
                // Several parts cannot be sent: the bytes between parts are not encoded, but a client decodes
                // the whole content (RFC 9110 section 8.4).
                _ if of.coding().is_some() => all(of, heads),
                parts => multipart(of, heads, parts),
            },
        },
    }
}

/// Returns the ranges of a request. Only GET has ranges, and two Range lines are both ignored (RFC 9110
/// section 14.2).
fn ranges(len: u64, validators: &Validators<'_>, head: &RequestHead, now_s: u64) -> Ranges {
    let mut lines = head.raw_fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"range"));
    match (lines.next(), lines.next()) {
        (Some((_, range)), None)
            if head.method() == Method::Get && is_range_current(head, validators, now_s) =>
        {
            Ranges::select(range, len)
        }
        _ => Ranges::Whole,
    }
}

/// Returns the reply to a request without conditions: the whole representation.
pub(crate) fn all(of: &Representation, heads: &Heads) -> FileReply {
    FileReply { lines: heads.lines.clone(), ..whole(of, StatusCode::OK) }
}

/// Returns the whole content, without fields.
pub(crate) fn whole(of: &Representation, status: StatusCode) -> FileReply {
    let mut reply = FileReply::empty(status);
    push(&mut reply, of, &(0..of.len()));
    reply
}

fn single(of: &Representation, heads: &Heads, part: &Range<u64>) -> FileReply {
    let mut reply = FileReply { lines: heads.lines.clone(), ..FileReply::empty(StatusCode::PARTIAL_CONTENT) };
    reply.push("Content-Range", content_range(part, of.len()));
    push(&mut reply, of, part);
    reply
}

/// Returns the reply with several parts (RFC 9110 section 14.6). If the system has no random bytes for a
/// boundary, the whole content is sent.
fn multipart(of: &Representation, heads: &Heads, parts: &[Range<u64>]) -> FileReply {
    let Ok(boundary) = getrandom::u64() else {
        return all(of, heads);
    };
    let boundary = format!("{boundary:016x}");
    let mut reply =
        FileReply { lines: heads.lines_of_parts.clone(), ..FileReply::empty(StatusCode::PARTIAL_CONTENT) };
    reply.push("Content-Type", format!("multipart/byteranges; boundary={boundary}"));
    for part in parts {
        let kind = of.content_type();
        let range = content_range(part, of.len());
        let head = format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n");
        push_bytes(&mut reply, head.as_bytes());
        push(&mut reply, of, part);
    }
    push_bytes(&mut reply, format!("\r\n--{boundary}--\r\n").as_bytes());
    reply
}

fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1))
}

/// Appends a part of the representation to the content.
fn push(reply: &mut FileReply, of: &Representation, part: &Range<u64>) {
    match &of.content {
        Content::Memory(content) => {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
            let part = content.slice(place(part.start)..place(part.end));
            if reply.content.is_empty() { reply.content = part } else { push_bytes(reply, &part) }
        }
        Content::File(_) if part.is_empty() => {}
        Content::File(file) => {
            let slice =
                FileSlice { file: file.clone(), offset: of.base() + part.start, len: part.end - part.start };
            reply.parts.push(FilePart { slice, then: Bytes::new() });
        }
    }
}

/// Appends bytes to the content.
fn push_bytes(reply: &mut FileReply, bytes: &[u8]) {
    let end = reply.parts.last_mut().map_or(&mut reply.content, |part| &mut part.then);
    *end = [end, bytes].concat().into();
}
