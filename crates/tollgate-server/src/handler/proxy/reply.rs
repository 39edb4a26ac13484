//! Converts the reply of a backend to the form for the client. Fields of the connection to the backend are
//! removed, and the server writes the framing.

use bytes::Bytes;
use tollgate_backend::{Failure, Incoming};
use tollgate_http::{ReplyHead, StatusCode, parse_http_date};

use super::target::Proxy;
use crate::reply::Reply;

impl Proxy {
    /// Creates the head of the reply.
    pub(super) fn reply(&self, incoming: &Incoming) -> Reply {
        let head = &incoming.head;
        let mut reply = Reply::empty(head.status().unwrap_or(StatusCode::BAD_GATEWAY));
        let mut lines = Vec::with_capacity(head.bytes_len());
        // RFC 9110 section 6.6.1: the date of the origin server stays. An invalid date is replaced.
        let date = head.field("date").filter(|date| parse_http_date(date).is_some());
        if let Some(date) = date {
            push_line(&mut lines, b"Date", date);
            reply.has_date = true;
        }
        let passed = head.forwarded_fields().filter(|(name, _)| !self.ends_here(name));
        let set = self.spec.set_reply_headers.iter();
        for (name, value) in passed.chain(set.map(|(name, value)| (name.as_bytes(), value.as_bytes()))) {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if is("x-request-id") || is("allow") {
                // The server writes these fields if a reply lacks them, so they are kept separate from the
                // encoded lines.
                let name = String::from_utf8_lossy(name).into_owned();
                reply.fields.push((name.into(), Bytes::copy_from_slice(value)));
            } else {
                push_line(&mut lines, name, value);
            }
        }
        reply.lines = lines.into();
        reply.interim = self.interim(&incoming.interim);
        reply
    }

    /// Returns the interim replies as they are sent (RFC 9110 section 15.2).
    fn interim(&self, heads: &[ReplyHead]) -> Bytes {
        let mut out = Vec::new();
        for head in heads {
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(head.code().to_string().as_bytes());
            out.extend_from_slice(b" \r\n");
            let fields = head.forwarded_fields().filter(|(name, _)| !self.ends_here(name));
            fields.for_each(|(name, value)| push_line(&mut out, name, value));
            out.extend_from_slice(b"\r\n");
        }
        out.into()
    }

    /// Returns whether a field of the backend is removed from heads and trailer sections, because the server
    /// or the route writes it.
    pub(super) fn ends_here(&self, name: &[u8]) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        is("date")
            || self.says.is_that(name)
            || self.spec.remove_reply_headers.iter().any(|removed| is(removed))
            || self.spec.set_reply_headers.iter().any(|(set, _)| is(set))
    }
}

/// Appends a line without a check, because it was checked as part of a head or of the configuration.
fn push_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Returns the reply to a request that got no reply from the backend. If no backend was asked, the reply is a
/// refusal.
pub(super) fn of_failure(failure: &Failure) -> Reply {
    let reply = Reply::text(failure.status(), failure.client_text());
    match failure.retry_after() {
        Some(seconds) => reply.with("Tollgate-Outcome", "refused").with("Retry-After", seconds.to_string()),
        None => reply,
    }
}
