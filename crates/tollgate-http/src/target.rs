//! Request targets in origin, absolute and asterisk form (RFC 9112 section 3.2).

use crate::authority::is_authority;
use crate::error::excerpt;
use crate::grammar::{PATH, PLAIN_PATH, QUERY, URI, first_outside, is, push_escaped, run_of};
use crate::span::Span;
use crate::{Method, RequestError, UriScheme};

/// A request target. The absolute form is resolved: the authority becomes the host of the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A resource.
    Origin {
        /// The path as sent, beginning with `/`.
        path: &'a str,
        /// The query as sent, without its `?`.
        query: Option<&'a str>,
    },
    /// The server itself, as in `OPTIONS *`.
    Asterisk,
}

/// A parsed target, as spans of the head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetSpans {
    raw: Span,
    form: Form,
    path: Span,
    query: Option<Span>,
    absolute: Option<Absolute>,
    is_plain: bool,
}

/// The front of an absolute target.
#[derive(Debug, Clone, Copy)]
struct Absolute {
    scheme: UriScheme,
    authority: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Resource,
    Asterisk,
}

impl TargetSpans {
    pub(crate) fn target(self, head: &[u8]) -> Target<'_> {
        match self.form {
            Form::Asterisk => Target::Asterisk,
            Form::Resource => Target::Origin { path: self.path(head), query: self.query(head) },
        }
    }

    pub(crate) fn raw(self, head: &[u8]) -> &str {
        self.raw.text(head)
    }

    pub(crate) fn bytes_len(self) -> usize {
        self.raw.range().len()
    }

    pub(crate) fn path(self, head: &[u8]) -> &str {
        match self.form {
            Form::Asterisk => "*",
            // RFC 9110 section 4.2.3: the empty path of an absolute target is `/`.
            Form::Resource if self.path.is_empty() => "/",
            Form::Resource => self.path.text(head),
        }
    }

    pub(crate) fn path_bytes(self, head: &[u8]) -> &[u8] {
        match self.form {
            Form::Asterisk => b"*",
            Form::Resource if self.path.is_empty() => b"/",
            Form::Resource => self.path.bytes(head),
        }
    }

    /// Returns whether the path has neither escapes nor dots. Such a path is already normalised.
    pub(crate) fn has_plain_path(self) -> bool {
        self.is_plain
    }

    pub(crate) fn query(self, head: &[u8]) -> Option<&str> {
        self.query.map(|query| query.text(head))
    }

    pub(crate) fn query_bytes(self, head: &[u8]) -> Option<&[u8]> {
        self.query.map(|query| query.bytes(head))
    }

    pub(crate) fn authority(self) -> Option<Span> {
        self.absolute.map(|absolute| absolute.authority)
    }

    pub(crate) fn scheme(self) -> Option<UriScheme> {
        self.absolute.map(|absolute| absolute.scheme)
    }
}

/// Parses a target in origin form that begins at `start`, and finds its end, in one pass.
///
/// `None` means that [`parse_target`] must decide.
#[inline]
pub(crate) fn origin_form(head: &[u8], start: usize) -> Option<(TargetSpans, usize)> {
    let target = head.get(start..)?;
    if target.first() != Some(&b'/') {
        return None;
    }
    let (path_bytes, classes) = run_of(PATH, target);
    let path = Span::new(start, start + path_bytes);
    let is_plain = classes & PLAIN_PATH != 0;
    let (query, end) = match target.get(path_bytes) {
        Some(b'?') => {
            let query_bytes = first_outside(QUERY, &target[path_bytes + 1..])?;
            let query = Span::new(path.range().end + 1, path.range().end + 1 + query_bytes);
            (Some(query), query.range().end)
        }
        _ => (None, path.range().end),
    };
    let spans = TargetSpans {
        raw: Span::new(start, end),
        form: Form::Resource,
        path,
        query,
        absolute: None,
        is_plain,
    };
    Some((spans, end))
}

