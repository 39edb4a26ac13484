//! Request line: exactly one SP between method, target and version (RFC 9112 section 3).

use std::ops::Range;

use bytes::BytesMut;

use crate::error::excerpt;
use crate::grammar::{is_token, push_escaped};
use crate::span::Span;
use crate::target::{TargetSpans, origin_form, parse_target};
use crate::{Limits, Method, RequestError, Version};

#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLine {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) target: TargetSpans,
}

/// Parses the usual request line at the front of `head` in one pass.
///
/// The line must be complete, with a known method and a target in origin form. `None` means that
/// [`parse_request_line`] must decide.
#[inline]
pub(super) fn usual_request_line(head: &[u8]) -> Option<(RequestLine, usize)> {
    let (method, target_start) = Method::at_front(head)?;
    let (target, target_end) = origin_form(head, target_start)?;
    let version = match head.get(target_end..)?.first_chunk()? {
        b" HTTP/1.1\r\n" => Version::Http11,
        b" HTTP/1.0\r\n" => Version::Http10,
        _ => return None,
    };
    Some((RequestLine { method, version, target }, target_end + b" HTTP/1.1\r\n".len()))
}

/// Percent-encodes the bytes of a target that are not ASCII, and returns the number of added bytes. Other
/// targets stay unchanged.
///
/// `line_bytes` is the length of the request line at the front of `buffer`. Browsers percent-encode UTF-8,
/// but `curl` and many libraries send it as it is. A target that is not UTF-8 is refused later.
pub(super) fn escape_target(buffer: &mut BytesMut, line_bytes: usize) -> usize {
    let line = buffer.get(..line_bytes).unwrap_or_default();
    let Some(target) = target_of(line) else { return 0 };
    let Ok(text) = std::str::from_utf8(&line[target.clone()]) else { return 0 };
    if text.is_ascii() {
        return 0;
    }
    let mut escaped = line[..target.start].to_vec();
    for byte in text.bytes() {
        if byte.is_ascii() { escaped.push(byte) } else { push_escaped(&mut escaped, byte) }
    }
    let added = escaped.len() - target.end;
    let after = buffer.split_off(target.end);
    buffer.clear();
    buffer.extend_from_slice(&escaped);
    buffer.extend_from_slice(&after);
    added
}

/// Returns the place of the target in a request line.
fn target_of(line: &[u8]) -> Option<Range<usize>> {
    let start = memchr::memchr(b' ', line)? + 1;
    Some(start..start + memchr::memchr(b' ', &line[start..])?)
}

/// Returns the bound on a request line whose target is not yet parsed, in bytes.
pub(super) fn line_bytes_max(limits: &Limits) -> usize {
    limits.target_bytes_max.saturating_add(LINE_BYTES_BESIDE_TARGET)
}

/// Parses a request line with exactly one SP between method, target and version (RFC 9112 section 3).
///
/// `line` is at the front of its head.
pub(super) fn parse_request_line(line: &[u8], limits: &Limits) -> Result<RequestLine, RequestError> {
    if line == HTTP2_PREFACE_LINE {
        return Err(RequestError::Http2Preface);
    }
    let Some(target) = target_of(line) else { return Err(malformed(line)) };
    let method = &line[..target.start - 1];
    if !is_token(method) || target.is_empty() {
        return Err(malformed(line));
    }
    let version = parse_version(&line[target.end + 1..]).ok_or_else(|| malformed(line))?;
    let method = match Method::from_bytes(method) {
        Some(method) => method,
        None if limits.extension_methods && Method::is_extension(method) => Method::Extension,
        None => return Err(RequestError::MethodUnknown { found: excerpt(method) }),
    };
    let version = version.map_err(|found| RequestError::VersionUnsupported { found: excerpt(found) })?;
    if target.len() > limits.target_bytes_max {
        return Err(RequestError::TargetTooLong { bytes: target.len(), limit: limits.target_bytes_max });
    }
    let target = parse_target(line, Span::new(target.start, target.end), method)?;
    Ok(RequestLine { method, version, target })
}

/// Returns the error for a request line that exceeds its limit (RFC 9112 section 3).
///
/// A method that is longer than any known method gets 501. A target that is too long gets 414. `front` is the
/// part of the line within the limit.
pub(super) fn line_too_long(front: &[u8], bytes: usize, limit: usize) -> RequestError {
    let method = front.split(|&byte| byte == b' ').next().unwrap_or_default();
    match Method::from_bytes(method) {
        Some(_) => RequestError::TargetTooLong { bytes, limit },
        None if is_token(method) => RequestError::MethodUnknown { found: excerpt(method) },
        None => malformed(method),
    }
}

/// Parses `HTTP/` DIGIT `.` DIGIT, in upper case (RFC 9112 section 2.3).
///
/// `None` means malformed. `Err` means well-formed, but not supported. A higher minor version is processed as
/// 1.1, the highest minor version that the server knows (RFC 9110 section 6.2).
fn parse_version(bytes: &[u8]) -> Option<Result<Version, &[u8]>> {
    match bytes {
        b"HTTP/1.0" => Some(Ok(Version::Http10)),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Some(Ok(Version::Http11)),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Some(Err(bytes)),
        _ => None,
    }
}

pub(super) fn malformed(line: &[u8]) -> RequestError {
    RequestError::RequestLineMalformed { found: excerpt(line) }
}

/// First line of the HTTP/2 connection preface (RFC 9113 section 3.4).
const HTTP2_PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0";
/// Maximum bytes of a request line in addition to its target: method, spaces, version and line end.
///
/// The bound exceeds their sum, so that a long unknown method is distinguished from a long target.
const LINE_BYTES_BESIDE_TARGET: usize = 64;
