//! Conditional requests: decides which preconditions count, and evaluates them (RFC 9110 section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Method, RequestHead, parse_http_date};

/// Validators of the selected representation.
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// Entity tag as sent: quoted, and with `W/` if it is weak.
    pub etag: &'a [u8],
    /// Time of the last modification in seconds since 1970, or `None` if it is unknown.
    pub modified_s: Option<u64>,
}

impl Validators<'_> {
    fn modified(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.modified_s?))
    }
}

/// Result of the preconditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precondition {
    /// The method is executed.
    Met,
    /// The reply is 304, because the client has the current representation.
    NotModified,
    /// The reply is 412.
    Failed,
}

impl Precondition {
    /// Evaluates the preconditions in the order of RFC 9110 section 13.2.2.
    ///
    /// Call this function only if the reply would be 200 without preconditions. `If-Range` belongs to the
    /// range: see [`is_range_current`].
    pub fn evaluate(head: &RequestHead, current: &Validators<'_>) -> Self {
        let if_match = Tags::of(head, "if-match");
        if if_match.is_sent() {
            if !if_match.contain(current.etag, Comparison::Strong) {
                return Self::Failed;
            }
        } else if is_modified_since(head, "if-unmodified-since", current) == Some(true) {
            return Self::Failed;
        }
        let is_read = matches!(head.method(), Method::Get | Method::Head);
        let if_none_match = Tags::of(head, "if-none-match");
        if if_none_match.is_sent() {
            return match if_none_match.contain(current.etag, Comparison::Weak) {
                true if is_read => Self::NotModified,
                true => Self::Failed,
                false => Self::Met,
            };
        }
        match is_modified_since(head, "if-modified-since", current) {
            Some(false) if is_read => Self::NotModified,
            _ => Self::Met,
        }
    }
}

/// Returns whether a condition names this entity tag explicitly, not by `*`.
pub fn names_tag(head: &RequestHead, etag: &[u8]) -> bool {
    !etag.is_empty() && named_tags(head).any(|tag| is_same(tag, etag, Comparison::Weak))
}

/// Lists the entity tags in the conditions of a request.
pub fn named_tags(head: &RequestHead) -> impl Iterator<Item = &[u8]> {
    let fields = ["if-match", "if-none-match", "if-range"].into_iter();
    fields.flat_map(|name| values(head, name)).flat_map(tags)
}

/// Returns whether a GET may get something other than the complete representation alone.
///
/// Such a request has a precondition, a range (RFC 9110 sections 13.1 and 14.2) or a wish for digests (RFC
/// 9530 section 4). The fields are searched in one pass, because most requests have none of these.
pub fn is_selective(head: &RequestHead) -> bool {
    let starts = |name: &[u8], start: &[u8]| {
        name.len() >= start.len() && name[..start.len()].eq_ignore_ascii_case(start)
    };
    head.raw_fields().any(|(name, _)| match name {
        [b'i' | b'I', ..] => starts(name, b"if-"),
        [b'r' | b'R', ..] => name.eq_ignore_ascii_case(b"range"),
        [b'w' | b'W', ..] => starts(name, b"want-"),
        _ => false,
    })
}

/// Returns whether a range applies to the representation that is selected now (RFC 9110 section 13.1.5).
///
/// `now_s` is in seconds since 1970. A date is a strong validator only after its second is over (section
/// 8.8.2.2).
pub fn is_range_current(head: &RequestHead, current: &Validators<'_>, now_s: u64) -> bool {
    let mut values = values(head, "if-range");
    let Some(value) = values.next() else { return true };
    if values.next().is_some() {
        return false;
    }
    if value.contains(&b'"') {
        return value == current.etag && !value.starts_with(b"W/");
    }
    let given = parse_http_date(value);
    given.is_some()
        && given == current.modified()
        && current.modified_s.is_some_and(|modified| modified < now_s)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// The entity tags of all lines of one field.
struct Tags<'a> {
    head: &'a RequestHead,
    name: &'static str,
}

impl<'a> Tags<'a> {
    fn of(head: &'a RequestHead, name: &'static str) -> Self {
        Self { head, name }
    }

    fn is_sent(&self) -> bool {
        values(self.head, self.name).next().is_some()
    }

