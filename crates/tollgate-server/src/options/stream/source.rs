//! The source of the value of a column.

use std::borrow::Cow;

use tollgate_http::{RequestHead, cookie_pairs, is_field_name, query_pairs};
use tollgate_log::{ColumnOrigin, ColumnType};

use super::field_path::FieldPath;
use super::tls_part::TlsPart;

/// The beginning of the name of a field that is a value in an XML item.
pub const XML_FIELD: &str = "xml:";

/// The source of the value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The time when the head of the request was complete.
    RequestTime,
    /// The request's id.
    RequestId,
    /// The trace that the request belongs to.
    RequestTraceId,
    /// The span of the request.
    RequestSpanId,
    /// The span of the caller.
    RequestParentSpanId,
    /// Method of the request.
    RequestMethod,
    /// The decoded path.
    RequestPath,
    /// The query of the request as sent, without `?`.
    RequestQuery,
    /// The host, in the form that the request has.
    RequestHost,
    /// The address of the client.
    RequestRemoteAddr,
    /// A part of the TLS session.
    RequestTls(TlsPart),
    /// Length of the request body in bytes, after decoding of its content coding.
    RequestBodyBytes,
    /// The first value of a field with this name.
    RequestHeader(String),
    /// The first value with this name in the query, after decoding.
    RequestQueryItem(String),
    /// The first cookie with this name.
    RequestCookie(String),
    /// The value of `{NAME}` in the route's path.
    RequestParam(String),
    /// The name of the caller whose credentials are valid.
    RequestAuthName,
    /// The scheme that proved the caller: `basic`, `bearer` or `jwt`.
    RequestAuthScheme,
    /// A claim of the caller's JSON Web Token.
    RequestAuthClaim(FieldPath),
    /// The first value at a path of XML in the look-ahead of a route that chooses its handler.
    RequestXml(String),
    /// The status of the reply.
    ReplyStatus,
    /// Microseconds from the complete head of the request to the head of the reply.
    ReplyTimeUs,
    /// Length of the reply content in bytes.
    ReplyBytes,
    /// `complete`, `streamed` or `cancelled`.
    ReplyOutcome,
    /// The body of the request.
    Body,
    /// One field of the record, from a script or a collected item.
    RecordField(FieldPath),
    /// One field of the document around a collected item.
    EnvelopeField(FieldPath),
    /// The whole record as JSON.
    Record,
    /// The id of the log.
    LogId,
    /// The sequence number in the log.
    LogSequence,
    /// The name of the machine that recorded the row.
    LogNode,
}

/// Column types for which text of a request can be parsed.
const TEXTUAL: [ColumnType; 10] = [
    ColumnType::Text,
    ColumnType::Int,
    ColumnType::Float,
    ColumnType::Bool,
    ColumnType::Timestamp,
    ColumnType::Uuid,
    ColumnType::Inet,
    ColumnType::Decimal(None),
    ColumnType::Date,
    ColumnType::Time,
];

/// The sources with a fixed name.
const PLAIN: [(&str, Source); 27] = [
    ("request.time", Source::RequestTime),
    ("request.id", Source::RequestId),
    ("request.trace_id", Source::RequestTraceId),
    ("request.span_id", Source::RequestSpanId),
    ("request.parent_span_id", Source::RequestParentSpanId),
    ("request.method", Source::RequestMethod),
    ("request.path", Source::RequestPath),
    ("request.query", Source::RequestQuery),
    ("request.host", Source::RequestHost),
    ("request.remote_addr", Source::RequestRemoteAddr),
    ("request.tls.version", Source::RequestTls(TlsPart::Version)),
    ("request.tls.cipher", Source::RequestTls(TlsPart::Cipher)),
    ("request.tls.sni", Source::RequestTls(TlsPart::ServerName)),
    ("request.tls.client_subject", Source::RequestTls(TlsPart::ClientSubject)),
    ("request.tls.client_san", Source::RequestTls(TlsPart::ClientNames)),
    ("request.tls.client_fingerprint", Source::RequestTls(TlsPart::ClientFingerprint)),
    ("request.body_bytes", Source::RequestBodyBytes),
    ("request.auth.name", Source::RequestAuthName),
    ("request.auth.scheme", Source::RequestAuthScheme),
    ("reply.status", Source::ReplyStatus),
    ("reply.time_us", Source::ReplyTimeUs),
    ("reply.bytes", Source::ReplyBytes),
    ("reply.outcome", Source::ReplyOutcome),
    ("body", Source::Body),
    ("record", Source::Record),
    ("log.id", Source::LogId),
    ("log.node", Source::LogNode),
];
const LOG_SEQUENCE: &str = "log.sequence";
/// The beginning of the names of claims.
const CLAIMS: &str = "request.auth.claims.";

