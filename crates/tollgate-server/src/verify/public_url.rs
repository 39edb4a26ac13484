//! The URL that a partner sent its request to, in the spellings that partners sign.

use tollgate_http::{RequestHead, UriScheme};

use super::fault::SignatureFault;
use crate::options::VerifySpec;

impl VerifySpec {
    /// Returns the URL of a request: first as known, then with its port written in the other way. Partners do
    /// not agree on whether the default port is a part of the signed URL.
    pub(super) fn urls(&self, head: &RequestHead, scheme: UriScheme) -> Result<[Vec<u8>; 2], SignatureFault> {
        let origin = match &self.public_url {
            Some(url) => url.clone(),
            None => format!("{}://{}", scheme.name(), head.host().ok_or(SignatureFault::Host)?),
        };
        let target = target(head);
        let url = |origin: &str| [origin.as_bytes(), target.as_bytes()].concat();
        Ok([url(&origin), url(&with_other_port(&origin))])
    }
}

/// Returns path and query as sent. A target without a path means `/` (RFC 9112 section 3.2.2).
fn target(head: &RequestHead) -> String {
    match head.query() {
        Some(query) => format!("{}?{query}", head.path()),
        None => head.path().to_owned(),
    }
}

/// Removes the port of an URL, or adds the default port of its scheme.
///
/// Source: `RequestValidator` of the libraries of Twilio.
fn with_other_port(origin: &str) -> String {
    let Some((scheme, rest)) = origin.split_once("://") else { return origin.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    match port {
        Some((name, _)) => format!("{scheme}://{name}{path}"),
        None => format!("{scheme}://{host}:{}{path}", if scheme == "https" { 443 } else { 80 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_spelling_has_the_port_if_the_first_has_none() {
        let check = |url, other| assert_eq!(with_other_port(url), other);
        check("https://a.example", "https://a.example:443");
        check("http://a.example/base", "http://a.example:80/base");
        check("https://a.example:8443", "https://a.example");
        check("https://a.example:443/base", "https://a.example/base");
        check("https://[::1]", "https://[::1]:443");
        check("https://[::1]:8443", "https://[::1]");
    }
}
