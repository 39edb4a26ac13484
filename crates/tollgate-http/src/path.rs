//! Normalised paths for routes and files: decoded once, without dot segments.

use crate::RequestError;
use crate::error::excerpt;
use crate::grammar::{PLAIN_PATH, are_all, percent_escape, push_escaped};
use std::borrow::Cow;

/// Decodes and normalises a raw path. Routes, access rules and file lookups all use the result.
///
/// Escapes are decoded once. `.` and `..` segments are resolved, escaped or not. `//` and `*` stay unchanged.
/// A path that is already normalised is returned without a copy.
///
/// # Errors
/// None of these errors closes the connection:
/// - `PathEscape`: a `%` without two digits.
/// - `PathByte`: NUL or `\` in any notation, or a `/` from an escape.
/// - `PathEncoding`: the decoded bytes are not UTF-8.
/// - `PathAboveRoot`: a `..` without a parent.
/// - `PathRelative`: no leading `/`.
pub fn normalise_path(raw: &str) -> Result<Cow<'_, str>, RequestError> {
    let bytes = raw.as_bytes();
    if bytes == b"*" {
        return Ok(Cow::Borrowed(raw));
    }
    if bytes.first() != Some(&b'/') {
        return Err(RequestError::PathRelative);
    }
    if are_all(PLAIN_PATH, bytes) {
        return Ok(Cow::Borrowed(raw));
    }
    check_raw_bytes(bytes)?;
    let path = decode(raw)?;
    match resolve_dot_segments(raw)? {
        Cow::Borrowed(_) => Ok(path),
        Cow::Owned(resolved) => Ok(Cow::Owned(decode(&resolved)?.into_owned())),
    }
}

/// Normalises a raw path like [`normalise_path`], but keeps each segment that has an encoded `/` or `\\` as
/// it was sent. Only routes that forward the raw path may use the result.
///
/// A receiver may decode such a segment, and treat `/` and `\\` as separators. So no part of a segment
/// between these separators may be a dot segment.
///
/// # Errors
/// The errors of [`normalise_path`]. `PathAboveRoot` is also the error for a hidden dot segment, and
/// `PathByte` is only the error for NUL, and for `\\` that is not encoded.
pub fn normalise_path_with_encoded_slashes(raw: &str) -> Result<String, RequestError> {
    if raw.as_bytes().first() != Some(&b'/') {
        return Err(RequestError::PathRelative);
    }
    check_raw_bytes(raw.as_bytes())?;
    let segments = resolve_dot_segments(raw)?;
    let segments: Vec<_> = segments.split('/').map(decode_or_keep).collect::<Result<_, _>>()?;
    Ok(segments.join("/"))
}

/// Refuses NUL and `\\` that are not encoded.
fn check_raw_bytes(path: &[u8]) -> Result<(), RequestError> {
    match path.iter().find(|byte| matches!(byte, 0 | b'\\')) {
        Some(&byte) => Err(RequestError::PathByte { byte }),
        None => Ok(()),
    }
}

fn decode_or_keep(segment: &str) -> Result<Cow<'_, str>, RequestError> {
    match decode(segment) {
        Err(RequestError::PathByte { byte: b'/' | b'\\' }) => {}
        decoded => return decoded,
    }
    let mut decoded = segment.to_owned();
    for escape in ["%2F", "%2f", "%5C", "%5c"] {
        decoded = decoded.replace(escape, "/");
    }
    for part in decoded.split('/') {
        decode(part)?;
        if Step::of(part) != Step::Down {
            return Err(RequestError::PathAboveRoot);
        }
    }
    Ok(Cow::Borrowed(segment))
}

/// Resolves the `.` and `..` segments of a raw path, escaped or not. Everything else stays unchanged.
///
/// Other escapes stay, because an escaped reserved character is not equivalent to the character (RFC 3986
/// section 2.2). A path without dot segments is returned without a copy.
///
/// # Errors
/// `PathAboveRoot` for `..` without a parent.
pub fn resolve_dot_segments(raw: &str) -> Result<Cow<'_, str>, RequestError> {
    if has_dot_segment(raw) { remove_dot_segments(raw).map(Cow::Owned) } else { Ok(Cow::Borrowed(raw)) }
}

/// Appends a decoded path as a reference that stays on this server (RFC 3986 sections 3.3 and 4.2).
///
/// Bytes that a path may not hold are escaped. A path that begins with `//` would name a host, so `/.` is
/// written before it.
pub fn write_path(out: &mut Vec<u8>, path: &str) {
    if path.starts_with("//") {
        out.extend_from_slice(b"/.");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || PATH_MARKS.contains(&byte) {
            out.push(byte);
        } else {
            push_escaped(out, byte);
        }
    }
}

