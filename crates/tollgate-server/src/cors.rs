//! Decides which pages of other origins may use a route, by the CORS protocol of the Fetch standard, section
//! 3.3.
//!
//! A preflight is answered here and reaches no handler. Permission is granted as a whole: if a preflight asks
//! for too much, the reply has no `Access-Control-` field. A reply that allowed only the origin would still
//! let a browser send GET, HEAD and POST, because these methods need not be listed.

use bytes::Bytes;
use tollgate_http::{Method, Methods, RequestHead, StatusCode, is_field_name};

use crate::options::{AnyOr, CorsSpec, Origins};
use crate::origin::{is_origin, matches};
use crate::reply::{Reply, is_policy_field};

const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";
const ALLOW_CREDENTIALS: &str = "Access-Control-Allow-Credentials";
const EXPOSE_HEADERS: &str = "Access-Control-Expose-Headers";

/// The policy of one route.
#[derive(Debug, Clone)]
pub(crate) struct Cors {
    origins: Origins,
    methods: Methods,
    headers: AnyOr<String>,
    /// The value of `Access-Control-Expose-Headers`, or `None` if no header is exposed.
    expose: Option<Bytes>,
    credentials: bool,
    max_age: Bytes,
}

/// The permission for the origin of one request, before its reply is known.
#[derive(Debug)]
pub(crate) struct Grant {
    origin: Granted,
    credentials: bool,
    expose: Option<Bytes>,
}

#[derive(Debug)]
enum Granted {
    Everybody,
    /// Pages of this origin. The text is as the request has it.
    Origin(Bytes),
    Nobody,
}

/// The part of a preflight that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Origin,
    Method,
    Header,
}

/// Returns whether a request is a preflight (Fetch section 3.3.2). The method OPTIONS alone does not suffice.
pub(crate) fn is_preflight(head: &RequestHead) -> bool {
    head.method() == Method::Options
        && head.field("origin").is_some()
        && head.field("access-control-request-method").is_some()
}

/// Returns the method that a preflight asks for, if the server knows it.
pub(crate) fn requested_method(head: &RequestHead) -> Option<Method> {
    head.field("access-control-request-method").and_then(Method::from_bytes)
}

impl Cors {
    /// Creates the policy of a route that accepts `methods`.
    pub(crate) fn new(spec: &CorsSpec, methods: Methods) -> Self {
        let is_any_with_credentials = spec.origins == Origins::AnyWithCredentials;
        Self {
            origins: spec.origins.clone(),
            methods: spec.methods.unwrap_or(methods),
            headers: spec.headers.clone(),
            expose: match &spec.expose {
                _ if is_any_with_credentials => None,
                AnyOr::Any => Some(Bytes::from_static(b"*")),
                AnyOr::Listed(names) => (!names.is_empty()).then(|| names.join(", ").into()),
            },
            credentials: spec.credentials || is_any_with_credentials,
            max_age: spec.max_age.as_secs().to_string().into(),
        }
    }

    /// Returns the permission for the replies to a request.
    pub(crate) fn grant(&self, head: &RequestHead) -> Grant {
        let origin = match (&self.origins, head.field_bytes("origin")) {
            (Origins::Any, _) => Granted::Everybody,
            (origins, Some(origin)) if origins.contain(&origin) => Granted::Origin(origin),
            (Origins::AnyWithCredentials | Origins::Listed(_), _) => Granted::Nobody,
        };
        Grant { origin, credentials: self.credentials, expose: self.expose.clone() }
    }

