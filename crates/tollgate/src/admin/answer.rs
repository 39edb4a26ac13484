//! The answers of the admin listener.
//!
//! | path | answer |
//! | --- | --- |
//! | `/` | a page for browsers that shows `/status` and `/history` |
//! | `/healthz` | 200 if all workers make turns, 503 if a worker hangs |
//! | `/readyz` | 200 if this server should get requests, else 503, with reasons and warnings; JSON for a client that accepts it |
//! | `/metrics` | metrics for Prometheus |
//! | `/status` | the whole state, as JSON |
//! | `/history` | the last 24 hours in cells, as JSON. `?since=SECONDS` selects cells that end after this time |
//!
//! If a token is configured, a client without the token gets only the page, and the status code of `/healthz`
//! and `/readyz`. A load balancer needs only the status code. The page has nothing of this server inside, and
//! asks its user for the token.

use tollgate_http::{Method, RequestHead, StatusCode, accepted_media, query_pairs};
use tollgate_meter::CONTENT_TYPE as METRICS;

use super::access::Access;
use super::reply::AdminReply;
use crate::observe::health::{json_of, text_of};
use crate::observe::{Observer, is_alive, metrics};

const TEXT_PLAIN: &str = "text/plain";
const JSON: &str = "application/json";

/// Answers the requests of a listener.
pub(crate) trait Answering: Send + 'static {
    /// Returns the bytes of the answer to a request.
    fn answer(&self, head: &RequestHead) -> Vec<u8>;
}

pub(super) struct Answers {
    observer: Observer,
    access: Access,
}

impl Answering for Answers {
    fn answer(&self, head: &RequestHead) -> Vec<u8> {
        let answer = self.access.check_origin(head).map_or_else(AdminReply::from, |()| self.find(head));
        answer.write(head.method() == Method::Head)
    }
}

impl Answers {
    pub(super) fn new(observer: Observer, access: Access) -> Self {
        Self { observer, access }
    }

    fn find(&self, head: &RequestHead) -> AdminReply {
        if !matches!(head.method(), Method::Get | Method::Head) {
            return AdminReply::method_not_allowed();
        }
        let answer = match head.path() {
            "/" => return AdminReply::page(),
            "/healthz" => Self::healthz,
            "/readyz" => Self::readyz,
            "/metrics" => Self::metrics,
            "/status" => Self::status,
            "/history" => Self::history,
            _ => {
                let text = "not found: the paths are /, /healthz, /readyz, /metrics, /status and /history
";
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
        AdminReply::text(StatusCode::OK, content).with_type(METRICS)
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
        AdminReply::text(StatusCode::OK, self.observer.history(since)).with_type(JSON)
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
