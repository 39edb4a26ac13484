//! Facts about a transaction that the server itself knows.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use tollgate_http::Method;
use tollgate_log::{ColumnType, Value, ValueError};
use tollgate_script::{BodyError, Caller, Request};

use super::{ColumnWriter, Target, fit};
use crate::options::stream::{FieldPath, Source, named};
use crate::reply::{Extent, Reply};

/// Maximum bytes of a body in a column. No transaction can be larger.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Facts about a transaction when its reply is ready.
pub(crate) struct Facts<'a> {
    pub(crate) request: &'a Request,
    pub(crate) took_us: i64,
    pub(crate) ending: TransactionEnd,
}

/// End of a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TransactionEnd {
    Complete {
        status: u16,
        /// Length of the content in bytes. `None` if records are created before the reply, or if the request
        /// is HEAD and the content would be streamed.
        reply_bytes: Option<usize>,
    },
    /// The reply is not valid by the schema of its route, and another reply leaves in its place.
    Invalid { status: u16, reply_bytes: usize },
    /// The head of the reply is ready, and its content follows later.
    Streamed { status: u16 },
    /// The client left before the handler returned.
    Cancelled,
}

impl TransactionEnd {
    /// Returns the end of a transaction with this reply. A reply to HEAD has no content, so its length is the
    /// length for GET.
    pub(crate) fn of(reply: &Reply, method: Method) -> Self {
        let status = reply.status.as_u16();
        if reply.is_invalid {
            return Self::Invalid { status, reply_bytes: reply.content.len() };
        }
        match (reply.extent, method) {
            (Extent::Whole, _) | (Extent::Sized(_), Method::Head) => {
                Self::Complete { status, reply_bytes: usize::try_from(reply.content_bytes()).ok() }
            }
            (Extent::Streamed, Method::Head) => Self::Complete { status, reply_bytes: None },
            (Extent::Sized(_) | Extent::Streamed, _) => Self::Streamed { status },
        }
    }
}

