//! `uri-host [":" port]`: the value of Host, and the authority of an absolute target (RFC 9112 section
//! 3.2).

use crate::UriScheme;
use crate::grammar::{REG_NAME, first_outside, percent_escape};
use std::net::Ipv6Addr;

/// Returns whether `bytes` is a host with an optional port. Userinfo, paths, commas and blanks are refused.
pub fn is_authority(bytes: &[u8]) -> bool {
    split_authority(bytes).is_some()
}

/// Splits a host and its port. Returns `None` if `bytes` is not a host with an optional port.
///
/// An empty port counts as no port (RFC 3986 section 3.2.3).
pub fn split_authority(bytes: &[u8]) -> Option<(&[u8], Option<u16>)> {
    match bytes.split_at_checked(host_len(bytes)?)? {
        (host, [] | [b':']) => Some((host, None)),
        (host, [b':', port @ ..]) => port_number(port).map(|port| (host, Some(port))),
        _ => None,
    }
}

/// Returns whether two valid authorities of URIs with this scheme name the same host and port.
///
/// The default port of the scheme means the same as no port (RFC 3986 section 6.2.3).
pub(crate) fn is_same_authority(a: &[u8], b: &[u8], scheme: UriScheme) -> bool {
    let split = |authority| {
        let (host, port) = split_authority(authority)?;
        Some((host, port.unwrap_or(scheme.default_port())))
    };
    a.eq_ignore_ascii_case(b)
        || split(a)
            .zip(split(b))
            .is_some_and(|((a, a_port), (b, b_port))| a.eq_ignore_ascii_case(b) && a_port == b_port)
}

/// Returns the length in bytes of the host at the front, or `None` if there is no host.
fn host_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'[', rest @ ..] => ip_literal_len(rest).map(|literal| literal + 2),
        _ => reg_name_len(bytes),
    }
}

/// Returns the length in bytes of an IPv6 address in brackets (RFC 3986 section 3.2.2).
///
/// IPvFuture and zone identifiers are refused, because they name no host that a client can reach us by.
fn ip_literal_len(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().take(IPV6_BYTES_MAX + 1).position(|&byte| byte == b']')?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    text.parse::<Ipv6Addr>().ok().map(|_| end)
}

/// Returns the length in bytes of a `reg-name`. An IPv4 address matches the same grammar.
///
/// The host of an http URI is not empty (RFC 9110 section 4.2.1).
#[inline]
fn reg_name_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        at += first_outside(REG_NAME, rest).unwrap_or(rest.len());
        match bytes.get(at) {
            Some(b'%') => {
                percent_escape(&bytes[at..])?;
                at += 3;
            }
            _ => return (at > 0).then_some(at),
        }
    }
}

/// Parses a port of 1 to 5 digits.
fn port_number(bytes: &[u8]) -> Option<u16> {
    let digits = |port: u32, byte: &u8| byte.is_ascii_digit().then(|| port * 10 + u32::from(byte - b'0'));
    if bytes.len() > PORT_BYTES_MAX {
        return None;
    }
    bytes.iter().try_fold(0, digits).and_then(|port| u16::try_from(port).ok())
}

const PORT_BYTES_MAX: usize = 5;
const IPV6_BYTES_MAX: usize = 45;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_a_name_or_address_and_a_port_of_digits() {
        let check = |input: &str, expect| assert_eq!(is_authority(input.as_bytes()), expect, "{input}");
        for good in [
            "a",
            "example.com",
            "example.com:80",
            "example.com:",
            "127.0.0.1:65535",
            "[::1]",
            "[::1]:8080",
            "[2001:db8::192.0.2.1]",
            "a_b~c.d",
            "caf%C3%A9.example",
        ] {
            check(good, true);
        }
        for bad in [
            "",
            ":80",
            "a:65536",
            "a:8o",
            "a:+1",
            "a:000080",
            "a:1:2",
            "user@a",
            "user:pass@a",
            "a/b",
            "a,b",
            "a b",
            "a\tb",
            "a?",
            "a#",
            "a\\b",
            "a%",
            "a%2",
            "a%zz",
            "[::1",
            "::1",
            "[]",
            "[:::1]",
            "[fe80::1%eth0]",
            "[v1.a]",
            "[::1]a",
            "[127.0.0.1]",
            "caf\u{e9}",
        ] {
            check(bad, false);
        }
    }
}