impl Source {
    /// The names that a configuration may use. `NAME` stands for a name that the user chooses.
    pub const NAMES: [&'static str; 37] = [
        "request.time",
        "request.id",
        "request.trace_id",
        "request.span_id",
        "request.parent_span_id",
        "request.method",
        "request.path",
        "request.query",
        "request.query.NAME",
        "request.host",
        "request.remote_addr",
        "request.tls.version",
        "request.tls.cipher",
        "request.tls.sni",
        "request.tls.client_subject",
        "request.tls.client_san",
        "request.tls.client_fingerprint",
        "request.body_bytes",
        "request.header.NAME",
        "request.cookie.NAME",
        "request.param.NAME",
        "request.auth.name",
        "request.auth.scheme",
        "request.auth.claims.NAME",
        "reply.status",
        "reply.time_us",
        "reply.bytes",
        "reply.outcome",
        "body",
        "record.NAME",
        "record",
        "envelope.NAME",
        "xml:PATH",
        "xml:/PATH",
        "log.id",
        LOG_SEQUENCE,
        "log.node",
    ];

    /// The names of sources that may be a key.
    pub const KEY_NAMES: [&'static str; 9] = [
        "request.header.NAME",
        "request.query.NAME",
        "request.cookie.NAME",
        "request.param.NAME",
        "request.id",
        "record.NAME",
        "envelope.NAME",
        "xml:PATH",
        "xml:/PATH",
    ];