const PATH_MARKS: &[u8] = b"/-._~!$&'()*+,;=:@";

fn decode(raw: &str) -> Result<Cow<'_, str>, RequestError> {
    let bytes = raw.as_bytes();
    if memchr::memchr(b'%', bytes).is_none() {
        return Ok(Cow::Borrowed(raw));
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(escape) = memchr::memchr(b'%', rest) {
        let (plain, from_escape) = rest.split_at(escape);
        decoded.extend_from_slice(plain);
        decoded.push(decode_escape(from_escape)?);
        rest = &from_escape[3..];
    }
    decoded.extend_from_slice(rest);
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| RequestError::PathEncoding)
}

fn decode_escape(bytes: &[u8]) -> Result<u8, RequestError> {
    match percent_escape(bytes) {
        None => Err(RequestError::PathEscape { found: excerpt(bytes.get(..3).unwrap_or(bytes)) }),
        Some(byte @ (0 | b'/' | b'\\')) => Err(RequestError::PathByte { byte }),
        Some(byte) => Ok(byte),
    }
}

/// Effect of a segment on the path.
#[derive(PartialEq, Eq)]
enum Step {
    Stay,
    Up,
    Down,
}

impl Step {
    fn of(segment: &str) -> Self {
        // The longest notation of `..` has both dots escaped: 6 bytes.
        if segment.len() > 6 {
            return Self::Down;
        }
        match &*segment.replace("%2e", ".").replace("%2E", ".") {
            "." => Self::Stay,
            ".." => Self::Up,
            _ => Self::Down,
        }
    }
}

fn has_dot_segment(path: &str) -> bool {
    let may_have = path.contains("/.") || path.contains("/%2");
    may_have && path.split('/').any(|segment| Step::of(segment) != Step::Down)
}

