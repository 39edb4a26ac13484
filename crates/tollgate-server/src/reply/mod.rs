//! The type of replies, and the encoding of their heads.

mod plain;

use std::borrow::Cow;
use std::cell::Cell;
use std::io;

use bytes::Bytes;
use tollgate_http::route::location_below;
use tollgate_http::{
    Connection, Method, Methods, ReplyBody, StatusCode, begin_reply_head, end_reply_head, push_field,
};
use tollgate_log::Level;
use tollgate_script::{HeaderLine, Outcome, Replied, RequestId};

use crate::recorder::{AckOutcome, Gate};
pub(crate) use plain::PlainReply;
use tollgate_files::{FilePart, FileReply};

/// Maximum bytes of content that are read from files into memory.
const READ_BYTES_MAX: u64 = 64 << 20;
pub(crate) const REQUEST_ID: &str = "X-Request-Id";
/// The field that announces the policy of a host (RFC 6797 section 6.1).
pub(crate) const STRICT_TRANSPORT_SECURITY: &str = "Strict-Transport-Security";
const OUTCOME: &str = "Tollgate-Outcome";
const SET_COOKIE: &str = "Set-Cookie";

/// A complete reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// Encoded field lines, which many replies share.
    pub(crate) lines: Bytes,
    pub(crate) fields: Vec<HeaderLine>,
    pub(crate) content: Bytes,
    /// File parts after the content.
    pub(crate) parts: Vec<FilePart>,
    pub(crate) extent: Extent,
    /// Encoded interim replies that precede it (RFC 9110 section 15.2).
    pub(crate) interim: Bytes,
    /// Whether `lines` has the `Date` of a backend. If it has none, the encoder writes the current date.
    pub(crate) has_date: bool,
    /// Whether it stands in place of a reply that is not valid by the schema of its route.
    pub(crate) is_invalid: bool,
}

/// Part of the content that is known when the head is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of the content is known.
    Whole,
    /// Nothing is known. The content follows the head while it is written.
    Streamed,
    /// The length in bytes is known. The content follows while it is written.
    Sized(u64),
}

