//! Hosts in the form that routes compare: without port, in canonical spelling (RFC 3986 sections 3.2.2 and
//! 6.2.2.1).

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Returns the canonical spelling of a host without port.
///
/// The result is in lower case and without a final dot. IPv6 addresses are written as in RFC 5952.
pub fn canonical_host(host: &str) -> Cow<'_, str> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match address.parse::<Ipv6Addr>() {
            Ok(address) => Cow::Owned(format!("[{address}]")),
            Err(_) => Cow::Borrowed(host),
        };
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    Cow::Borrowed(name)
}

/// Removes the port. RFC 3986 section 3.2.2: the colons of an IPv6 address are in brackets.
#[inline]
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        let check = |host: &str, expect: &str| assert_eq!(canonical_host(host), expect, "{host}");
        check("example.org", "example.org");
        check("Example.ORG", "example.org");
        check("example.org.", "example.org");
        check("127.0.0.1", "127.0.0.1");
        check("[::1]", "[::1]");
        check("[0:0:0:0:0:0:0:1]", "[::1]");
        check("[2001:DB8::A]", "[2001:db8::a]");
        check("[no address]", "[no address]");
        check("", "");
    }

    #[test]
    fn a_port_is_cut_off_and_an_address_is_not() {
        let check = |host: &str, expect: &str| assert_eq!(without_port(host), expect, "{host}");
        check("a:80", "a");
        check("a:", "a");
        check("a", "a");
        check("[::1]:80", "[::1]");
        check("[::1]", "[::1]");
        check("[2001:db8::17]", "[2001:db8::17]");
    }
}
