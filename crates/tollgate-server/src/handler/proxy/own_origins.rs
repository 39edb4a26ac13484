//! The origins by which a backend names itself: the host of the client, and its own addresses.
//!
//! Origins are compared exactly: scheme, host and port (RFC 6454 section 5). A host with further text, such
//! as `app.example.evil.example`, or with a user name is another origin.

use tollgate_backend::{Address, Scheme};
use tollgate_http::split_authority;

/// The origins that mean the backend, for one request.
pub(super) struct OwnOrigins<'a> {
    /// The host that the client sent.
    pub(super) client: Option<&'a str>,
    pub(super) backend: &'a [Address],
}

/// A reference to a resource of the backend.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// A path without an origin.
    Path,
    /// A URI with the host of the client. Its path begins at this byte.
    Client { path_at: usize },
    /// A URI with an address of the backend, which the client cannot reach.
    Backend { path_at: usize },
}

impl OwnOrigins<'_> {
    /// Returns what a reference names, or `None` if the reference is relative or names another origin.
    pub(super) fn of(&self, reference: &[u8]) -> Option<Reference> {
        let (scheme, authority_at) = match reference {
            [b'/', b'/', ..] => (None, 2),
            // Browsers read a backslash as a slash, so this reference names another host.
            [b'/', b'\\', ..] => return None,
            [b'/', ..] => return Some(Reference::Path),
            _ => scheme_of(reference).map(|(scheme, at)| (Some(scheme), at))?,
        };
        let rest = &reference[authority_at..];
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        let (host, port) = split_authority(&rest[..end])?;
        let path_at = authority_at + end;
        if self.is_client(scheme, host, port) {
            return Some(Reference::Client { path_at });
        }
        // A reference without a scheme has the scheme of the client, which the backend does not share.
        let is_own = |address| is_at(address, scheme?, host, port).then_some(());
        self.backend.iter().find_map(is_own).map(|()| Reference::Backend { path_at })
    }

    /// Returns whether a cookie for this domain covers the backend and does not cover the client's host. No
    /// browser accepts such a cookie from this server.
    pub(super) fn is_foreign_domain(&self, domain: &[u8]) -> bool {
        let domain = domain.strip_prefix(b".").unwrap_or(domain);
        let client = self.client.and_then(|host| split_authority(host.as_bytes()));
        let covers_client = client.is_some_and(|(host, _)| is_covered(host, domain));
        let covers = |address| host_of(address).is_some_and(|host| is_covered(host.as_bytes(), domain));
        !domain.is_empty() && !covers_client && self.backend.iter().any(covers)
    }

    fn is_client(&self, scheme: Option<Scheme>, host: &[u8], port: Option<u16>) -> bool {
        let Some((client, client_port)) = self.client.and_then(|host| split_authority(host.as_bytes()))
        else {
            return false;
        };
        // The scheme of the client is not known, because a proxy in front may have ended TLS.
        let is_same_port = match scheme {
            None => port == client_port,
            Some(scheme) => {
                let default = scheme.default_port();
                port.unwrap_or(default) == client_port.unwrap_or(default)
            }
        };
        host.eq_ignore_ascii_case(client) && is_same_port
    }
}

/// Returns the scheme of a URI with an authority, and the offset of the authority.
fn scheme_of(reference: &[u8]) -> Option<(Scheme, usize)> {
    [(Scheme::Http, &b"http://"[..]), (Scheme::Https, b"https://")].into_iter().find_map(|(scheme, text)| {
        let front = reference.get(..text.len())?;
        front.eq_ignore_ascii_case(text).then_some((scheme, text.len()))
    })
}

/// Returns whether an address of the backend has this origin.
fn is_at(address: &Address, scheme: Scheme, host: &[u8], port: Option<u16>) -> bool {
    let port = port.unwrap_or(scheme.default_port());
    match address {
        Address::Name { scheme: own, name, port: own_port } => {
            *own == scheme && *own_port == port && host.eq_ignore_ascii_case(name.as_bytes())
        }
        Address::Socket { scheme: own, socket } => {
            let text = std::str::from_utf8(host).unwrap_or_default();
            let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
            *own == scheme && socket.port() == port && text.parse() == Ok(socket.ip())
        }
        Address::Unix(_) => false,
    }
}