impl Reply {
    /// Creates a reply of the server with one line of text.
    pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let mut content: String = text.into();
        content.push('\n');
        Self::new(status, "text/plain; charset=utf-8", content.into())
    }

    pub(crate) fn new(status: StatusCode, content_type: &'static str, content: Bytes) -> Self {
        let fields = vec![(Cow::Borrowed("Content-Type"), Bytes::from_static(content_type.as_bytes()))];
        Self { fields, content, ..Self::empty(status) }
    }

    pub(crate) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            lines: Bytes::new(),
            fields: Vec::new(),
            content: Bytes::new(),
            parts: Vec::new(),
            extent: Extent::Whole,
            interim: Bytes::new(),
            has_date: false,
            is_invalid: false,
        }
    }

    /// Encodes the fields, so that copies of the reply share the lines.
    pub(crate) fn prepared(mut self) -> Self {
        let mut lines = Vec::from(self.lines);
        for (name, value) in self.fields.drain(..) {
            push_field(&mut lines, name.as_bytes(), &value);
        }
        Self { lines: lines.into(), ..self }
    }

    /// Returns the length of the whole content in bytes.
    pub(crate) fn content_bytes(&self) -> u64 {
        if let Extent::Sized(bytes) = self.extent {
            return bytes;
        }
        let parts = self.parts.iter().map(|part| part.slice.len + part.then.len() as u64);
        self.content.len() as u64 + parts.sum::<u64>()
    }

    /// Returns the memory of the reply in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len());
        self.lines.len() + fields.sum::<usize>() + self.interim.len() + self.content.len()
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Bytes>) -> Self {
        self.push(name, value);
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Returns whether the reply has this field, also in its encoded lines.
    pub(crate) fn has_line(&self, name: &str) -> bool {
        let mut lines = self.lines.split_inclusive(|&byte| byte == b'\n');
        self.has(name) || lines.any(|line| split_line(line).0.eq_ignore_ascii_case(name.as_bytes()))
    }

    pub(crate) fn push(&mut self, name: &'static str, value: impl Into<Bytes>) {
        self.fields.push((Cow::Borrowed(name), value.into()));
    }

    /// Returns whether `Allow` is missing. RFC 9110 section 15.5.6: a 405 needs this field, even if a script
    /// created the reply.
    pub(crate) fn lacks_allow(&self) -> bool {
        self.status == StatusCode::METHOD_NOT_ALLOWED && !self.has("Allow")
    }

    /// Adds `Allow` if the field is required and missing.
    pub(crate) fn say_what_is_allowed(&mut self, methods: Methods) {
        if self.lacks_allow() {
            self.push("Allow", allowed_methods(methods));
        }
    }

    /// Returns the parts of the reply that `after` scripts get.
    pub(crate) fn for_after_scripts(&self) -> Replied {
        Replied { status: self.status.as_u16(), fields: self.all_fields() }
    }

    /// Returns all fields, including fields in encoded lines.
    pub(crate) fn all_fields(&self) -> Vec<(String, Bytes)> {
        let written = self.lines.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let written = written.filter_map(|line| std::str::from_utf8(line).ok()?.split_once(": "));
        let written = written
            .map(|(name, value)| (name.to_ascii_lowercase(), Bytes::copy_from_slice(value.as_bytes())));
        let own = self.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
        written.chain(own).collect()
    }

    /// Sets fields. Existing fields of the same names are removed.
    pub(crate) fn overwrite(&mut self, fields: &[HeaderLine]) {
        self.remove(|known| fields.iter().any(|(name, _)| name.as_bytes().eq_ignore_ascii_case(known)));
        self.fields.extend_from_slice(fields);
    }

    /// Sets fields like [`overwrite`](Self::overwrite), except that a cookie replaces only the first cookie
    /// of the same name.
    pub(crate) fn overwrite_one_cookie(&mut self, fields: &[HeaderLine]) {
        let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(SET_COOKIE.as_bytes());
        let cookie = fields.iter().find(|(name, _)| is_cookie(name.as_bytes()));
        let name = cookie.map_or(&b""[..], |(_, cookie)| cookie_name(cookie));
        let is_replaced = Cell::new(false);
        self.remove_lines(|known, value| match is_cookie(known) {
            true => cookie_name(value) == name && !is_replaced.replace(true),
            false => fields.iter().any(|(name, _)| name.as_bytes().eq_ignore_ascii_case(known)),
        });
        self.fields.extend_from_slice(fields);
    }

    /// Replaces the value of each encoded line for which `rewritten` returns a value. A value must be valid
    /// for its field.
    pub(crate) fn rewrite_lines(&mut self, rewritten: impl Fn(&[u8], &[u8]) -> Option<Vec<u8>>) {
        let mut lines = Vec::with_capacity(self.lines.len());
        for line in self.lines.split_inclusive(|&byte| byte == b'\n') {
            let (name, value) = split_line(line);
            match rewritten(name, value) {
                Some(value) => lines.extend_from_slice(&[name, b": ", &value, b"\r\n"].concat()),
                None => lines.extend_from_slice(line),
            }
        }
        self.lines = lines.into();
    }

    /// Removes each field if `goes` returns true for its name. Fields in encoded lines are removed, too.
    pub(crate) fn remove(&mut self, goes: impl Fn(&[u8]) -> bool) {
        self.remove_lines(|name, _| goes(name));
    }

    /// Removes each field if `goes` returns true for its name and value. `goes` is called once for each
    /// field, in their order.
    fn remove_lines(&mut self, goes: impl Fn(&[u8], &[u8]) -> bool) {
        let lines: Vec<_> = self.lines.split_inclusive(|&byte| byte == b'\n').collect();
        let stays = |line: &&[u8]| {
            let (name, value) = split_line(line);
            !goes(name, value)
        };
        let kept: Vec<_> = lines.iter().copied().filter(stays).collect();
        if kept.len() < lines.len() {
            self.lines = kept.concat().into();
        }
        self.fields.retain(|(name, value)| !goes(name.as_bytes(), value));
    }

    /// Reads file parts into the content, and blocks on the disk. Only callers without a connection use this
    /// function.
    pub(crate) fn read_parts(&mut self) -> io::Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        if self.content_bytes() > READ_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut content = self.content.to_vec();
        for part in self.parts.drain(..) {
            part.slice.read_through(|bytes| content.extend_from_slice(bytes))?;
            content.extend_from_slice(&part.then);
        }
        self.content = content.into();
        Ok(())
    }

    /// Returns the word that tells the client what became of its request, if the reply has one.
    pub(crate) fn outcome(&self) -> Option<&[u8]> {
        let own = self.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_ref()));
        let mut all = own.chain(self.lines.split_inclusive(|&byte| byte == b'\n').map(split_line));
        all.find(|(name, _)| name.eq_ignore_ascii_case(OUTCOME.as_bytes())).map(|(_, value)| value)
    }

    /// Creates a refusal. Nothing was recorded, so a retry is safe.
    pub(crate) fn refused(status: StatusCode, text: &'static str) -> Self {
        Self::text(status, text).with(OUTCOME, "refused").with("Retry-After", "1")
    }

    /// Copies the fields about the request from an encoded final reply to this reply.
    pub(crate) fn with_kept_fields(mut self, written: &[u8]) -> Self {
        let head = written.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).skip(1);
        for line in head.take_while(|line| !line.is_empty()) {
            if let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(": "))
                && is_kept(name)
            {
                self.fields.push((Cow::Owned(name.to_owned()), Bytes::copy_from_slice(value.as_bytes())));
            }
        }
        self
    }

    /// Creates the reply to a request whose record has an unknown outcome.
    fn unknown(text: &'static str) -> Self {
        Self::text(StatusCode::SERVICE_UNAVAILABLE, text).with(OUTCOME, "unknown")
    }

    /// Returns the reply that replaces another reply whose records did not reach their ack level. Returns
    /// `None` if they did.
    pub(crate) fn in_place(outcome: AckOutcome, gate: &Gate) -> Option<Self> {
        match (outcome, gate) {
            (AckOutcome::Kept, _) => None,
            (AckOutcome::Rejected, Gate::Loaded(loading)) => {
                let reply =
                    Self::new(StatusCode::UNPROCESSABLE_CONTENT, "application/json", loading.summary());
                Some(reply.with(OUTCOME, "rejected"))
            }
            (AckOutcome::Late, Gate::Loaded(loading)) => Some(Self::unknown(loading.kind().late())),
            (AckOutcome::Late | AckOutcome::Lost | AckOutcome::Missing | AckOutcome::Rejected, _) => {
                Some(Self::unknown("the record of this request may be lost: its outcome is unknown"))
            }
        }
    }
}