/// Removes dot segments as RFC 3986 section 5.2.4 does, but refuses a path that leads above the root.
fn remove_dot_segments(path: &str) -> Result<String, RequestError> {
    let mut kept: Vec<&str> = Vec::new();
    let mut last = Step::Down;
    for segment in path.split('/').skip(1) {
        last = Step::of(segment);
        match last {
            Step::Stay => {}
            Step::Up => {
                kept.pop().ok_or(RequestError::PathAboveRoot)?;
            }
            Step::Down => kept.push(segment),
        }
    }
    // A final dot segment names a folder, so the path ends in a slash.
    if last != Step::Down {
        kept.push("");
    }
    Ok(format!("/{}", kept.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_once_and_lose_their_dot_segments() {
        let check = |raw: &str, expect: &str| assert_eq!(normalise_path(raw).unwrap(), expect, "{raw}");
        check("*", "*");
        check("/", "/");
        check("/a/b", "/a/b");
        check("//a//b/", "//a//b/");
        check("/a%20b", "/a b");
        check("/%41%c3%a9", "/A\u{e9}");
        check("/%2541", "/%41");
        check("/%252e%252e/a", "/%2e%2e/a");
        check("/a/./b", "/a/b");
        check("/a/../b", "/b");
        check("/a/%2e%2E/b", "/b");
        check("/a/.%2e", "/");
        check("/a/.", "/a/");
        check("/a/b/..", "/a/");
        check("/.", "/");
        check("/a//../b", "/a/b");
        check("/.well-known/x", "/.well-known/x");
        check("/.../..a/a..", "/.../..a/a..");
        check("/a%3fb%23", "/a?b#");
    }

    #[test]
    fn a_written_path_reads_back_to_the_same_and_names_no_host() {
        let check = |path: &str, expect: &str| {
            let mut out = Vec::new();
            write_path(&mut out, path);
            let written = String::from_utf8(out).unwrap();
            assert_eq!(written, expect);
            assert_eq!(normalise_path(&written).unwrap(), path);
        };
        check("/a/b", "/a/b");
        check("/-._~!$&'()*+,;=:@", "/-._~!$&'()*+,;=:@");
        check("/a b?c#d%41[|]", "/a%20b%3Fc%23d%2541%5B%7C%5D");
        check("/\u{e9}\r\n", "/%C3%A9%0D%0A");
        check("//evil.example/", "/.//evil.example/");
    }

    #[test]
    fn dot_segments_are_resolved_however_they_are_written_and_all_else_stays() {
        let check = |raw: &str, expect: &str| assert_eq!(resolve_dot_segments(raw).unwrap(), expect, "{raw}");
        check("/./a%3Badmin%2Cx%40y%26z%3D1", "/a%3Badmin%2Cx%40y%26z%3D1");
        check("/a%3b/.%2E/%3B", "/%3B");
        check("/%2e%2Fa", "/%2e%2Fa");
        check("/a/%2e", "/a/");
        check("/.//a/ b", "//a/ b");
        assert_eq!(resolve_dot_segments("/%2E%2e"), Err(RequestError::PathAboveRoot));
        for raw in ["/", "*", "/.well-known/a", "/a/...", "/a/%2e%2e%2e", "/%252e/a", "//a", "/%20"] {
            assert!(matches!(resolve_dot_segments(raw), Ok(Cow::Borrowed(_))), "{raw}");
        }
    }

    #[test]
    fn a_segment_with_an_encoded_slash_stays_as_it_was_sent() {
        let check = |raw: &str, expect: &str| {
            assert_eq!(normalise_path_with_encoded_slashes(raw).unwrap(), expect, "{raw}");
        };
        check("/@scope%2fpackage", "/@scope%2fpackage");
        check("/api/queues/%2F/my%20queue", "/api/queues/%2F/my queue");
        check("/a%20b%2Fc%C3%BC/d%20e", "/a%20b%2Fc%C3%BC/d e");
        check("/a/../b%2Fc/./%64", "/b%2Fc/d");
        check("/a%5cb", "/a%5cb");
        check("/...%2F...", "/...%2F...");
        check("/%252F", "/%2F");
        check("/a", "/a");
    }

    #[test]
    fn an_encoded_slash_hides_no_dot_segment_and_no_other_fault() {
        let check = |raw: &str, expect: RequestError| {
            assert_eq!(normalise_path_with_encoded_slashes(raw), Err(expect), "{raw}");
        };
        for raw in [
            "/a/..%2Fb",
            "/a%2f..",
            "/a%2F%2e%2e%2Fb",
            "/%2E%5C",
            "/a%5c.%2E/b",
            "/.%2Fa",
            "/a%2F..%5Cb",
            "/../a%2Fb",
        ] {
            check(raw, RequestError::PathAboveRoot);
        }
        check("/a%2F%00", RequestError::PathByte { byte: 0 });
        check("/%00%2F", RequestError::PathByte { byte: 0 });
        check("/a%2F%ff", RequestError::PathEncoding);
        check("/a%2F%c0%af", RequestError::PathEncoding);
        check("/a%2F%4", RequestError::PathEscape { found: "%4".into() });
        check("/a%2F\\", RequestError::PathByte { byte: b'\\' });
        check("%2F", RequestError::PathRelative);
    }

    #[test]
    fn plain_paths_are_borrowed() {
        for raw in ["/", "/a/b.html", "//a", "/.well-known/x"] {
            assert!(matches!(normalise_path(raw), Ok(Cow::Borrowed(_))), "{raw}");
        }
    }

    #[test]
    fn a_path_that_could_leave_the_root_or_hide_a_separator_is_refused() {
        let check = |raw: &str, expect: RequestError| assert_eq!(normalise_path(raw), Err(expect), "{raw}");
        check("", RequestError::PathRelative);
        check("a", RequestError::PathRelative);
        check("%2f", RequestError::PathRelative);
        check("/..", RequestError::PathAboveRoot);
        check("/a/../..", RequestError::PathAboveRoot);
        check("/%2e%2e/etc", RequestError::PathAboveRoot);
        check("/a/../../a", RequestError::PathAboveRoot);
        check("/a%00", RequestError::PathByte { byte: 0 });
        check("/a\0", RequestError::PathByte { byte: 0 });
        check("/a%2fb", RequestError::PathByte { byte: b'/' });
        check("/a%5Cb", RequestError::PathByte { byte: b'\\' });
        check("/a\\b", RequestError::PathByte { byte: b'\\' });
        check("/%ff", RequestError::PathEncoding);
        check("/%c0%ae%c0%ae/", RequestError::PathEncoding);
        check("/%c0%af", RequestError::PathEncoding);
        check("/%ed%a0%80", RequestError::PathEncoding);
        check("/%", RequestError::PathEscape { found: "%".into() });
        check("/%4", RequestError::PathEscape { found: "%4".into() });
        check("/%4g%41", RequestError::PathEscape { found: "%4g".into() });
        check("/%+1", RequestError::PathEscape { found: "%+1".into() });
    }
}
