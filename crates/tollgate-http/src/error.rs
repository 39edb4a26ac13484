//! Reasons for refusing a request. The client is at fault for each reason. One table gives the consequence of
//! each variant.
//!
//! There are two texts. `Display` is for our log and states the value found and the limit. Bytes from the
//! peer are escaped and truncated. [`RequestError::client_text`] is for the peer. That text is fixed and
//! repeats no input.

use crate::{StatusCode, UriScheme};

/// Reason for refusing a request. `found` holds the start of the input, at most 32 bytes, escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A line in the head ends in LF without CR.
    #[error("line of the head ends in bare LF")]
    BareLineFeed,
    /// A request line that is not `method SP target SP version`. HTTP/0.9 is also refused so.
    #[error("request line is malformed: \"{found}\"")]
    RequestLineMalformed {
        /// The start of the line.
        found: Box<str>,
    },
    /// A method that the server does not know. CONNECT and TRACE are refused, too.
    #[error("method is not implemented: \"{found}\"")]
    MethodUnknown {
        /// The refused method.
        found: Box<str>,
    },
    /// A well-formed version other than 1.0 and 1.1.
    #[error("version is not supported: \"{found}\", allowed HTTP/1.0 and HTTP/1.1")]
    VersionUnsupported {
        /// The refused version.
        found: Box<str>,
    },
    /// The connection preface of HTTP/2. The reply is 505, so that a person sees the cause.
    #[error("connection begins with the preface of HTTP/2, allowed are HTTP/1.0 and HTTP/1.1")]
    Http2Preface,
    /// A byte that the grammar does not allow at this place in the target.
    #[error("request target holds byte {byte:#04x}")]
    TargetByte {
        /// The byte that is not allowed.
        byte: u8,
    },
    /// A target in no form of RFC 9112 section 3.2, or in a form that the method does not allow.
    #[error("request target has a form that the method does not allow: \"{found}\"")]
    TargetForm {
        /// The refused target.
        found: Box<str>,
    },
    /// A target with another scheme than the request (RFC 9110 section 7.4).
    #[error("request target has scheme {}, but the request came by {}", .named.name(), .actual.name())]
    SchemeMisdirected {
        /// The scheme of the target.
        named: UriScheme,
        /// The scheme of the request.
        actual: UriScheme,
    },
    /// A target or request line above its limit.
    #[error("request line exceeds limit: {bytes} bytes or more, limit {limit} bytes")]
    TargetTooLong {
        /// Bytes seen so far.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A head above its limit.
    #[error("head exceeds limit: {bytes} bytes or more, limit {limit} bytes")]
    HeadTooLarge {
        /// Bytes seen so far.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// More field lines than allowed.
    #[error("field lines exceed limit: limit {limit} lines")]
    TooManyFields {
        /// Maximum number of field lines.
        limit: usize,
    },
    /// A blank between the request line and the first field name.
    #[error("head has whitespace before the first field line")]
    WhitespaceBeforeFields,
    /// A continuation line, obs-fold.
    #[error("field line is folded")]
    FieldFolded,
    /// A field name that is not a token, or a blank before the colon.
    #[error("field name is invalid: \"{found}\"")]
    FieldNameInvalid {
        /// The line up to the bad byte.
        found: Box<str>,
    },
    /// A field name with `_`.
    #[error("field name holds an underscore: \"{found}\"")]
    FieldNameUnderscore {
        /// The line up to the bad byte.
        found: Box<str>,
    },
    /// A control in a field value.
    #[error("value of field \"{name}\" holds byte {byte:#04x}")]
    FieldValueInvalid {
        /// The name of the field.
        name: Box<str>,
        /// The first control byte.
        byte: u8,
    },
    /// HTTP/1.1 without Host.
    #[error("field \"host\" is missing")]
    HostMissing,
    /// More than one Host.
    #[error("field \"host\" is repeated")]
    HostRepeated,
    /// A Host or authority that is not `uri-host [":" port]`.
    #[error("host is invalid: \"{found}\"")]
    HostInvalid {
        /// The refused host.
        found: Box<str>,
    },
    /// The authority of an absolute target that differs from Host.
    #[error("field \"host\" differs from the request target: \"{host}\", target \"{target}\"")]
    HostMismatch {
        /// The value of Host.
        host: Box<str>,
        /// The authority of the target.
        target: Box<str>,
    },
    /// A Content-Length that does not consist of 1 to 19 digits.
    #[error("content-length is invalid: \"{found}\"")]
    LengthInvalid {
        /// The value of Content-Length.
        found: Box<str>,
    },
    /// More than one Content-Length, even if equal.
    #[error("field \"content-length\" is repeated")]
    LengthRepeated,
    /// Content-Length and Transfer-Encoding together.
    #[error("content-length and transfer-encoding are both present")]
    LengthAndTransferEncoding,
    /// A Transfer-Encoding that does not end in one `chunked`, or is malformed.
    #[error("transfer-encoding is invalid: \"{found}\"")]
    TransferEncodingInvalid {
        /// The value of Transfer-Encoding.
        found: Box<str>,
    },
    /// More than one Transfer-Encoding line.
    #[error("field \"transfer-encoding\" is repeated")]
    TransferEncodingRepeated,
    /// Codings before the final `chunked` (RFC 9112 section 6.1).
    #[error("transfer coding is not implemented: \"{found}\"")]
    TransferEncodingUnsupported {
        /// The value of Transfer-Encoding.
        found: Box<str>,
    },
    /// Transfer-Encoding in HTTP/1.0.
    #[error("HTTP/1.0 request has a transfer-encoding")]
    TransferEncodingInHttp10,
    /// A Connection option that is not a token.
    #[error("connection is invalid: \"{found}\"")]
    ConnectionInvalid {
        /// The refused option of Connection.
        found: Box<str>,
    },
    /// A Connection option that names a field of framing or routing.
    #[error("field \"connection\" names a field that is not hop-by-hop: \"{found}\"")]
    ConnectionNamesFraming {
        /// The refused option of Connection.
        found: Box<str>,
    },
    /// An Upgrade to a protocol other than h2c, in a request with a body.
    #[error("request with a body has field \"upgrade\"")]
    UpgradeWithBody,
    /// An expectation other than `100-continue`.
    #[error("expectation is unknown: \"{found}\"")]
    ExpectationUnknown {
        /// The value of Expect.
        found: Box<str>,
    },
    /// A chunk size that does not consist of 1 to 16 hexadecimal digits followed by `;` or CRLF.
    #[error("chunk size is invalid at byte {byte:#04x}")]
    ChunkSizeInvalid {
        /// The bad byte.
        byte: u8,
    },
    /// A chunk extension outside the grammar.
    #[error("chunk extension is invalid at byte {byte:#04x}")]
    ChunkExtensionInvalid {
        /// The bad byte.
        byte: u8,
    },
    /// Extensions of a body above their limit.
    #[error("chunk extensions exceed limit: {limit} bytes")]
    ChunkExtensionsTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// Chunk data that is not followed by CRLF.
    #[error("chunk data is not followed by CR LF: byte {byte:#04x}")]
    ChunkEndInvalid {
        /// The byte at fault.
        byte: u8,
    },
    /// More framing than the data justifies, for example a long run of one-byte chunks.
    #[error("chunk framing exceeds limit: {overhead} bytes for {data} bytes of data, limit {limit} bytes")]
    ChunkOverhead {
        /// Bytes of framing so far.
        overhead: u64,
        /// Bytes of data so far.
        data: u64,
        /// Bytes of framing allowed for that data.
        limit: u64,
    },
    /// A trailer line outside the grammar of field lines.
    #[error("trailer section is invalid at byte {byte:#04x}")]
    TrailerInvalid {
        /// The bad byte.
        byte: u8,
    },
    /// A trailer section above its limit.
    #[error("trailer section exceeds limit: {limit} bytes")]
    TrailerTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// A body above the limit of its route. If Content-Length exceeds the limit, the server reports this
    /// error, not the parser.
    #[error("body exceeds limit: {bytes} bytes or more, limit {limit} bytes")]
    BodyTooLarge {
        /// Bytes announced or seen.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Content that does not match its content coding: corrupt, truncated, or with bytes after its end.
    #[error("content is not valid {coding}: {reason}")]
    ContentCoding {
        /// Name of the content coding.
        coding: &'static str,
        /// Fault of the content.
        reason: Box<str>,
    },
    /// Content that expands too much when it is decoded. The server reports this error.
    #[error(
        "content expands from {encoded} bytes to {decoded} bytes or more, limit {ratio} times as many bytes"
    )]
    ContentExpands {
        /// Encoded bytes so far.
        encoded: u64,
        /// Decoded bytes so far.
        decoded: u64,
        /// Limit of decoded bytes for each encoded byte.
        ratio: u64,
    },
    /// More coding than the content justifies, for example a long run of empty members. The server reports
    /// this error.
    #[error(
        "content coding has too much overhead: {parts} parts, {encoded} bytes for {decoded} bytes of content"
    )]
    ContentCodingOverhead {
        /// Encoded bytes so far.
        encoded: u64,
        /// Number of members or frames so far.
        parts: u64,
        /// Decoded bytes so far.
        decoded: u64,
    },
    /// The stream ended before the body was complete. The server reports this error at the end of the stream.
    #[error("body is incomplete: {bytes} bytes arrived")]
    BodyIncomplete {
        /// Bytes of content so far.
        bytes: u64,
    },
    /// A path that does not begin with `/`.
    #[error("path does not begin with a slash")]
    PathRelative,
    /// A `%` without two hexadecimal digits.
    #[error("path holds a malformed escape: \"{found}\"")]
    PathEscape {
        /// The text from the `%` onwards.
        found: Box<str>,
    },
    /// A byte that a path must not have: NUL, `\`, or a `/` from an escape.
    #[error("path holds byte {byte:#04x}")]
    PathByte {
        /// The byte that is not allowed.
        byte: u8,
    },
    /// A decoded path that is not UTF-8.
    #[error("path is not valid UTF-8")]
    PathEncoding,
    /// Dot segments that lead above the root.
    #[error("path leads above the root")]
    PathAboveRoot,
}