/// Splits an encoded line into the name and the value of its field.
fn split_line(line: &[u8]) -> (&[u8], &[u8]) {
    let (name, value) = line.split_at(line.iter().position(|&byte| byte == b':').unwrap_or_default());
    (name, value.get(1..).unwrap_or_default().trim_ascii())
}

/// Returns the name of a cookie in a Set-Cookie (RFC 6265 section 4.1.1).
fn cookie_name(cookie: &[u8]) -> &[u8] {
    cookie.split(|byte| matches!(byte, b'=' | b';')).next().unwrap_or_default().trim_ascii()
}

/// Returns whether a replacement reply keeps this field, because it is about the request.
fn is_kept(name: &str) -> bool {
    is_policy_field(name.as_bytes())
        || name.eq_ignore_ascii_case(REQUEST_ID)
        || name.eq_ignore_ascii_case("vary")
        || name.eq_ignore_ascii_case(STRICT_TRANSPORT_SECURITY)
}

impl From<FileReply> for Reply {
    #[inline]
    fn from(FileReply { status, lines, fields, content, parts }: FileReply) -> Self {
        Self { lines, fields, content, parts, ..Self::empty(status) }
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        let status = StatusCode::new(outcome.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self {
            lines: outcome
                .content_type
                .map_or_else(Bytes::new, |kind| Bytes::from_static(kind.line().as_bytes())),
            fields: outcome.headers,
            content: outcome.body,
            extent: if outcome.streamed.is_some() { Extent::Streamed } else { Extent::Whole },
            ..Self::empty(status)
        }
    }
}

/// Method by which a reply marks the end of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The head states the length.
    Length,
    /// The last chunk is the end.
    Chunked,
    /// The close of the connection is the end (HTTP/1.0).
    UntilClose,
}

/// Options for the encoding of a reply for its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writing {
    /// The value of `Date`.
    pub(crate) date: [u8; 29],
    /// Whether the content is left out, because the request used HEAD.
    pub(crate) is_head: bool,
    pub(crate) framing: Framing,
    /// The connection option that the reply names.
    pub(crate) connection: Option<Connection>,
    /// The ack level of its records that the reply names.
    pub(crate) level: Option<Level>,
}

