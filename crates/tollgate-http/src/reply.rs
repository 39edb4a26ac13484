//! Writes reply heads as bytes, without Rust's formatting machinery (RFC 9112 sections 4 and 6).
//!
//! Invariants: a head has exactly one Date, exactly one framing, and only valid fields. [`ReplyBody`] decides
//! the framing. A field from the caller is dropped if it would break an invariant. A proxy writes the Date of
//! its backend itself.

use crate::StatusCode;
use crate::field::{is_field_name, is_framing_field};
use crate::grammar::is_all_field_content;

/// The interim reply that asks a client to send its body (RFC 9110 section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Framing of a reply body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyBody {
    /// Length in bytes. In the reply to HEAD, this is the length that GET would have.
    Length(u64),
    /// The body is chunked. For an HTTP/1.0 client, use `None` and close the connection.
    Chunked,
    /// The head has no framing field, as for 204 and 304.
    ///
    /// With any other status, the close of the connection ends the body. `Connection: close` is then always
    /// written.
    None,
}

/// Connection field of a reply. An HTTP/1.1 connection that persists needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The server closes the connection after this reply.
    Close,
    /// The server keeps the connection of an HTTP/1.0 client that asked for it.
    KeepAlive,
}

/// Appends the status line, Date, the framing and Connection.
///
/// [`push_field`] then appends further fields, and [`end_reply_head`] ends the head. The caller owns the
/// clock: `date` is an IMF-fixdate from [`http_date`](crate::http_date). Without `date`, the caller appends
/// the field of the origin server. 204 and 304 get no framing, whatever `body` says. The version is always
/// HTTP/1.1, the version of the server (RFC 9112 section 2.3).
pub fn begin_reply_head(
    out: &mut Vec<u8>,
    status: StatusCode,
    date: Option<&[u8; 29]>,
    body: ReplyBody,
    connection: Option<Connection>,
) {
    write_status_line(out, status);
    if let Some(date) = date {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    let ends_with_connection = write_framing(out, status, body);
    let connection = if ends_with_connection { Some(Connection::Close) } else { connection };
    out.extend_from_slice(match connection {
        Some(Connection::Close) => b"Connection: close\r\n",
        Some(Connection::KeepAlive) => b"Connection: keep-alive\r\n",
        None => b"",
    });
}

/// Appends one field line. Returns whether the line was appended.
///
/// These fields are left out (RFC 9112 section 11.1):
/// - a name that is not a token;
/// - a value with controls;
/// - fields that the engine writes itself ([`is_framing_field`]).
pub fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> bool {
    if !is_field_name(name) || !is_all_field_content(value) || is_framing_field(name) {
        return false;
    }
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    true
}

/// Appends the empty line that ends a head.
pub fn end_reply_head(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

fn write_status_line(out: &mut Vec<u8>, status: StatusCode) {
    if let Some(line) = status.line() {
        return out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status.as_u16()).as_bytes());
    // RFC 9112 section 4: the space remains if the phrase is empty.
    out.extend_from_slice(b" \r\n");
}

/// Appends the framing field, and returns whether the close of the connection ends the body (RFC 9112 section
/// 6.3 items 1 and 8).
fn write_framing(out: &mut Vec<u8>, status: StatusCode, body: ReplyBody) -> bool {
    match body {
        _ if status.is_bodyless() => false,
        ReplyBody::None => true,
        ReplyBody::Chunked => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            false
        }
        ReplyBody::Length(bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
            out.extend_from_slice(b"\r\n");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    fn check(
        status: u16,
        body: ReplyBody,
        connection: Option<Connection>,
        fields: &[(&str, &[u8])],
        expect: &str,
    ) {
        let status = StatusCode::new(status).unwrap();
        let mut out = b"before".to_vec();
        begin_reply_head(&mut out, status, Some(DATE), body, connection);
        for (name, value) in fields {
            push_field(&mut out, name.as_bytes(), value);
        }
        end_reply_head(&mut out);
        let expect = format!("before{}", expect.replace("DATE", "Date: Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(String::from_utf8(out).unwrap().replace("\r\n", "|"), expect);
    }

    #[test]
    fn heads_carry_date_one_framing_and_the_fields() {
        check(200, ReplyBody::Length(0), None, &[], "HTTP/1.1 200 OK|DATE|Content-Length: 0||");
        check(
            404,
            ReplyBody::Length(u64::MAX),
            Some(Connection::Close),
            &[("Content-Type", b"text/plain"), ("X", b"")],
            "HTTP/1.1 404 Not Found|DATE|Content-Length: 18446744073709551615|Connection: close|\
             Content-Type: text/plain|X: ||",
        );
        check(
            200,
            ReplyBody::Chunked,
            Some(Connection::KeepAlive),
            &[],
            "HTTP/1.1 200 OK|DATE|Transfer-Encoding: chunked|Connection: keep-alive||",
        );
        check(299, ReplyBody::Length(1), None, &[], "HTTP/1.1 299 |DATE|Content-Length: 1||");
    }

    #[test]
    fn no_framing_on_204_and_304_and_close_where_only_the_end_frames() {
        for body in [ReplyBody::None, ReplyBody::Length(5), ReplyBody::Chunked] {
            check(204, body, None, &[], "HTTP/1.1 204 No Content|DATE||");
            check(304, body, None, &[], "HTTP/1.1 304 Not Modified|DATE||");
        }
        let keep = Some(Connection::KeepAlive);
        check(200, ReplyBody::None, keep, &[], "HTTP/1.1 200 OK|DATE|Connection: close||");
    }

    #[test]
    fn fields_that_would_break_the_head_are_left_out() {
        let fields: [(&str, &[u8]); 8] = [
            ("a", b"b\r\nc: d"),
            ("a", b"b\nc"),
            ("a", b"\0"),
            ("a b", b"c"),
            ("", b"c"),
            ("content-LENGTH", b"7"),
            ("Transfer-Encoding", b"chunked"),
            ("date", b"now"),
        ];
        check(200, ReplyBody::Length(0), None, &fields, "HTTP/1.1 200 OK|DATE|Content-Length: 0||");
    }
}