    /// Returns whether the tags contain `etag`. `*` matches any tag (RFC 9110 sections 13.1.1 and 13.1.2).
    fn contain(&self, etag: &[u8], comparison: Comparison) -> bool {
        values(self.head, self.name)
            .any(|value| value == b"*" || tags(value).any(|tag| is_same(tag, etag, comparison)))
    }
}

/// Compares two tags (RFC 9110 section 8.8.3.2).
fn is_same(one: &[u8], other: &[u8], comparison: Comparison) -> bool {
    match comparison {
        Comparison::Strong => one == other && !one.starts_with(b"W/"),
        Comparison::Weak => opaque(one) == opaque(other),
    }
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Lists entity tags up to the first malformed one. A tag may contain a comma.
fn tags(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        let tag = &rest[start..];
        let quoted = opaque(tag).strip_prefix(b"\"")?;
        let end = tag.len() - quoted.len() + quoted.iter().position(|&byte| byte == b'"')? + 1;
        rest = &tag[end..];
        Some(&tag[..end])
    })
}

/// Returns whether the representation changed after the date in the field (RFC 9110 sections 13.1.3 and
/// 13.1.4).
///
/// `None` means that the field is ignored: it holds no date, or the representation has no time.
fn is_modified_since(head: &RequestHead, name: &str, current: &Validators<'_>) -> Option<bool> {
    let mut values = values(head, name);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    Some(current.modified()? > parse_http_date(value)?)
}