/// Reads the target at `raw` in `head`.
pub(crate) fn parse_target(head: &[u8], raw: Span, method: Method) -> Result<TargetSpans, RequestError> {
    match raw.bytes(head) {
        [b'/', ..] => parse_resource(head, raw, raw.range().start, None),
        // RFC 9112 section 3.2.4: only OPTIONS uses the asterisk form.
        b"*" if method == Method::Options => Ok(asterisk(raw, None)),
        // The checks of bytes and host also refuse fragments and userinfo. A target with any other scheme
        // reaches `form_error` below.
        bytes if begins_with(bytes, HTTP) => {
            parse_absolute(head, raw, raw.range().start + HTTP.len(), UriScheme::Http, method)
        }
        bytes if begins_with(bytes, HTTPS) => {
            parse_absolute(head, raw, raw.range().start + HTTPS.len(), UriScheme::Https, method)
        }
        // RFC 9112 section 3.2.3: only CONNECT uses the authority form, and we refuse CONNECT.
        bytes => Err(form_error(bytes)),
    }
}

fn begins_with(bytes: &[u8], scheme: &[u8]) -> bool {
    bytes.get(..scheme.len()).is_some_and(|front| front.eq_ignore_ascii_case(scheme))
}

const HTTP: &[u8] = b"http://";
const HTTPS: &[u8] = b"https://";

