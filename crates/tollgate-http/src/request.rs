//! The parsed head of a request, [`RequestHead`] (RFC 9112 sections 2, 3 and 5).
//!
//! `reader` splits a head off the front of a read buffer. `line` parses the request line.

mod line;
mod reader;

pub use reader::HeadReader;

use crate::connection::{connection_options, is_hop_by_hop_field};
use crate::field::FieldSpan;
use crate::span::Span;
use crate::{BodyFraming, Method, RequestError, Target, UriScheme, Version};
use bytes::Bytes;
use line::RequestLine;
use std::fmt;

/// Head of a request that passed all checks: one shared buffer, and the positions of the fields in it.
#[derive(Clone)]
pub struct RequestHead {
    bytes: Bytes,
    wire_bytes: usize,
    line: RequestLine,
    fields: Vec<FieldSpan>,
    host: Option<Span>,
    framing: BodyFraming,
    is_persistent: bool,
    expects_continue: bool,
    connection_names_fields: bool,
}

impl RequestHead {
    /// Returns the method.
    pub fn method(&self) -> Method {
        self.line.method
    }

    /// Returns the name of the method, also of an extension.
    pub fn method_name(&self) -> &str {
        match self.line.method {
            Method::Extension => {
                let name_bytes = self.bytes.iter().position(|&byte| byte == b' ').unwrap_or_default();
                Span::new(0, name_bytes).text(&self.bytes)
            }
            known => known.as_str(),
        }
    }

    /// Returns the version.
    pub fn version(&self) -> Version {
        self.line.version
    }

    /// Returns the request target. An absolute form is resolved to path, query and [`host`](Self::host).
    pub fn target(&self) -> Target<'_> {
        self.line.target.target(&self.bytes)
    }

    /// Returns the target as sent, for logs. UTF-8 in it is percent-encoded.
    pub fn raw_target(&self) -> &str {
        self.line.target.raw(&self.bytes)
    }

    /// Checks the scheme of an absolute target against the scheme of the request. A target in another form
    /// has the scheme of the request.
    ///
    /// # Errors
    /// The target names another scheme (RFC 9110 section 7.4).
    #[inline]
    pub fn check_scheme(&self, actual: impl FnOnce() -> UriScheme) -> Result<(), RequestError> {
        let Some(named) = self.line.target.scheme() else { return Ok(()) };
        let actual = actual();
        if named == actual { Ok(()) } else { Err(RequestError::SchemeMisdirected { named, actual }) }
    }

    /// Returns the raw path: it begins with `/`, or is `*`.
    pub fn path(&self) -> &str {
        self.line.target.path(&self.bytes)
    }

    /// Returns [`path`](Self::path) as bytes, without a check for UTF-8.
    pub fn path_bytes(&self) -> &[u8] {
        self.line.target.path_bytes(&self.bytes)
    }

    /// Returns whether the path has neither escapes nor dots. [`normalise_path`](crate::normalise_path)
    /// returns such a path unchanged.
    pub fn has_plain_path(&self) -> bool {
        self.line.target.has_plain_path()
    }

    /// Returns the raw query, without its `?`.
    pub fn query(&self) -> Option<&str> {
        self.line.target.query(&self.bytes)
    }

    /// Returns [`query`](Self::query) as bytes, without a check for UTF-8.
    pub fn query_bytes(&self) -> Option<&[u8]> {
        self.line.target.query_bytes(&self.bytes)
    }

    /// Returns the host with its port, as sent.
    ///
    /// The authority of an absolute target has priority over the Host field. An HTTP/1.0 request may have no
    /// host.
    pub fn host(&self) -> Option<&str> {
        self.host.map(|host| host.text(&self.bytes))
    }

    /// Returns the first value of the field `name`, without the blanks around it. The case of `name` does not
    /// matter.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.find(name).map(|value| value.bytes(&self.bytes))
    }

    /// Returns the same value as [`field`](Self::field), and shares the bytes of the head.
    pub fn field_bytes(&self, name: &str) -> Option<Bytes> {
        self.find(name).map(|value| self.bytes.slice(value.range()))
    }

    /// Lists the fields in their order, with names as sent.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields.iter().map(|field| (field.name.text(&self.bytes), field.value.bytes(&self.bytes)))
    }

    /// Lists the fields in their order, with names as bytes.
    pub fn raw_fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name.bytes(&self.bytes), field.value.bytes(&self.bytes)))
    }

    /// Lists the values of all fields with this name, in their order. The case of `name` does not matter.
    pub fn values_of(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let is_named = move |(field, _): &(&[u8], &[u8])| field.eq_ignore_ascii_case(name.as_bytes());
        self.raw_fields().filter(is_named).map(|(_, value)| value)
    }

    /// Returns whether Connection has options other than `close` and `keep-alive`. Such options may name
    /// fields.
    pub fn connection_names_fields(&self) -> bool {
        self.connection_names_fields
    }

    /// Returns whether the client accepts trailer fields in the reply (RFC 9110 sections 6.5.1 and 10.1.4).
    ///
    /// The client must use HTTP/1.1 and send `TE: trailers`, and Connection must name TE.
    pub fn accepts_trailers(&self) -> bool {
        let has = |name: &[u8], member: &[u8]| {
            let lines = self.raw_fields().filter(|(field, _)| field.eq_ignore_ascii_case(name));
            lines
                .flat_map(|(_, value)| connection_options(value))
                .any(|option| option.eq_ignore_ascii_case(member))
        };
        self.connection_names_fields
            && self.version() == Version::Http11
            && has(b"connection", b"te")
            && has(b"te", b"trailers")
    }

    /// Returns how the end of the body is found (RFC 9112 section 6.3).
    pub fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// Returns whether the client wants to keep the connection after this request (RFC 9112 section 9.3).
    pub fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Returns whether the client waits for `100 Continue` before it sends its body (RFC 9110 section
    /// 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Returns whether a proxy must not forward the field `name` (RFC 9110 section 7.6.1).
    ///
    /// The field is hop-by-hop by its name, or because Connection names it.
    pub fn is_hop_by_hop(&self, name: &str) -> bool {
        is_hop_by_hop_field(name)
            || self.fields().filter(|(field, _)| field.eq_ignore_ascii_case("connection")).any(
                |(_, value)| {
                    connection_options(value).any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
                },
            )
    }

    /// Returns the size of the head on the wire in bytes, with the blank lines around it.
    pub fn bytes_len(&self) -> usize {
        self.wire_bytes
    }

    fn find(&self, name: &str) -> Option<Span> {
        let is_named = |field: &&FieldSpan| {
            field.name.range().len() == name.len()
                && field.name.bytes(&self.bytes).eq_ignore_ascii_case(name.as_bytes())
        };
        self.fields.iter().find(is_named).map(|field| field.value)
    }
}

/// Shows no field values, because they may hold secrets.
impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", &self.method_name())
            .field("target", &self.raw_target())
            .field("version", &self.version())
            .field("fields", &self.fields.len())
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}