/// Returns the host of an address without its port.
fn host_of(address: &Address) -> Option<String> {
    match address {
        Address::Name { name, .. } => Some(name.clone()),
        Address::Socket { socket, .. } => Some(socket.ip().to_string()),
        Address::Unix(_) => None,
    }
}

/// Returns whether a cookie for `domain` is sent to `host` (RFC 6265 section 5.1.3).
fn is_covered(host: &[u8], domain: &[u8]) -> bool {
    let Some(front_bytes) = host.len().checked_sub(domain.len()) else { return false };
    let (front, end) = host.split_at(front_bytes);
    end.eq_ignore_ascii_case(domain) && (front.is_empty() || front.ends_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::needless_pass_by_value)] // Rows read better without references.
    fn check(client: Option<&str>, reference: &str, expect: Option<Reference>) {
        let backend = ["http://10.0.0.5:9000", "https://app.internal", "http://[::1]:80", "unix:/a.sock"];
        let backend = backend.map(|address| address.parse().unwrap());
        let origins = OwnOrigins { client, backend: &backend };
        assert_eq!(origins.of(reference.as_bytes()), expect, "{client:?} {reference}");
    }

    #[test]
    fn a_reference_is_a_path_or_names_the_client_or_the_backend_exactly() {
        let (client, backend) =
            (|path_at| Some(Reference::Client { path_at }), |path_at| Some(Reference::Backend { path_at }));
        let shop = Some("shop.example");
        check(shop, "/a", Some(Reference::Path));
        check(shop, "https://shop.example/a", client(20));
        check(shop, "HTTP://SHOP.example:80/a", client(22));
        check(shop, "http://shop.example", client(19));
        check(shop, "http://shop.example?a", client(19));
        check(shop, "//shop.example/a", client(14));
        check(Some("shop.example:8443"), "https://shop.example:8443/", client(25));
        check(None, "http://10.0.0.5:9000/a", backend(20));
        check(None, "https://app.internal/", backend(20));
        check(None, "https://APP.internal:443#a", backend(24));
        check(None, "http://[::1]/", backend(12));
        for other in [
            "a",
            "?a",
            "#a",
            "",
            "mailto:a@b",
            "ftp://shop.example/",
            "https://shop.example:8443/",
            "https://shop.example.evil.example/",
            "https://evil-shop.example/",
            "https://shop.example@evil.example/",
            "https://user@shop.example/",
            "https://shop.example\\evil.example/",
            "https:/shop.example/",
            "//10.0.0.5:9000/",
            "//evil.example/",
            "/\\evil.example/",
            "https://10.0.0.5:9000/a",
            "http://10.0.0.5/a",
            "http://10.0.0.50:9000/a",
            "http://app.internal/",
            "https://app.internal:8443/",
            "https://x.app.internal/",
            "http://localhost/",
        ] {
            check(shop, other, None);
        }
        check(Some("shop.example:8443"), "https://shop.example/", None);
    }

    #[test]
    fn a_domain_is_foreign_if_it_covers_the_backend_alone() {
        let check = |domain: &str, expect: bool| {
            let backend = ["http://app.internal.example:9000", "http://10.0.0.5:9000"];
            let backend = backend.map(|address| address.parse().unwrap());
            let origins = OwnOrigins { client: Some("www.shop.example:8080"), backend: &backend };
            assert_eq!(origins.is_foreign_domain(domain.as_bytes()), expect, "{domain}");
        };
        check("app.internal.example", true);
        check(".Internal.Example", true);
        check("10.0.0.5", true);
        check("shop.example", false);
        check("example", false);
        check("other.example", false);
        check("ternal.example", false);
        check("", false);
    }
}
