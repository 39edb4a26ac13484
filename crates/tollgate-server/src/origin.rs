//! Origins of pages, as browsers send them, and patterns that match them (RFC 6454 section 6.2).
//!
//! Origins are compared byte by byte, because a browser sends an origin in only one spelling: lower case,
//! ASCII, without a default port. A pattern replaces whole labels of a host, never a part of a label.

use tollgate_http::split_authority;

/// Separates the scheme of an origin from its host.
const SCHEME_END: &str = "://";
/// Begins a host that stands for all hosts below the rest.
const ANY_LABELS: &str = "*.";

/// Returns whether a browser could send this origin. `null` is not an origin, because it stands for every
/// sandboxed page and every local file.
pub(crate) fn is_origin(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Some((scheme, authority)) = text.split_once(SCHEME_END) else { return false };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|byte| is_lower(byte) || b"+-.".contains(&byte));
    let is_host = |host: &[u8]| host.iter().all(|&byte| is_lower(byte) || b"-._[]:".contains(&byte));
    is_scheme && split_authority(authority.as_bytes()).is_some_and(|(host, _)| is_host(host))
}

/// Returns whether an origin is `listed`, or matches it as a pattern such as `https://*.shop.example`.
pub(crate) fn matches(listed: &str, origin: &[u8]) -> bool {
    match split_pattern(listed) {
        None => listed.as_bytes() == origin,
        Some((front, end)) => {
            let labels = origin.strip_prefix(front.as_bytes());
            let labels = labels.and_then(|rest| rest.strip_suffix(end.as_bytes()));
            labels.is_some_and(are_labels)
        }
    }
}

/// Splits a pattern at its `*`: the scheme with `://`, and the end of the host with its leading dot.
pub fn split_pattern(pattern: &str) -> Option<(&str, &str)> {
    let (scheme, host) = pattern.split_once(SCHEME_END)?;
    let end = host.strip_prefix(ANY_LABELS)?;
    let front = pattern.get(..scheme.len() + SCHEME_END.len())?;
    Some((front, pattern.get(pattern.len() - end.len() - 1..)?))
}

/// Returns whether a text is one label of a host, or several with dots between them.
fn are_labels(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'.')
        .all(|label| !label.is_empty() && label.iter().all(|&byte| is_lower(byte) || b"-_".contains(&byte)))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port_in_one_spelling() {
        for origin in [
            "https://shop.example",
            "http://localhost:3000",
            "http://[::1]:8080",
            "https://xn--mnchen-3ya.example",
            "capacitor://localhost",
            "chrome-extension://abcdefghijklmnop",
        ] {
            assert!(is_origin(origin.as_bytes()), "{origin}");
        }
        for other in [
            "null",
            "",
            "*",
            "shop.example",
            "https://",
            "https://shop.example/",
            "https://shop.example, https://b",
            "https://a https://b",
            "HTTPS://shop.example",
            "https://Shop.example",
            "https://user@shop.example",
            "https://shop.example\u{e9}",
            "https://m\u{fc}nchen.example",
            "https://shop.example\"",
            "://shop.example",
        ] {
            assert!(!is_origin(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_star_matches_whole_labels_of_a_host_and_nothing_else() {
        let check = |pattern: &str, origin: &str, expect: bool| {
            assert_eq!(matches(pattern, origin.as_bytes()), expect, "{pattern} {origin}");
        };
        let shop = "https://*.shop.example";
        check(shop, "https://www.shop.example", true);
        check(shop, "https://a.b.shop.example", true);
        check(shop, "https://a-b_1.shop.example", true);
        for other in [
            "https://shop.example",
            "https://.shop.example",
            "https://a..shop.example",
            "https://evilshop.example",
            "https://evil-shop.example",
            "https://www.shop.example.evil.example",
            "https://www.shop.example:8443",
            "http://www.shop.example",
            "https://evil.example/.shop.example",
            "https://evil.example:443.shop.example",
            "https://user@www.shop.example",
            "https://*.shop.example",
            "https://WWW.shop.example",
            "https://evil.example\\.shop.example",
            "https://evil.example#.shop.example",
            "https://\u{e9}.shop.example",
            "null",
            "",
        ] {
            check(shop, other, false);
        }
        check("http://*.localhost:3000", "http://a.localhost:3000", true);
        check("http://*.localhost:3000", "http://a.localhost:30001", false);
        check("http://*.localhost:3000", "http://a.localhost", false);
        check("https://shop.example", "https://shop.example", true);
        check("https://shop.example", "https://www.shop.example", false);
    }
}