    /// Returns the source with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == LOG_SEQUENCE {
            return Some(Self::LogSequence);
        }
        if let Some((_, source)) = PLAIN.iter().find(|(known, _)| *known == name) {
            return Some(source.clone());
        }
        if let Some(field) = name.strip_prefix("record.") {
            return FieldPath::parse(field).ok().map(Self::RecordField);
        }
        if let Some(path) = name.strip_prefix(XML_FIELD).filter(|path| path.starts_with('/')) {
            return Some(Self::RequestXml(path.to_owned()));
        }
        if name.len() > XML_FIELD.len() && name.starts_with(XML_FIELD) {
            return Some(Self::RecordField(FieldPath::of_name(name)));
        }
        if let Some(field) = name.strip_prefix("envelope.") {
            return FieldPath::parse(field).ok().map(Self::EnvelopeField);
        }
        if let Some(claim) = name.strip_prefix(CLAIMS) {
            return FieldPath::parse(claim).ok().map(Self::RequestAuthClaim);
        }
        let (part, rest) =
            name.strip_prefix("request.")?.split_once('.').filter(|(_, rest)| !rest.is_empty())?;
        let named = match part {
            "header" => Self::RequestHeader,
            "query" => Self::RequestQueryItem,
            "cookie" => Self::RequestCookie,
            "param" => Self::RequestParam,
            _ => return None,
        };
        Some(named(rest.to_owned()))
    }

    /// Returns the name that [`Self::from_name`] accepts.
    pub fn name(&self) -> String {
        match self {
            Self::RequestHeader(name) => format!("request.header.{name}"),
            Self::RequestQueryItem(name) => format!("request.query.{name}"),
            Self::RequestCookie(name) => format!("request.cookie.{name}"),
            Self::RequestParam(name) => format!("request.param.{name}"),
            Self::RequestXml(path) => format!("{XML_FIELD}{path}"),
            Self::RequestAuthClaim(path) => format!("{CLAIMS}{path}"),
            Self::RecordField(path) if self.is_xml() => path.to_string(),
            Self::RecordField(path) => format!("record.{path}"),
            Self::EnvelopeField(path) => format!("envelope.{path}"),
            plain => {
                let known = PLAIN.iter().find(|(_, source)| source == plain);
                known.map_or(LOG_SEQUENCE, |(name, _)| name).to_owned()
            }
        }
    }

    /// Returns the column types that the source can fill. A decimal stands for decimals of all sizes.
    pub const fn column_types(&self) -> &'static [ColumnType] {
        match self {
            Self::RequestTime => &[ColumnType::Timestamp],
            Self::RequestId | Self::RequestTraceId => &[ColumnType::Uuid, ColumnType::Text],
            Self::RequestSpanId | Self::RequestParentSpanId => &[ColumnType::Text],
            Self::RequestMethod
            | Self::RequestPath
            | Self::RequestQuery
            | Self::RequestHost
            | Self::RequestAuthName
            | Self::RequestAuthScheme
            | Self::ReplyOutcome
            | Self::LogNode => &[ColumnType::Text],
            Self::RequestHeader(_)
            | Self::RequestQueryItem(_)
            | Self::RequestCookie(_)
            | Self::RequestParam(_)
            | Self::RequestXml(_) => &TEXTUAL,
            Self::RequestRemoteAddr => &[ColumnType::Inet, ColumnType::Text],
            Self::RequestTls(part) => part.column_types(),
            Self::RequestBodyBytes
            | Self::ReplyStatus
            | Self::ReplyTimeUs
            | Self::ReplyBytes
            | Self::LogSequence => &[ColumnType::Int],
            Self::Body => &[ColumnType::Bytes, ColumnType::Text],
            Self::RecordField(_) | Self::EnvelopeField(_) | Self::RequestAuthClaim(_) => &ColumnType::ALL,
            Self::Record => &[ColumnType::Json],
            Self::LogId => &[ColumnType::Uuid],
        }
    }

    /// Returns whether the source may be a key.
    pub const fn is_key(&self) -> bool {
        matches!(
            self,
            Self::RequestHeader(_)
                | Self::RequestQueryItem(_)
                | Self::RequestCookie(_)
                | Self::RequestParam(_)
                | Self::RequestXml(_)
                | Self::RequestId
                | Self::RecordField(_)
                | Self::EnvelopeField(_)
        )
    }

    /// Returns whether the value is a fact of the log, which no request changes.
    pub const fn is_of_log(&self) -> bool {
        matches!(self, Self::LogId | Self::LogSequence | Self::LogNode)
    }

    /// Returns whether the value of this source includes the value of `other`.
    pub fn holds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::RequestHeader(name), Self::RequestHeader(other)) => name.eq_ignore_ascii_case(other),
            (Self::RequestHeader(name), Self::RequestCookie(_)) => name.eq_ignore_ascii_case("cookie"),
            (Self::RequestHeader(name), Self::RequestHost) => name.eq_ignore_ascii_case("host"),
            (Self::RequestHost, Self::RequestHeader(name)) => name.eq_ignore_ascii_case("host"),
            (Self::RequestQuery, Self::RequestQueryItem(_))
            | (Self::RequestPath, Self::RequestParam(_))
            | (Self::Record | Self::Body, Self::RecordField(_))
            | (Self::Body, Self::EnvelopeField(_) | Self::RequestXml(_))
            | (Self::Body, Self::Record) => true,
            (Self::RecordField(path), Self::RecordField(other))
            | (Self::RequestAuthClaim(path), Self::RequestAuthClaim(other))
            | (Self::EnvelopeField(path), Self::EnvelopeField(other)) => path.holds(other),
            (one, other) => one == other,
        }
    }

    /// Returns whether the source is a value in an XML item.
    pub fn is_xml(&self) -> bool {
        matches!(self, Self::RecordField(path) if path.tokens()[0].starts_with(XML_FIELD))
    }

    /// Returns the source that a name with a dot was probably meant to be.
    pub fn dotted(&self) -> Option<String> {
        match self {
            Self::RecordField(_) if self.is_xml() => None,
            Self::RecordField(path) => path.dotted().map(|pointer| format!("record.{pointer}")),
            Self::RequestAuthClaim(path) => path.dotted().map(|pointer| format!("{CLAIMS}{pointer}")),
            Self::EnvelopeField(path) => path.dotted().map(|pointer| format!("envelope.{pointer}")),
            _ => None,
        }
    }

    /// Returns the source of the same field in the form that has only one meaning.
    pub fn pointer(&self) -> Option<String> {
        match self {
            Self::RecordField(path) => Some(format!("record.{}", path.pointer())),
            Self::RequestAuthClaim(path) => Some(format!("{CLAIMS}{}", path.pointer())),
            Self::EnvelopeField(path) => Some(format!("envelope.{}", path.pointer())),
            _ => None,
        }
    }

    /// Returns whether the value contains credentials of a client.
    pub fn is_secret(&self) -> bool {
        let is_credential = |name: &str| {
            name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("proxy-authorization")
        };
        matches!(self, Self::RequestHeader(name) if is_credential(name))
    }

    /// Returns the reason why no request can have this source. Returns `None` if a request can have this
    /// source.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::RequestHeader(name) if !is_field_name(name.as_bytes()) => {
                Some(format!("{name:?} is not a field name: allowed are letters, digits and !#$%&'*+-.^`|~"))
            }
            Self::RequestHeader(name) if name.contains('_') => {
                let meant = Self::RequestHeader(name.replace('_', "-")).name();
                Some(format!("field names with _ are refused, did you mean {meant:?}?"))
            }
            Self::RequestCookie(name) if name.trim_ascii() != name || name.contains([';', '=']) => {
                Some(format!(
                    "{name:?} is not a cookie name: allowed is one without ; and = and blanks at its ends"
                ))
            }
            _ => None,
        }
    }

    pub(super) const fn origin(&self) -> ColumnOrigin {
        match self {
            Self::LogId => ColumnOrigin::LogId,
            Self::LogSequence => ColumnOrigin::Sequence,
            _ => ColumnOrigin::Stored,
        }
    }
}