/// Lists the values of all lines of a field.
pub(crate) fn values<'a>(head: &'a RequestHead, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let is_named = move |field: &[u8]| field.eq_ignore_ascii_case(name.as_bytes());
    head.raw_fields().filter(move |(field, _)| is_named(field)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadReader, Limits};

    const OLDEST: &str = "Fri, 01 Jan 1960 00:00:00 GMT";
    const OLD: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEW: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const NOW_S: u64 = 784_111_777;

    fn head(method: &str, fields: &str) -> RequestHead {
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        HeadReader::default().read(&mut text.as_bytes().into(), &Limits::default()).unwrap().unwrap()
    }

    fn check(method: &str, fields: &[(&str, &str)], expected: Precondition) {
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let current = Validators { etag: b"\"a\"", modified_s: Some(NOW_S) };
        let found = Precondition::evaluate(&head(method, &fields), &current);
        assert_eq!(found, expected, "{method} {fields}");
    }

    #[test]
    fn each_precondition_alone() {
        use Precondition::{Failed, Met, NotModified};
        check("GET", &[], Met);
        for (tags, is_found) in [
            ("\"a\"", true),
            ("*", true),
            ("\"b\", \"a\"", true),
            ("\"b,\"a\"", false),
            ("\"x,y\" ,, \"a\"", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
            ("\"a", false),
            ("\"A\"", false),
        ] {
            check("GET", &[("If-None-Match", tags)], if is_found { NotModified } else { Met });
            check("HEAD", &[("if-none-match", tags)], if is_found { NotModified } else { Met });
            check("PUT", &[("If-None-Match", tags)], if is_found { Failed } else { Met });
            check("GET", &[("If-Match", tags)], if is_found { Met } else { Failed });
        }
        check("GET", &[("If-None-Match", "W/\"a\"")], NotModified);
        check("GET", &[("If-Match", "W/\"a\"")], Failed);
        check("GET", &[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], NotModified);
        for (date, is_newer) in [(OLDEST, true), (OLD, true), (NOW, false), (NEW, false)] {
            check("GET", &[("If-Modified-Since", date)], if is_newer { Met } else { NotModified });
            check("PUT", &[("If-Modified-Since", date)], Met);
            check("GET", &[("If-Unmodified-Since", date)], if is_newer { Failed } else { Met });
        }
        for no_date in ["", "today", "Sun, 06 Nov 1994", &format!("{NOW}, {NOW}")] {
            check("GET", &[("If-Modified-Since", no_date)], Met);
            check("GET", &[("If-Unmodified-Since", no_date)], Met);
        }
        check("GET", &[("If-Modified-Since", NEW), ("If-Modified-Since", NEW)], Met);
    }

    #[test]
    fn only_requests_for_less_or_more_are_selective() {
        let check =
            |fields: &str, expected| assert_eq!(is_selective(&head("GET", fields)), expected, "{fields}");
        check("", false);
        check(
            "Accept: */*\r\nIf: a\r\nRanges: b\r\nWant: c\r\nReferer: d\r\nUser-Agent: if-match\r\n",
            false,
        );
        for name in
            ["If-Match", "if-none-match", "IF-MODIFIED-SINCE", "If-Unmodified-Since", "If-Range", "range"]
        {
            check(&format!("Accept: */*\r\n{name}: a\r\n"), true);
        }
        for name in ["Want-Repr-Digest", "want-content-digest"] {
            check(&format!("{name}: sha-256=1\r\n"), true);
        }
    }

    #[test]
    fn a_tag_is_named_by_each_condition_and_not_by_a_star() {
        let check = |fields: &str, expected| {
            assert_eq!(names_tag(&head("GET", fields), b"\"a\""), expected, "{fields}");
        };
        for name in ["If-Match", "if-none-match", "If-Range"] {
            check(&format!("{name}: \"a\"\r\n"), true);
            check(&format!("{name}: W/\"a\"\r\n"), true);
            check(&format!("{name}: \"b\"\r\n"), false);
            check(&format!("{name}: *\r\n"), false);
        }
        check("If-None-Match: \"b\", \"a\"\r\n", true);
        check("ETag: \"a\"\r\n", false);
        assert!(!names_tag(&head("GET", "If-None-Match: \"\"\r\n"), b""));
    }

    #[test]
    fn tags_go_before_dates_and_failure_before_304() {
        use Precondition::{Failed, Met, NotModified};
        check("GET", &[("If-None-Match", "\"b\""), ("If-Modified-Since", NEW)], Met);
        check("GET", &[("If-None-Match", "\"a\""), ("If-Modified-Since", OLD)], NotModified);
        check("GET", &[("If-Match", "\"a\""), ("If-Unmodified-Since", OLD)], Met);
        check("GET", &[("If-Match", "\"b\""), ("If-Unmodified-Since", NEW)], Failed);
        check("GET", &[("If-None-Match", "\"a\""), ("If-Match", "\"b\"")], Failed);
        check("GET", &[("If-None-Match", "\"a\""), ("If-Match", "\"a\"")], NotModified);
        check("GET", &[("If-Unmodified-Since", OLD), ("If-None-Match", "\"a\"")], Failed);
    }

    #[test]
    fn weak_tags_of_ours_never_match_strongly() {
        let current = Validators { etag: b"W/\"a\"", modified_s: None };
        let found = |fields: &str| Precondition::evaluate(&head("GET", fields), &current);
        assert_eq!(found("If-Match: W/\"a\"\r\n"), Precondition::Failed);
        assert_eq!(found("If-None-Match: \"a\"\r\n"), Precondition::NotModified);
        assert_eq!(found("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), Precondition::Met);
        assert!(!is_range_current(&head("GET", "If-Range: W/\"a\"\r\n"), &current, NOW_S));
    }

    #[test]
    fn a_range_counts_for_the_same_representation_only() {
        let current = Validators { etag: b"\"a\"", modified_s: Some(NOW_S) };
        let check = |fields: &str, now_s, expected| {
            assert_eq!(is_range_current(&head("GET", fields), &current, now_s), expected, "{fields}");
        };
        check("", NOW_S, true);
        check("If-Range: \"a\"\r\n", NOW_S, true);
        check("If-Range: W/\"a\"\r\n", NOW_S, false);
        check("If-Range: \"b\"\r\n", NOW_S, false);
        check("If-Range: \"b\", \"a\"\r\n", NOW_S, false);
        check(&format!("If-Range: {NOW}\r\n"), NOW_S + 1, true);
        check(&format!("If-Range: {NOW}\r\n"), NOW_S, false);
        check(&format!("If-Range: {NEW}\r\n"), NOW_S + 9, false);
        check(&format!("If-Range: {OLD}\r\n"), NOW_S + 9, false);
        check("If-Range: soon\r\n", NOW_S + 9, false);
        check(&format!("If-Range: \"a\"\r\nIf-Range: {NOW}\r\n"), NOW_S + 9, false);
    }
}
