//! A reply of the admin listener, and its bytes. `tollgate status --web` sends the same replies.

use std::borrow::Cow;

use tollgate_http::{
    Connection, ReplyBody, RequestError, StatusCode, begin_reply_head, end_reply_head, http_date, push_field,
};

use super::access::Denial;
use super::page::Page;
use crate::wall;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

pub(crate) struct AdminReply {
    status: StatusCode,
    content_type: &'static str,
    content: Cow<'static, str>,
    field: Option<(&'static str, &'static str)>,
}

impl AdminReply {
    pub(crate) fn text(status: StatusCode, content: impl Into<Cow<'static, str>>) -> Self {
        Self { status, content_type: TEXT, content: content.into(), field: None }
    }

    pub(super) fn json(status: StatusCode, content: &serde_json::Value) -> Self {
        Self { content_type: JSON, ..Self::text(status, format!("{content}\n")) }
    }

    /// Returns the admin page. The page itself holds nothing of this server.
    pub(crate) fn page() -> Self {
        let Page { html, policy } = Page::whole();
        let field = Some(("Content-Security-Policy", policy.as_str()));
        Self { content_type: HTML, field, ..Self::text(StatusCode::OK, html.as_str()) }
    }

    /// Returns the answer to a method other than GET and HEAD.
    pub(crate) fn method_not_allowed() -> Self {
        let answer = Self::text(StatusCode::METHOD_NOT_ALLOWED, "allowed are GET and HEAD\n");
        Self { field: Some(("Allow", "GET, HEAD")), ..answer }
    }

    /// Returns the bytes of the answer to an invalid request. If the request begins with HEAD, the answer has
    /// no content (RFC 9110 section 9.3.2).
    pub(super) fn refusal(error: &RequestError, input: &[u8]) -> Vec<u8> {
        let answer = Self::text(error.status(), format!("{}\n", error.client_text()));
        answer.write(input.starts_with(b"HEAD "))
    }

    pub(super) fn with_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }

    /// Returns the bytes of the reply. The connection closes after it.
    pub(crate) fn write(&self, is_head: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.content.len() + 512);
        let length = ReplyBody::Length(self.content.len() as u64);
        let date = http_date(wall::now().into());
        begin_reply_head(&mut out, self.status, Some(&date), length, Some(Connection::Close));
        push_field(&mut out, b"Content-Type", self.content_type.as_bytes());
        push_field(&mut out, b"Cache-Control", b"no-store");
        push_field(&mut out, b"X-Content-Type-Options", b"nosniff");
        if let Some((name, value)) = self.field {
            push_field(&mut out, name.as_bytes(), value.as_bytes());
        }
        end_reply_head(&mut out);
        if !is_head {
            out.extend_from_slice(self.content.as_bytes());
        }
        out
    }
}

impl From<Denial> for AdminReply {
    fn from(denial: Denial) -> Self {
        let answer = Self::text(denial.status(), format!("{}\n", denial.text()));
        match denial {
            // A 401 reply must have `WWW-Authenticate` (RFC 9110 section 15.5.2).
            Denial::Token => Self { field: Some(("WWW-Authenticate", "Bearer")), ..answer },
            Denial::Host | Denial::Origin => answer,
        }
    }
}