/// State of the connection after the refusal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    /// The end of the request is unknown or unread, so the server cannot find the next request.
    Close,
    /// The head is valid. The connection may continue after its body is read.
    Keep,
}

impl RequestError {
    /// Returns the status of the refusal.
    pub fn status(&self) -> StatusCode {
        self.row().0
    }

    /// Returns whether the connection must close after the refusal. Faults of syntax and framing always close
    /// the connection.
    pub fn closes(&self) -> bool {
        self.row().1 == After::Close
    }

    /// Returns the text for the client: short, fixed, and without any input.
    pub fn client_text(&self) -> &'static str {
        self.row().2
    }

    fn row(&self) -> (StatusCode, After, &'static str) {
        use After::{Close, Keep};
        let bad = StatusCode::BAD_REQUEST;
        let large = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        match self {
            Self::BareLineFeed => (bad, Close, "lines must end in CR LF"),
            Self::RequestLineMalformed { .. } => (bad, Close, "malformed request line"),
            Self::MethodUnknown { .. } => (StatusCode::NOT_IMPLEMENTED, Close, "method not implemented"),
            Self::VersionUnsupported { .. } | Self::Http2Preface => (
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                Close,
                "HTTP version not supported: allowed are HTTP/1.0 and HTTP/1.1",
            ),
            Self::TargetByte { .. } => (bad, Close, "invalid character in request target"),
            Self::TargetForm { .. } => (bad, Close, "invalid request target"),
            Self::SchemeMisdirected { actual: UriScheme::Http, .. } => (
                StatusCode::MISDIRECTED_REQUEST,
                Close,
                "request target has scheme https, but this connection is not encrypted",
            ),
            Self::SchemeMisdirected { actual: UriScheme::Https, .. } => (
                StatusCode::MISDIRECTED_REQUEST,
                Close,
                "request target has scheme http, but this connection is encrypted",
            ),
            Self::TargetTooLong { .. } => (StatusCode::URI_TOO_LONG, Close, "request target too long"),
            Self::HeadTooLarge { .. } => (large, Close, "request head too large"),
            Self::TooManyFields { .. } => (large, Close, "too many header fields"),
            Self::WhitespaceBeforeFields => (bad, Close, "whitespace before the first header field"),
            Self::FieldFolded => (bad, Close, "folded header field"),
            Self::FieldNameInvalid { .. } => (bad, Close, "invalid header field name"),
            Self::FieldNameUnderscore { .. } => (bad, Close, "underscore in a header field name"),
            Self::FieldValueInvalid { .. } => (bad, Close, "invalid character in a header field value"),
            Self::HostMissing => (bad, Close, "missing Host"),
            Self::HostRepeated => (bad, Close, "more than one Host"),
            Self::HostInvalid { .. } => (bad, Close, "invalid Host"),
            Self::HostMismatch { .. } => (bad, Close, "Host differs from the request target"),
            Self::LengthInvalid { .. } => (bad, Close, "invalid Content-Length"),
            Self::LengthRepeated => (bad, Close, "more than one Content-Length"),
            Self::LengthAndTransferEncoding => {
                (bad, Close, "both Content-Length and Transfer-Encoding are present")
            }
            Self::TransferEncodingInvalid { .. } => (bad, Close, "invalid Transfer-Encoding"),
            Self::TransferEncodingRepeated => (bad, Close, "more than one Transfer-Encoding"),
            Self::TransferEncodingUnsupported { .. } => {
                (StatusCode::NOT_IMPLEMENTED, Close, "transfer coding not implemented")
            }
            Self::TransferEncodingInHttp10 => (bad, Close, "Transfer-Encoding in an HTTP/1.0 request"),
            Self::ConnectionInvalid { .. } => (bad, Close, "invalid Connection"),
            Self::ConnectionNamesFraming { .. } => {
                (bad, Close, "Connection names a field that cannot be hop-by-hop")
            }
            Self::UpgradeWithBody => (bad, Close, "Upgrade in a request with a body"),
            Self::ExpectationUnknown { .. } => {
                (StatusCode::EXPECTATION_FAILED, Close, "unknown Expect: allowed is 100-continue")
            }
            Self::ChunkSizeInvalid { .. } => (bad, Close, "invalid chunk size"),
            Self::ChunkExtensionInvalid { .. } => (bad, Close, "invalid chunk extension"),
            Self::ChunkExtensionsTooLarge { .. } => (bad, Close, "chunk extensions too large"),
            Self::ChunkEndInvalid { .. } => (bad, Close, "chunk data has another size than its chunk size"),
            Self::ChunkOverhead { .. } => (bad, Close, "too many small chunks"),
            Self::TrailerInvalid { .. } => (bad, Close, "invalid trailer field"),
            Self::TrailerTooLarge { .. } => (large, Close, "trailer fields too large"),
            Self::BodyTooLarge { .. } => (StatusCode::CONTENT_TOO_LARGE, Close, "content too large"),
            Self::ContentCoding { .. } => (bad, Close, "content is not valid in its Content-Encoding"),
            Self::ContentCodingOverhead { .. } => {
                (bad, Close, "content coding has too much overhead for its content")
            }
            Self::ContentExpands { .. } => {
                (StatusCode::CONTENT_TOO_LARGE, Close, "decoded content is too large for its encoded content")
            }
            Self::BodyIncomplete { .. } => (bad, Close, "incomplete content"),
            Self::PathRelative => (bad, Keep, "invalid path"),
            Self::PathEscape { .. } => (bad, Keep, "malformed escape in path"),
            Self::PathByte { .. } => (bad, Keep, "invalid character in path"),
            Self::PathEncoding => (bad, Keep, "path is not UTF-8"),
            Self::PathAboveRoot => (bad, Keep, "path leads above the root"),
        }
    }
}

