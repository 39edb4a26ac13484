//! The content coding of a request, and the refusal of a coding that the server does not decode.

use tollgate_http::{RequestHead, StatusCode};

use super::brotli::Brotli;
use super::decode::Decode;
use super::deflate::Deflate;
use super::gzip::Gzip;
use super::zstd::Zstd;
use crate::admit::{Arrived, Destination};
use crate::observe::RequestFault;
use crate::reply::Reply;

/// A content coding that the server decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::conn) enum ContentCoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Maximum number of codings of one content. Each coding holds the memory of a decoder.
const CODINGS_MAX: usize = 3;

/// The content has a coding that is not supported, or too many codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsupported;

impl Arrived {
    /// Returns the codings of the content that the server decodes. If the endpoint does not accept the
    /// content, the request is answered at once (RFC 9110 section 15.5.16).
    #[inline]
    pub(in crate::conn) fn check_content(&mut self) -> Vec<ContentCoding> {
        let Destination::Endpoint { endpoint, .. } = &self.destination else { return Vec::new() };
        let checked = match endpoint.refusal(&self.head) {
            Some(reply) => Err(reply),
            None if !endpoint.decodes_content() => return Vec::new(),
            None => ContentCoding::all_of(&self.head).map_err(|Unsupported| {
                let reply = unsupported_coding();
                endpoint.note_fault(RequestFault::ContentCoding, &self.head, &reply);
                reply
            }),
        };
        let checked = checked.map_err(|reply| endpoint.granted(reply, &self.head));
        checked.unwrap_or_else(|reply| {
            self.destination = Destination::Reply(reply.into());
            Vec::new()
        })
    }
}

/// RFC 9110 section 12.5.3: `Accept-Encoding` in a reply lists the codings that a request may have.
pub(super) fn unsupported_coding() -> Reply {
    let (accepted, most) = (ContentCoding::ACCEPTED, CODINGS_MAX);
    let text = format!("content coding is not supported: allowed are {accepted}, at most {most} in a row");
    Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with("Accept-Encoding", accepted)
}

impl ContentCoding {
    /// Value of `Accept-Encoding` in a reply.
    const ACCEPTED: &'static str = "gzip, deflate, br, zstd";

    /// Returns the codings of the content of a request, in the order in which they were applied.
    pub(super) fn all_of(head: &RequestHead) -> Result<Vec<Self>, Unsupported> {
        let lines = head.values_of("content-encoding");
        let names = lines.flat_map(|value| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
        let names = names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"));
        let mut codings = Vec::new();
        for name in names {
            if codings.len() == CODINGS_MAX {
                return Err(Unsupported);
            }
            codings.push(Self::from_name(name).ok_or(Unsupported)?);
        }
        Ok(codings)
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"deflate" => Some(Self::Deflate),
            b"br" => Some(Self::Brotli),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::Gzip => Box::new(Gzip::new()),
            Self::Deflate => Box::new(Deflate::new()),
            Self::Brotli => Box::new(Brotli::new()),
            Self::Zstd => Box::new(Zstd::new()),
        }
    }
}
