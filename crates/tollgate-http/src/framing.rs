//! Framing of a request body, decided once from the head (RFC 9112 section 6).

use crate::RequestError;
use crate::Version;
use crate::error::excerpt;
use crate::grammar::{is_token, trim_blanks};

/// How the end of a request body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body, because there is neither Content-Length nor Transfer-Encoding. The close of a connection
    /// never ends a request body.
    None,
    /// Length of the body in bytes, from Content-Length.
    Length(u64),
    /// The body is chunked. A [`ChunkedDecoder`](crate::ChunkedDecoder) finds the end.
    Chunked,
}

impl BodyFraming {
    /// Returns whether content may follow the head.
    pub const fn has_content(self) -> bool {
        !matches!(self, Self::None | Self::Length(0))
    }

    /// Returns the length of the content in bytes, if the head states it.
    pub const fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(bytes) => Some(bytes),
            Self::Chunked => None,
        }
    }
}

/// The framing fields that were read so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct FramingFields {
    content_length: Option<u64>,
    transfer_encoding: Option<TransferEncoding>,
}

#[derive(Debug, Clone)]
enum TransferEncoding {
    Chunked,
    /// A transfer coding that is refused. The error is reported only at the end of the head, because
    /// Content-Length or HTTP/1.0 would be a more serious fault.
    Refused(Box<RequestError>),
}

impl FramingFields {
    pub(crate) fn note_content_length(&mut self, value: &[u8]) -> Result<(), RequestError> {
        // Several lengths are refused even if they are equal. The lengths may be on several lines or
        // separated by commas.
        if self.content_length.is_some() {
            return Err(RequestError::LengthRepeated);
        }
        self.content_length = Some(parse_length(value)?);
        Ok(())
    }

    pub(crate) fn note_transfer_encoding(&mut self, value: &[u8]) -> Result<(), RequestError> {
        if self.transfer_encoding.is_some() {
            return Err(RequestError::TransferEncodingRepeated);
        }
        self.transfer_encoding = Some(parse_transfer_encoding(value));
        Ok(())
    }

    #[inline]
    pub(crate) fn decide(self, version: Version) -> Result<BodyFraming, RequestError> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) => Ok(BodyFraming::None),
            (None, Some(length)) => Ok(BodyFraming::Length(length)),
            // RFC 9112 section 6.1: HTTP/1.0 has no transfer codings, so this framing cannot be trusted.
            (Some(_), _) if version == Version::Http10 => Err(RequestError::TransferEncodingInHttp10),
            // RFC 9112 section 6.3 item 3: this message may be an attempt at smuggling.
            (Some(_), Some(_)) => Err(RequestError::LengthAndTransferEncoding),
            (Some(TransferEncoding::Refused(error)), None) => Err(*error),
            (Some(TransferEncoding::Chunked), None) => Ok(BodyFraming::Chunked),
        }
    }
}

/// Parses `1*DIGIT` (RFC 9110 section 8.6). Nineteen digits always fit a `u64`.
fn parse_length(value: &[u8]) -> Result<u64, RequestError> {
    if value.is_empty() || value.len() > LENGTH_DIGITS_MAX || !value.iter().all(u8::is_ascii_digit) {
        return Err(RequestError::LengthInvalid { found: excerpt(value) });
    }
    Ok(value.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

/// Accepts exactly one `chunked`.
///
/// Well-formed codings before a final `chunked` get 501 (RFC 9112 section 6.1). A list without a final
/// `chunked` gets 400, because the length of the body is unknown (section 6.3 item 4). A malformed list gets
/// 400, too.
fn parse_transfer_encoding(value: &[u8]) -> TransferEncoding {
    if is_chunked(value) {
        return TransferEncoding::Chunked;
    }
    let mut codings = value.rsplit(|&byte| byte == b',').map(trim_blanks);
    let is_last_chunked = codings.next().is_some_and(is_chunked);
    let are_others_tokens =
        codings.all(|coding| is_token(coding) && !is_chunked(coding) && !is_identity(coding));
    let error = if is_last_chunked && are_others_tokens {
        RequestError::TransferEncodingUnsupported { found: excerpt(value) }
    } else {
        RequestError::TransferEncodingInvalid { found: excerpt(value) }
    };
    TransferEncoding::Refused(error.into())
}

fn is_chunked(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"chunked")
}

fn is_identity(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"identity")
}

const LENGTH_DIGITS_MAX: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_is_one_to_nineteen_digits() {
        let check = |value: &str, expect: Option<u64>| {
            assert_eq!(parse_length(value.as_bytes()).ok(), expect, "{value:?}");
        };
        check("0", Some(0));
        check("0042", Some(42));
        check("9999999999999999999", Some(9_999_999_999_999_999_999));
        for bad in [
            "",
            "+1",
            "-1",
            "0x10",
            "1_000",
            "1 000",
            "1,1",
            "1, 1",
            "10000000000000000000",
            "1.0",
            "\u{661}",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn transfer_encoding_is_chunked_once() {
        let check = |value: &str, expect: u16| {
            let found = match parse_transfer_encoding(value.as_bytes()) {
                TransferEncoding::Chunked => 200,
                TransferEncoding::Refused(error) => error.status().as_u16(),
            };
            assert_eq!(found, expect, "{value:?}");
        };
        check("chunked", 200);
        check("Chunked", 200);
        check("gzip, chunked", 501);
        check("gzip ,\tdeflate,chunked", 501);
        for bad in [
            "",
            "identity",
            "identity, chunked",
            "gzip",
            "chunked, gzip",
            "chunked, chunked",
            "chunked,",
            ",chunked",
            ", chunked",
            "chunked;q=1",
            "\"chunked\"",
            "xchunked",
            "chunked\u{b}",
            "gzip;level=1, chunked",
            "chunke\u{212a}",
        ] {
            check(bad, 400);
        }
    }

    #[test]
    fn both_lengths_are_refused_whatever_the_coding() {
        for coding in ["chunked", "gzip, chunked", "nonsense;"] {
            let mut fields = FramingFields::default();
            fields.note_content_length(b"1").unwrap();
            fields.note_transfer_encoding(coding.as_bytes()).unwrap();
            assert_eq!(fields.clone().decide(Version::Http11), Err(RequestError::LengthAndTransferEncoding));
            assert_eq!(fields.decide(Version::Http10), Err(RequestError::TransferEncodingInHttp10));
        }
    }
}