/// Returns the start of the bytes that a peer sent, escaped for a log line.
pub(crate) fn excerpt(bytes: &[u8]) -> Box<str> {
    let shown = bytes.get(..EXCERPT_BYTES_MAX).unwrap_or(bytes);
    let tail = if shown.len() < bytes.len() { "..." } else { "" };
    format!("{}{tail}", shown.escape_ascii()).into()
}

const EXCERPT_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_text_is_escaped_and_cut_and_client_text_repeats_nothing() {
        let error = RequestError::HostInvalid { found: excerpt(b"a\r\n\x1b[31m\xff") };
        assert_eq!(error.to_string(), r#"host is invalid: "a\r\n\x1b[31m\xff""#);
        assert_eq!(error.client_text(), "invalid Host");
        assert_eq!(excerpt(&[b'a'; 40]).len(), EXCERPT_BYTES_MAX + 3);
    }

    #[test]
    fn framing_closes_and_a_bad_path_does_not() {
        let check = |error: RequestError, status, closes| {
            assert_eq!((error.status().as_u16(), error.closes()), (status, closes), "{error}");
        };
        check(RequestError::LengthAndTransferEncoding, 400, true);
        check(RequestError::Http2Preface, 505, true);
        check(RequestError::BodyTooLarge { bytes: 2, limit: 1 }, 413, true);
        check(RequestError::PathAboveRoot, 400, false);
    }
}
