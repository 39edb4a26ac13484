//! A reply as the client gets it: fields of the backend's connection end here, framing and Date are ours
//! (rules 20, 22).

use bytes::Bytes;
use tollgate_backend::{Failure, Incoming};
use tollgate_http::{ReplyHead, StatusCode};

use super::target::Proxy;
use crate::reply::Reply;

impl Proxy {
    /// Makes the head of the reply.
    pub(super) fn reply(&self, incoming: &Incoming) -> Reply {
        let head = &incoming.head;
        let mut reply = Reply::empty(head.status().unwrap_or(StatusCode::BAD_GATEWAY));
        let mut lines = Vec::with_capacity(head.bytes_len());
        let passed = head.forwarded_fields().filter(|(name, _)| !self.ends_here(name));
        let set = self.spec.set_reply_headers.iter();
        for (name, value) in passed.chain(set.map(|(name, value)| (name.as_bytes(), value.as_bytes()))) {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if is("x-request-id") || is("allow") {
                // Those that the server writes where a reply has none.
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

    /// Interim replies as they leave (RFC 9110 section 15.2).
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

    /// Whether a field of the backend is not the client's to see, in whichever head or trailer section: the
    /// server says it itself, or the route does.
    pub(super) fn ends_here(&self, name: &[u8]) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        is("date")
            || self.says.is_that(name)
            || self.spec.remove_reply_headers.iter().any(|removed| is(removed))
            || self.spec.set_reply_headers.iter().any(|(set, _)| is(set))
    }
}

/// It passed the checks of a head, or of the configuration.
fn push_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// What the client is told when there is no reply. Where nobody was asked, it is as if the request had not
/// come.
pub(super) fn of_failure(failure: &Failure) -> Reply {
    let reply = Reply::text(failure.status(), failure.client_text());
    match failure.retry_after() {
        Some(seconds) => reply.with("Tollgate-Outcome", "refused").with("Retry-After", seconds.to_string()),
        None => reply,
    }
}