    /// Answers a preflight.
    ///
    /// # Errors
    /// The preflight asks for too much. The error is the reply.
    pub(crate) fn preflight(&self, head: &RequestHead) -> Result<Reply, Box<Reply>> {
        let vary = |reply: Reply| {
            reply.with("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
        };
        match self.check(head) {
            Ok(headers) => Ok(vary(self.granted(head, &headers))),
            Err(refusal) => Err(vary(Reply::text(StatusCode::FORBIDDEN, refusal.text())).into()),
        }
    }

    /// Returns the requested header fields if the policy allows the whole request.
    fn check(&self, head: &RequestHead) -> Result<String, Refusal> {
        if !self.origins.contain(head.field("origin").unwrap_or_default()) {
            return Err(Refusal::Origin);
        }
        if !requested_method(head).is_some_and(|method| self.methods.contains(method)) {
            return Err(Refusal::Method);
        }
        let mut asked = String::new();
        for name in requested_headers(head) {
            let name = std::str::from_utf8(name).map_err(|_| Refusal::Header)?;
            let is_allowed = is_field_name(name.as_bytes())
                && match &self.headers {
                    AnyOr::Any => true,
                    AnyOr::Listed(names) => names.iter().any(|listed| listed.eq_ignore_ascii_case(name)),
                };
            if !is_allowed {
                return Err(Refusal::Header);
            }
            let comma = if asked.is_empty() { "" } else { ", " };
            asked.extend([comma, name]);
        }
        Ok(asked)
    }

    /// Creates the reply to an allowed preflight. The reply repeats `headers`, because `*` would not cover
    /// `Authorization`.
    fn granted(&self, head: &RequestHead, headers: &str) -> Reply {
        let mut reply = Reply::empty(StatusCode::NO_CONTENT);
        self.grant(head).push_origin(&mut reply);
        reply = reply.with("Access-Control-Allow-Methods", self.methods.to_string());
        if !headers.is_empty() {
            reply = reply.with("Access-Control-Allow-Headers", headers.to_owned());
        }
        reply.with("Access-Control-Max-Age", self.max_age.clone())
    }
}

impl Grant {
    /// Adds the fields of the policy to a reply. These fields replace the same fields from a script, a
    /// backend or a route. A browser would use a single field from there, and would ignore a field that
    /// appears twice.
    pub(crate) fn add_to(&self, reply: &mut Reply) {
        reply.remove(is_policy_field);
        self.push_origin(reply);
        // Unless the origin is `*`, the reply differs by origin. `Vary` is therefore needed even if a request
        // has no `Origin` (Fetch section 3.3.5).
        if !matches!(self.origin, Granted::Everybody) {
            reply.push("Vary", "Origin");
        }
        if let Some(expose) = &self.expose
            && !matches!(self.origin, Granted::Nobody)
        {
            reply.push(EXPOSE_HEADERS, expose.clone());
        }
    }

    fn push_origin(&self, reply: &mut Reply) {
        match &self.origin {
            Granted::Nobody => return,
            Granted::Everybody => reply.push(ALLOW_ORIGIN, "*"),
            Granted::Origin(origin) => reply.push(ALLOW_ORIGIN, origin.clone()),
        }
        if self.credentials {
            reply.push(ALLOW_CREDENTIALS, "true");
        }
    }
}

impl Refusal {
    const fn text(self) -> &'static str {
        match self {
            Self::Origin => "this path does not allow requests of this origin",
            Self::Method => "this path does not allow this method for other origins",
            Self::Header => "this path does not allow such a header for other origins",
        }
    }
}

impl Origins {
    /// Returns whether pages of an origin may use the route.
    fn contain(&self, origin: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::AnyWithCredentials => is_origin(origin),
            Self::Listed(listed) => listed.iter().any(|listed| matches(listed, origin)),
        }
    }
}

/// Returns the requested names. Fetch section 3.3.2: they are separated by commas, and an empty value has
/// none.
fn requested_headers(head: &RequestHead) -> impl Iterator<Item = &[u8]> {
    let fields = head.fields();
    let values = fields.filter(|(name, _)| name.eq_ignore_ascii_case("access-control-request-headers"));
    let names = values.flat_map(|(_, value)| value.split(|&byte| byte == b','));
    names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}