/// Parses an absolute target after its scheme (RFC 9112 section 3.2.2).
///
/// `OPTIONS` without path and query means the server itself (section 3.2.4).
fn parse_absolute(
    head: &[u8],
    raw: Span,
    start: usize,
    scheme: UriScheme,
    method: Method,
) -> Result<TargetSpans, RequestError> {
    let end = raw.range().end;
    let rest = &head[start..end];
    let authority_bytes = rest.iter().position(|&byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let authority = Span::new(start, start + authority_bytes);
    if !is_authority(authority.bytes(head)) {
        return Err(RequestError::HostInvalid { found: excerpt(authority.bytes(head)) });
    }
    if method == Method::Options && authority_bytes == rest.len() {
        return Ok(asterisk(raw, Some(Absolute { scheme, authority })));
    }
    parse_resource(head, raw, start + authority_bytes, Some(Absolute { scheme, authority }))
}

/// Parses path and query from `start` to the end of the target.
fn parse_resource(
    head: &[u8],
    raw: Span,
    start: usize,
    absolute: Option<Absolute>,
) -> Result<TargetSpans, RequestError> {
    let end = raw.range().end;
    let rest = &head[start..end];
    let (path_bytes, classes) = run_of(PATH, rest);
    let query = match rest.get(path_bytes) {
        None => None,
        Some(b'?') => {
            let query = &rest[path_bytes + 1..];
            if let Some(bad) = first_outside(QUERY, query) {
                return Err(RequestError::TargetByte { byte: query[bad] });
            }
            Some(Span::new(start + path_bytes + 1, end))
        }
        Some(&byte) => return Err(RequestError::TargetByte { byte }),
    };
    let path = Span::new(start, start + path_bytes);
    let is_plain = classes & PLAIN_PATH != 0;
    Ok(TargetSpans { raw, form: Form::Resource, path, query, absolute, is_plain })
}

fn asterisk(raw: Span, absolute: Option<Absolute>) -> TargetSpans {
    TargetSpans { raw, form: Form::Asterisk, path: raw, query: None, absolute, is_plain: false }
}

/// Returns the error for a target without a valid form. A bad byte has priority, because that error is more
/// precise.
fn form_error(target: &[u8]) -> RequestError {
    match first_outside(QUERY, target) {
        Some(bad) => RequestError::TargetByte { byte: target[bad] },
        None => RequestError::TargetForm { found: excerpt(target) },
    }
}

/// Appends a raw path or query for a backend.
///
/// Bytes that browsers send, but RFC 3986 does not allow, are escaped.
pub fn write_target(out: &mut Vec<u8>, raw: &str) {
    for byte in raw.bytes() {
        if is(URI, byte) {
            out.push(byte);
        } else {
            push_escaped(out, byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, target: &str) -> Result<TargetSpans, RequestError> {
        let head = format!("##{target}");
        parse_target(head.as_bytes(), Span::new(2, head.len()), method)
    }

    fn check(target: &str, path: &str, query: Option<&str>, authority: Option<&str>) {
        let head = format!("##{target}");
        let spans = parse(Method::Get, target).unwrap();
        let head = head.as_bytes();
        assert_eq!((spans.path(head), spans.query(head)), (path, query), "{target}");
        assert_eq!(spans.authority().map(|span| span.text(head)), authority, "{target}");
        assert_eq!(spans.target(head), Target::Origin { path, query });
        assert_eq!(spans.raw(head), target);
    }

    #[test]
    fn origin_and_absolute_form_give_path_query_and_authority() {
        check("/", "/", None, None);
        check("/a/b?", "/a/b", Some(""), None);
        check("/a?b?c=/d", "/a", Some("b?c=/d"), None);
        check("//a", "//a", None, None);
        check("/a|[b]", "/a|[b]", None, None);
        check("/a?{\\}^`|[]", "/a", Some("{\\}^`|[]"), None);
        check("http://a", "/", None, Some("a"));
        check("HTTP://a:80/b?c", "/b", Some("c"), Some("a:80"));
        check("http://[::1]?c", "/", Some("c"), Some("[::1]"));
        check("https://a/b", "/b", None, Some("a"));
        check("HTTPS://a:443?c", "/", Some("c"), Some("a:443"));
    }

    #[allow(clippy::needless_pass_by_value)] // Rows read better without references.
    fn check_refused(method: Method, target: &str, expect: RequestError) {
        assert_eq!(parse(method, target).unwrap_err(), expect, "{target}");
    }

    #[test]
    fn bytes_outside_path_and_query_are_refused() {
        for byte in (0..=255u8).filter(|byte| !byte.is_ascii_graphic()).chain(*b"#\"<>") {
            for front in ["/a", "/a?b", "a"] {
                let head = [front.as_bytes(), &[byte]].concat();
                let found = parse_target(&head, Span::new(0, head.len()), Method::Get).unwrap_err();
                assert_eq!(found, RequestError::TargetByte { byte }, "{}", head.escape_ascii());
            }
        }
        for byte in *b"\\^`{}" {
            check_refused(Method::Get, &format!("/a{}", char::from(byte)), RequestError::TargetByte { byte });
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for target in ["", "*", "**", "a", "a:443", "ftp://a/", "http:/a", "http:a", "https:a", "?a"] {
            check_refused(Method::Get, target, RequestError::TargetForm { found: target.into() });
        }
        for host in ["", "u@a", "a,b", ":80", "a:x", "a#b"] {
            for scheme in ["http", "https"] {
                let target = format!("{scheme}://{host}/");
                check_refused(Method::Get, &target, RequestError::HostInvalid { found: host.into() });
            }
        }
    }

    #[test]
    fn an_absolute_target_names_its_scheme() {
        let check =
            |target, expect| assert_eq!(parse(Method::Get, target).unwrap().scheme(), expect, "{target}");
        check("https://a/", Some(UriScheme::Https));
        check("HTTPS://a", Some(UriScheme::Https));
        check("http://a/", Some(UriScheme::Http));
        check("/https://a/", None);
        check_refused(Method::Get, "https://a/#b", RequestError::TargetByte { byte: b'#' });
    }

    #[test]
    fn asterisk_is_for_options_only() {
        for target in ["*", "http://a"] {
            let spans = parse(Method::Options, target).unwrap();
            assert_eq!(spans.target(b""), Target::Asterisk);
            assert_eq!((spans.path(b""), spans.query(b"")), ("*", None));
        }
        check_refused(Method::Post, "*", RequestError::TargetForm { found: "*".into() });
    }

    #[test]
    fn data_that_is_no_uri_is_escaped_towards_backends() {
        let check = |raw: &str, expect: &str| {
            let mut out = Vec::new();
            write_target(&mut out, raw);
            assert_eq!(std::str::from_utf8(&out).unwrap(), expect);
        };
        check("/a%20b/c", "/a%20b/c");
        check("/a|b[c]", "/a%7Cb%5Bc%5D");
        check("q={\\}^`\u{e9}", "q=%7B%5C%7D%5E%60%C3%A9");
    }
}