/// Returns the first value with a configured name in the head of a request.
pub(crate) fn named<'a>(head: &'a RequestHead, source: &Source) -> Option<Cow<'a, [u8]>> {
    match source {
        Source::RequestHeader(name) => head.field(name).map(Cow::from),
        Source::RequestQueryItem(name) => {
            let mut pairs = head.query_bytes().into_iter().flat_map(query_pairs);
            pairs.find(|(key, _)| **key == *name.as_bytes()).map(|(_, value)| value)
        }
        Source::RequestCookie(name) => {
            let lines = head.fields().filter(|(field, _)| field.eq_ignore_ascii_case("cookie"));
            lines
                .flat_map(|(_, line)| cookie_pairs(line))
                .find(|(key, _)| *key == name.as_bytes())
                .map(|(_, value)| value.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_name_and_types() {
        for name in Source::NAMES.map(|name| name.replace("NAME", "x")) {
            let source = Source::from_name(&name).unwrap();
            assert_eq!(source.name(), name);
            assert!(!source.column_types().is_empty(), "{name}");
        }
        for unknown in [
            "",
            "request",
            "record.",
            "envelope.",
            "record./a~2",
            "request.record.x",
            "request.header.",
            "request.query.",
            "Body",
        ] {
            assert_eq!(Source::from_name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_sources_of_keys_are_those_that_say_so() {
        let keys = Source::NAMES.into_iter().filter(|name| {
            Source::from_name(&name.replace("NAME", "x")).is_some_and(|source| source.is_key())
        });
        let mut expected = Source::KEY_NAMES;
        expected.sort_unstable();
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        assert_eq!(keys, expected);
    }
}
