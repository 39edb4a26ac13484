//! The answers of the admin listener.
//!
//! | path | answer |
//! | --- | --- |
//! | `/healthz` | 200 if all workers make turns, 503 if a worker hangs |
//! | `/readyz` | 200 if this server should get requests, else 503, with reasons and warnings; JSON for a client that accepts it |
//! | `/metrics` | metrics for Prometheus |
//! | `/status` | the whole state, as JSON |
//! | `/history` | the last 24 hours in cells, as JSON. `?since=SECONDS` selects cells that end after this time |
//!
//! If a token is configured, a client without the token gets only the status code of `/healthz` and
//! `/readyz`. A load balancer needs only the status code.

use std::borrow::Cow;

use tollgate_http::{
    Connection, Method, ReplyBody, RequestError, RequestHead, StatusCode, accepted_media, begin_reply_head,
    end_reply_head, http_date, push_field, query_pairs,
};
use tollgate_meter::CONTENT_TYPE as METRICS;

use super::access::{Access, Denial};
use crate::observe::health::{json_of, text_of};
use crate::observe::{Observer, is_alive, metrics};
use crate::wall;

const TEXT_PLAIN: &str = "text/plain";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

pub(super) struct Answers {
    observer: Observer,
    access: Access,
}

struct AdminReply {
    status: StatusCode,
    content_type: &'static str,
    content: Cow<'static, str>,
    field: Option<(&'static str, &'static str)>,
}

impl AdminReply {
    fn text(status: StatusCode, content: impl Into<Cow<'static, str>>) -> Self {
        Self { status, content_type: TEXT, content: content.into(), field: None }
    }

    fn json(status: StatusCode, content: &serde_json::Value) -> Self {
        Self { content_type: JSON, ..Self::text(status, format!("{content}\n")) }
    }

    fn write(&self, is_head: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.content.len() + 256);
        let length = ReplyBody::Length(self.content.len() as u64);
        begin_reply_head(&mut out, self.status, Some(&http_date(now())), length, Some(Connection::Close));
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

impl Answers {
    pub(super) fn new(observer: Observer, access: Access) -> Self {
        Self { observer, access }
    }

    /// Returns the bytes of the answer to a request.
    pub(super) fn answer(&self, head: &RequestHead) -> Vec<u8> {
        let answer = self.access.check_origin(head).map_or_else(AdminReply::from, |()| self.find(head));
        answer.write(head.method() == Method::Head)
    }

    /// Returns the bytes of the answer to an invalid request. If the request begins with HEAD, the answer has
    /// no content (RFC 9110 section 9.3.2).
    pub(super) fn refuse(&self, error: &RequestError, input: &[u8]) -> Vec<u8> {
        let answer = AdminReply::text(error.status(), format!("{}\n", error.client_text()));
        answer.write(input.starts_with(b"HEAD "))
    }

    fn find(&self, head: &RequestHead) -> AdminReply {
        if !matches!(head.method(), Method::Get | Method::Head) {
            let answer = AdminReply::text(StatusCode::METHOD_NOT_ALLOWED, "allowed are GET and HEAD\n");
            return AdminReply { field: Some(("Allow", "GET, HEAD")), ..answer };
        }
        let answer = match head.path() {
            "/healthz" => Self::healthz,
            "/readyz" => Self::readyz,
            "/metrics" => Self::metrics,
            "/status" => Self::status,
            "/history" => Self::history,
            _ => {
                let text = "not found: the paths are /healthz, /readyz, /metrics, /status and /history\n";
                return AdminReply::text(StatusCode::NOT_FOUND, text);
            }
        };
        answer(self, head)
    }

    fn healthz(&self, head: &RequestHead) -> AdminReply {
        let health = self.observer.health(&self.observer.look());
        match (is_alive(&health), self.access.check_token(head)) {
            (true, _) => AdminReply::text(StatusCode::OK, "ok\n"),
            (false, Err(_)) => AdminReply::text(StatusCode::SERVICE_UNAVAILABLE, "not ok\n"),
            (false, Ok(())) => AdminReply::text(StatusCode::SERVICE_UNAVAILABLE, text_of(&health)),
        }
    }

    fn readyz(&self, head: &RequestHead) -> AdminReply {
        let health = self.observer.health(&self.observer.look());
        let (status, word) = match health.is_ready() {
            true => (StatusCode::OK, "ready\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
        };
        if self.access.check_token(head).is_err() {
            return AdminReply::text(status, word);
        }
        if wants_json(head) {
            AdminReply::json(status, &json_of(&health))
        } else {
            AdminReply::text(status, text_of(&health))
        }
    }

    fn metrics(&self, head: &RequestHead) -> AdminReply {
        if let Err(denial) = self.access.check_token(head) {
            return denial.into();
        }
        let seen = self.observer.look();
        let content = metrics::expose(&seen, &self.observer.health(&seen));
        AdminReply { content_type: METRICS, ..AdminReply::text(StatusCode::OK, content) }
    }

    fn status(&self, head: &RequestHead) -> AdminReply {
        if let Err(denial) = self.access.check_token(head) {
            return denial.into();
        }
        let seen = self.observer.look();
        AdminReply::json(StatusCode::OK, &self.observer.document(&seen, &self.observer.health(&seen)))
    }

    fn history(&self, head: &RequestHead) -> AdminReply {
        if let Err(denial) = self.access.check_token(head) {
            return denial.into();
        }
        let Some(since) = since(head) else {
            let text = "since is not a number: it is a time in seconds since 1970\n";
            return AdminReply::text(StatusCode::BAD_REQUEST, text);
        };
        AdminReply { content_type: JSON, ..AdminReply::text(StatusCode::OK, self.observer.history(since)) }
    }
}

/// Returns the query item `since`, if there is one. Returns `None` if it is not a number.
fn since(head: &RequestHead) -> Option<Option<f64>> {
    let mut pairs = query_pairs(head.query_bytes().unwrap_or_default());
    match pairs.find(|(name, _)| **name == *b"since") {
        None => Some(None),
        Some((_, value)) => {
            str::from_utf8(&value).ok()?.parse().ok().filter(|since: &f64| since.is_finite()).map(Some)
        }
    }
}

fn wants_json(head: &RequestHead) -> bool {
    accepted_media(head, &[TEXT_PLAIN, JSON]) == 1
}

fn now() -> std::time::SystemTime {
    wall::now().into()
}