impl Writing {
    /// Returns the form of a reply with content and without a connection option.
    pub(crate) const fn whole(date: [u8; 29]) -> Self {
        Self { date, is_head: false, framing: Framing::Length, connection: None, level: None }
    }
}

pub(crate) fn write_head(out: &mut Vec<u8>, reply: &Reply, id: Option<&RequestId>, writing: Writing) {
    let body = match writing.framing {
        Framing::Length if reply.status.may_have_content() => ReplyBody::Length(reply.content_bytes()),
        Framing::Length => ReplyBody::Length(0),
        Framing::Chunked => ReplyBody::Chunked,
        Framing::UntilClose => ReplyBody::None,
    };
    let date = (!reply.has_date).then_some(&writing.date);
    begin_reply_head(out, reply.status, date, body, writing.connection);
    out.extend_from_slice(&reply.lines);
    for (name, value) in &reply.fields {
        push_field(out, name.as_bytes(), value);
    }
    if let Some(level) = writing.level {
        out.extend_from_slice(b"Tollgate-Ack: ");
        out.extend_from_slice(level.name().as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Some(id) = id
        && !reply.has(REQUEST_ID)
    {
        write_id(out, id);
    }
    end_reply_head(out);
}

/// Writes an encoded reply again, as the last reply of its connection.
pub(crate) fn write_closing(out: &mut Vec<u8>, written: &[u8]) {
    let mut rest = written;
    while let Some(line) = rest.split_inclusive(|&byte| byte == b'\n').next().filter(|line| *line != b"\r\n")
    {
        if line != KEEP_ALIVE {
            out.extend_from_slice(line);
        }
        rest = &rest[line.len()..];
    }
    out.extend_from_slice(b"Connection: close\r\n");
    out.extend_from_slice(rest);
}

/// The connection option for clients of HTTP/1.0.
const KEEP_ALIVE: &[u8] = b"Connection: keep-alive\r\n";

/// Writes an id without a check. A generated id has only valid characters, and a received id was checked when
/// it was accepted.
fn write_id(out: &mut Vec<u8>, id: &RequestId) {
    out.extend_from_slice(REQUEST_ID.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(id.text(&mut [0; 36]));
    out.extend_from_slice(b"\r\n");
}

/// Prefix of all field names of CORS.
const POLICY_FIELDS_PREFIX: &[u8] = b"Access-Control-";

/// Returns whether a field grants access to pages of other origins.
pub(crate) fn is_policy_field(name: &[u8]) -> bool {
    name.get(..POLICY_FIELDS_PREFIX.len())
        .is_some_and(|front| front.eq_ignore_ascii_case(POLICY_FIELDS_PREFIX))
}

/// Returns the value of `Allow` (RFC 9110 section 10.2.1). The value always has OPTIONS, because the server
/// answers OPTIONS if no route does.
pub(crate) fn allowed_methods(mut methods: Methods) -> String {
    methods.insert(Method::Options);
    methods.to_string()
}

/// Returns a redirect for a request that lacks the slash at the end of its path. The path is decoded and
/// normalised.
pub(crate) fn redirect_below(path: &str, query: Option<&str>) -> Reply {
    let location = location_below(path, query);
    Reply::text(StatusCode::PERMANENT_REDIRECT, "the path of this resource ends in a slash")
        .with("Location", location)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const DATE: &[u8; 29] = b"Thu, 01 Jan 1970 00:00:00 GMT";

    #[test]
    fn a_reply_in_place_of_another_keeps_what_is_about_the_request() {
        let reply = Reply::text(StatusCode::OK, "Vary: no field")
            .with("access-control-allow-origin", "https://a.example")
            .with("Vary", "Origin")
            .with("ETag", "\"1\"");
        let mut written = Vec::new();
        write_head(&mut written, &reply, Some(&RequestId::Made(Uuid::from_u128(1))), Writing::whole(*DATE));
        let kept = Reply::empty(StatusCode::OK).with_kept_fields(&written);
        let names: Vec<_> = kept.fields.iter().map(|(name, _)| name.as_ref()).collect();
        assert_eq!(names, ["access-control-allow-origin", "Vary", "X-Request-Id"]);
    }
}
