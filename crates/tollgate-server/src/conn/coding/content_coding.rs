//! The content coding of a request, and the refusal of a coding that the server does not decode.

use tollgate_http::{RequestHead, StatusCode};

use super::decode::Decode;
use super::gzip::Gzip;
use super::zstd::Zstd;
use crate::admit::{Arrived, Destination};
use crate::observe::RequestFault;
use crate::reply::Reply;

/// A content coding that the server decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::conn) enum ContentCoding {
    Gzip,
    Zstd,
}

/// The content has a coding that is not supported, or several codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unsupported;

impl Arrived {
    /// Returns the coding of the content, if the server decodes it. If the endpoint does not accept the
    /// content, the request is answered at once (RFC 9110 section 15.5.16).
    #[inline]
    pub(in crate::conn) fn check_content(&mut self) -> Option<ContentCoding> {
        let Destination::Endpoint { endpoint, .. } = &self.destination else { return None };
        let checked = match endpoint.refusal(&self.head) {
            Some(reply) => Err(reply),
            None if !endpoint.decodes_content() => return None,
            None => ContentCoding::of(&self.head).map_err(|Unsupported| {
                let reply = unsupported_coding();
                endpoint.note_fault(RequestFault::ContentCoding, &self.head, &reply);
                reply
            }),
        };
        let checked = checked.map_err(|reply| endpoint.granted(reply, &self.head));
        checked.unwrap_or_else(|reply| {
            self.destination = Destination::Reply(reply.into());
            None
        })
    }
}

fn unsupported_coding() -> Reply {
    let text = format!("content coding is not supported: allowed is one of {}", ContentCoding::ACCEPTED);
    Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with("Accept-Encoding", ContentCoding::ACCEPTED)
}

impl ContentCoding {
    /// Value of `Accept-Encoding` in a reply.
    const ACCEPTED: &'static str = "gzip, zstd";

    /// Returns the content coding of a request, or `None` if the content is not encoded.
    fn of(head: &RequestHead) -> Result<Option<Self>, Unsupported> {
        let lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        let names = lines.flat_map(|(_, value)| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
        let mut coding = None;
        for name in names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")) {
            if coding.is_some() {
                return Err(Unsupported);
            }
            coding = Some(Self::from_name(name).ok_or(Unsupported)?);
        }
        Ok(coding)
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::Gzip => Box::new(Gzip::new()),
            Self::Zstd => Box::new(Zstd::new()),
        }
    }
}