impl Facts<'_> {
    /// Writes the value of a source other than the record and its fields into the row.
    pub(crate) fn push(
        &self,
        source: &Source,
        target: &Target,
        row: &mut impl ColumnWriter,
    ) -> Result<(), ValueError> {
        let (request, kind) = (self.request, target.kind);
        match source {
            Source::RequestTime => row.push(Value::Timestamp(request.time_us)),
            Source::RequestId if kind == ColumnType::Uuid => {
                row.push(Value::Uuid(request.id.uuid().into_bytes()))
            }
            Source::RequestId => push_text(Some(request.id.text(&mut [0; 36])), row),
            Source::RequestTraceId => match request.trace() {
                None => row.push(Value::Null),
                Some(trace) if kind == ColumnType::Uuid => row.push(Value::Uuid(trace.id.to_be_bytes())),
                Some(trace) => row.push(Value::Text(&format!("{:032x}", trace.id))),
            },
            Source::RequestSpanId => push_span(request.trace().map(|trace| trace.span), row),
            Source::RequestParentSpanId => push_span(request.trace().and_then(|trace| trace.parent), row),
            Source::RequestMethod => row.push(Value::Text(request.head.method_name())),
            Source::RequestPath => row.push(Value::Text(request.path())),
            Source::RequestQuery => push_text(request.head.query_bytes(), row),
            Source::RequestHost => push_text(request.head.host().map(str::as_bytes), row),
            Source::RequestBodyBytes => {
                row.push(Value::Int(i64::try_from(request.body.bytes_len()).unwrap_or(i64::MAX)))
            }
            Source::RequestHeader(_)
            | Source::RequestQueryItem(_)
            | Source::RequestCookie(_)
            | Source::RequestParam(_) => match self.bytes(source) {
                None => row.push(Value::Null),
                Some(bytes) => fit::push_read(&storable(&bytes), target, row),
            },
            Source::RequestXml(path) => {
                match request.choice.borrow().as_ref().and_then(|found| found.value(path)) {
                    None => row.push(Value::Null),
                    Some(text) => fit::push_read(text, target, row),
                }
            }
            Source::RequestRemoteAddr => match request.remote_addr {
                None => row.push(Value::Null),
                Some(address) if kind == ColumnType::Inet => row.push(Value::Inet(address)),
                Some(address) => row.push(Value::Text(&address.to_string())),
            },
            Source::RequestTls(part) => {
                let text = request.tls.as_deref().and_then(|tls| part.of(tls, kind));
                match text {
                    Some(text) if kind == ColumnType::Json => row.push(Value::Json(&text)),
                    text => push_text(text.as_deref().map(str::as_bytes), row),
                }
            }
            Source::RequestAuthName => push_text(self.caller().map(|caller| caller.name.as_bytes()), row),
            Source::RequestAuthScheme => push_text(self.caller().map(|caller| caller.scheme.as_bytes()), row),
            Source::RequestAuthClaim(path) => match self.claim(path) {
                None => row.push(Value::Null),
                Some(claim) => fit::push_json_value(&claim, target, row),
            },
            Source::ReplyStatus => row.push(self.ending.status().map_or(Value::Null, Value::Int)),
            Source::ReplyTimeUs => row.push(Value::Int(self.took_us)),
            Source::ReplyBytes => row.push(self.ending.reply_bytes().map_or(Value::Null, Value::Int)),
            Source::ReplyOutcome => row.push(Value::Text(self.ending.name())),
            Source::Body => {
                let body = request.body.read_within(BODY_BYTES_MAX).map_err(|error| unfit(&error))?;
                match kind {
                    ColumnType::Bytes => row.push(Value::Bytes(&body)),
                    _ => push_text(Some(&body), row),
                }
            }
            // The log fills its own columns. The plan fills the columns of the machine and of the record.
            Source::LogId
            | Source::LogSequence
            | Source::LogNode
            | Source::Record
            | Source::RecordField(_)
            | Source::EnvelopeField(_) => row.push(Value::Null),
        }
    }

    fn caller(&self) -> Option<&Caller> {
        self.request.caller.as_deref()
    }

    /// Returns a claim of the caller, as JSON.
    fn claim(&self, path: &FieldPath) -> Option<Box<RawValue>> {
        let (first, below) = path.tokens().split_first()?;
        let mut found = self.caller()?.claims.as_ref()?.get(first)?;
        for token in below {
            found = match found {
                serde_json::Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                object => object.get(token)?,
            };
        }
        to_raw_value(found).ok()
    }

    /// Returns the bytes of a named part of the request, or the id of the request.
    pub(super) fn bytes(&self, source: &Source) -> Option<Cow<'_, [u8]>> {
        match source {
            Source::RequestParam(name) => {
                let mut params = self.request.params();
                params.find(|(key, _)| key == name).map(|(_, value)| value.as_bytes().into())
            }
            Source::RequestXml(path) => {
                let choice = self.request.choice.borrow();
                let text = choice.as_ref().and_then(|found| found.value(path));
                text.map(|text| text.as_bytes().to_vec().into())
            }
            Source::RequestId => Some(self.request.id.text(&mut [0; 36]).to_vec().into()),
            _ => named(&self.request.head, source),
        }
    }
}

impl TransactionEnd {
    /// Returns whether the reply reports success, so that the client does not retry.
    pub(super) fn is_success(self) -> bool {
        self.status().is_some_and(|status| status < 400)
    }

    fn status(self) -> Option<i64> {
        match self {
            Self::Complete { status, .. } | Self::Invalid { status, .. } | Self::Streamed { status } => {
                Some(status.into())
            }
            Self::Cancelled => None,
        }
    }

    fn reply_bytes(self) -> Option<i64> {
        match self {
            Self::Complete { reply_bytes, .. } => reply_bytes.map(|bytes| bytes as i64),
            Self::Invalid { reply_bytes, .. } => Some(reply_bytes as i64),
            Self::Streamed { .. } | Self::Cancelled => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Complete { .. } => "complete",
            Self::Invalid { .. } => "invalid",
            Self::Streamed { .. } => "streamed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Creates the error for a body that is too large or lost. The record is kept as a reject.
fn unfit(error: &BodyError) -> ValueError {
    ValueError::Unfit {
        column: "body".to_owned(),
        found: error.to_string(),
        allowed: "a body of 8 MiB".into(),
    }
}

/// Writes bytes of the request as text into the row. Invalid UTF-8 and U+0000 become U+FFFD, so that the
/// record is never lost because of them.
fn push_text(bytes: Option<&[u8]>, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match bytes {
        Some(bytes) => row.push(Value::Text(&storable(bytes))),
        None => row.push(Value::Null),
    }
}

fn push_span(span: Option<u64>, row: &mut impl ColumnWriter) -> Result<(), ValueError> {
    match span {
        Some(span) => row.push(Value::Text(&format!("{span:016x}"))),
        None => row.push(Value::Null),
    }
}

fn storable(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(storable(b"plain \xc3\xbc"), "plain \u{fc}");
        assert_eq!(storable(b"a\xffb\0c"), "a\u{fffd}b\u{fffd}c");
    }
}
