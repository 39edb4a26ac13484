//! One line of the access log before it has a format: the facts about a request, encoded in a batch.
//!
//! A line is its length in 4 bytes, the numbers in a fixed order, then the texts in the order of
//! [`AccessLine`]. A text is its length in 4 bytes, then its bytes. The length [`ABSENT`] stands for no text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate_http::{UriScheme, Version};
use tollgate_log::Level;
use tollgate_script::Trace;

/// The length of a text that a line does not have.
const ABSENT: u32 = u32::MAX;

/// The facts about one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLine<'a> {
    /// Time when the head was complete, in microseconds since 1970.
    pub time_us: i64,
    /// Microseconds until the reply left.
    pub took_us: u64,
    /// Bytes of the content of the reply that left.
    pub reply_bytes: u64,
    /// Status of the reply. `None` if no reply was made.
    pub status: Option<u16>,
    /// Version of HTTP. `None` if the server could not read the head.
    pub protocol: Option<&'static str>,
    /// Ack level of the records of the request. `None` if it left no record.
    pub ack: Option<&'static str>,
    /// End of the request.
    pub outcome: AccessOutcome,
    /// Address of the client.
    pub client: AccessClient,
    /// Method. `None` if the server could not read the head.
    pub method: Option<&'a [u8]>,
    /// Target as sent, without values that are hidden.
    pub target: Option<&'a [u8]>,
    /// The field `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
    /// The field `Referer`.
    pub referer: Option<&'a [u8]>,
    /// Name of the caller whose credentials were valid.
    pub user: Option<&'a [u8]>,
    /// The path pattern of the route.
    pub route: Option<&'a [u8]>,
    /// Id of the request.
    pub id: Option<&'a [u8]>,
    /// The trace. Only an exported span has it.
    pub span: Option<SpanFacts>,
}

/// The facts of an exported span that a line does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanFacts {
    /// The trace, with the span of the request.
    pub trace: Trace,
    /// Scheme of the request.
    pub scheme: UriScheme,
}

impl SpanFacts {
    const BYTES: usize = 34;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let Trace { id, parent, span, flags } = self.trace;
        let mut out = [0; Self::BYTES];
        out[..16].copy_from_slice(&id.to_be_bytes());
        out[16..24].copy_from_slice(&span.to_be_bytes());
        out[24..32].copy_from_slice(&parent.unwrap_or_default().to_be_bytes());
        out[32..].copy_from_slice(&[flags, u8::from(self.scheme == UriScheme::Https)]);
        out
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let id = u128::from_be_bytes(take(rest)?);
        let (span, parent) = (u64::from_be_bytes(take(rest)?), u64::from_be_bytes(take(rest)?));
        let [flags, is_https] = take(rest)?;
        let trace = Trace { id, parent: (parent != 0).then_some(parent), span, flags };
        let scheme = if is_https == 1 { UriScheme::Https } else { UriScheme::Http };
        Some(Self { trace, scheme })
    }
}

/// The address of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessClient {
    /// No trusted source names the address.
    Unknown,
    /// A rule of the stream hides the address.
    Hidden,
    /// The address.
    Address(IpAddr),
}

/// End of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessOutcome {
    /// The reply left. The request has no record.
    Replied,
    /// The reply left after the records reached their ack level.
    Acknowledged,
    /// An admission gate, the log or a backend refused the request. Nothing was recorded.
    Refused,
    /// It is unknown whether the records are kept.
    Unknown,
    /// The database has the records, and some of them are rejects.
    Rejected,
    /// The client left, or the server ended, before a reply was made.
    Cancelled,
    /// The reply did not leave completely.
    Aborted,
    /// The reply is not valid by the schema of its route. Another reply left in its place, or it was cut off.
    Invalid,
}

impl AccessOutcome {
    const ALL: [Self; 8] = [
        Self::Replied,
        Self::Acknowledged,
        Self::Refused,
        Self::Unknown,
        Self::Rejected,
        Self::Cancelled,
        Self::Aborted,
        Self::Invalid,
    ];

    /// Returns the word for the outcome. A reply without a record has none.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Replied => None,
            Self::Acknowledged => Some("acknowledged"),
            Self::Refused => Some("refused"),
            Self::Unknown => Some("unknown"),
            Self::Rejected => Some("rejected"),
            Self::Cancelled => Some("cancelled"),
            Self::Aborted => Some("aborted"),
            Self::Invalid => Some("invalid"),
        }
    }

    /// Returns whether the outcome is an error, whatever the status is.
    pub(crate) const fn is_error(self) -> bool {
        !matches!(self, Self::Replied | Self::Acknowledged)
    }
}

/// The ack level of records, as a number in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AckCode {
    #[default]
    None,
    Log(Level),
    Loaded,
    Queued,
}

impl AckCode {
    const LOADED: u8 = Level::ALL.len() as u8 + 1;
    const QUEUED: u8 = Self::LOADED + 1;

    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Log(level) => level as u8 + 1,
            Self::Loaded => Self::LOADED,
            Self::Queued => Self::QUEUED,
        }
    }

    fn name_of(number: u8) -> Option<&'static str> {
        match number {
            0 => None,
            Self::LOADED => Some("loaded"),
            Self::QUEUED => Some("queued"),
            level => Level::ALL.into_iter().find(|known| *known as u8 + 1 == level).map(Level::name),
        }
    }
}

/// The facts of a line that are no texts.
#[derive(Debug, Clone)]
pub(crate) struct LineFacts {
    pub(crate) time_us: i64,
    pub(crate) took_us: u64,
    pub(crate) reply_bytes: u64,
    /// 0 if no reply was made.
    pub(crate) status: u16,
    pub(crate) version: Option<Version>,
    pub(crate) ack: AckCode,
    pub(crate) outcome: AccessOutcome,
    pub(crate) client: AccessClient,
}

impl LineFacts {
    /// Appends a line with these facts. `texts` has the first texts, each by [`push_text`]. `last` has the
    /// other texts.
    pub(crate) fn write(&self, texts: &[u8], last: [Option<&[u8]>; 4], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.time_us.to_le_bytes());
        out.extend_from_slice(&self.took_us.to_le_bytes());
        out.extend_from_slice(&self.reply_bytes.to_le_bytes());
        out.extend_from_slice(&self.status.to_le_bytes());
        let version = match self.version {
            None => 0,
            Some(Version::Http10) => 1,
            Some(Version::Http11) => 2,
        };
        let (family, address) = match self.client {
            AccessClient::Unknown => (0, [0; 16]),
            AccessClient::Hidden => (1, [0; 16]),
            AccessClient::Address(IpAddr::V4(address)) => (4, address.to_ipv6_mapped().octets()),
            AccessClient::Address(IpAddr::V6(address)) => (6, address.octets()),
        };
        out.extend_from_slice(&[version, self.ack.number(), self.outcome as u8, family]);
        out.extend_from_slice(&address);
        out.extend_from_slice(texts);
        last.into_iter().for_each(|text| push_text(out, text));
        let bytes = u32::try_from(out.len() - start).unwrap_or_default();
        out[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
    }
}

/// Appends a text to an encoded line.
pub(crate) fn push_text(out: &mut Vec<u8>, text: Option<&[u8]>) {
    let bytes = text.map_or(ABSENT, |text| u32::try_from(text.len()).unwrap_or_default());
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(text.unwrap_or_default());
}

/// Returns the first texts of a line: method, target, `User-Agent`, `Referer`.
pub(crate) fn texts_of(mut texts: &[u8]) -> Option<[Option<&[u8]>; 4]> {
    let texts = &mut texts;
    Some([text(texts)?, text(texts)?, text(texts)?, text(texts)?])
}

impl<'a> AccessLine<'a> {
    /// Reads the first line of a batch. Returns the line, and the bytes after it.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (line, after) = bytes.split_at_checked(u32::from_le_bytes(*bytes.first_chunk()?) as usize)?;
        let mut rest = line.get(4..)?;
        let rest = &mut rest;
        let (time_us, took_us) = (i64::from_le_bytes(take(rest)?), u64::from_le_bytes(take(rest)?));
        let (reply_bytes, status) = (u64::from_le_bytes(take(rest)?), u16::from_le_bytes(take(rest)?));
        let [version, ack, outcome, family] = take(rest)?;
        let address = Ipv6Addr::from(take::<16>(rest)?);
        let line = Self {
            time_us,
            took_us,
            reply_bytes,
            status: (status > 0).then_some(status),
            protocol: [None, Some("HTTP/1.0"), Some("HTTP/1.1")].get(usize::from(version)).copied()?,
            ack: AckCode::name_of(ack),
            outcome: AccessOutcome::ALL.get(usize::from(outcome)).copied()?,
            client: match family {
                0 => AccessClient::Unknown,
                1 => AccessClient::Hidden,
                4 => {
                    let address = address.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED);
                    AccessClient::Address(address.into())
                }
                _ => AccessClient::Address(address.into()),
            },
            method: text(rest)?,
            target: text(rest)?,
            user_agent: text(rest)?,
            referer: text(rest)?,
            user: text(rest)?,
            route: text(rest)?,
            id: text(rest)?,
            span: text(rest)?.and_then(SpanFacts::read),
        };
        Some((line, after))
    }
}

fn take<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let bytes = u32::from_le_bytes(take(rest)?);
    if bytes == ABSENT {
        return Some(None);
    }
    let (text, after) = rest.split_at_checked(bytes as usize)?;
    *rest = after;
    Some(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back_as_they_were_written_one_after_the_other() {
        let mut texts = Vec::new();
        for text in [Some(&b"GET"[..]), Some(b"/a?b=\xff"), None, Some(b"")] {
            push_text(&mut texts, text);
        }
        let facts = LineFacts {
            time_us: -5,
            took_us: 7,
            reply_bytes: u64::MAX,
            status: 503,
            version: Some(Version::Http10),
            ack: AckCode::Log(Level::Synced),
            outcome: AccessOutcome::Unknown,
            client: AccessClient::Address([192, 0, 2, 1].into()),
        };
        let mut batch = Vec::new();
        let span = SpanFacts {
            trace: Trace { id: 1 << 100, parent: Some(3), span: u64::MAX, flags: 1 },
            scheme: UriScheme::Https,
        };
        facts.write(&texts, [Some(b"me"), None, Some(b"id-1"), Some(&span.encode())], &mut batch);
        let hidden = LineFacts {
            status: 0,
            version: None,
            ack: AckCode::Loaded,
            client: AccessClient::Hidden,
            ..facts
        };
        hidden.write(&texts, [None; 4], &mut batch);
        let (line, rest) = AccessLine::read(&batch).unwrap();
        assert_eq!((line.time_us, line.took_us, line.reply_bytes), (-5, 7, u64::MAX));
        assert_eq!((line.status, line.protocol, line.ack), (Some(503), Some("HTTP/1.0"), Some("synced")));
        assert_eq!(line.client, AccessClient::Address([192, 0, 2, 1].into()));
        assert_eq!(line.outcome, AccessOutcome::Unknown);
        assert_eq!((line.method, line.target), (Some(&b"GET"[..]), Some(&b"/a?b=\xff"[..])));
        assert_eq!((line.user_agent, line.referer), (None, Some(&b""[..])));
        assert_eq!((line.user, line.route, line.id), (Some(&b"me"[..]), None, Some(&b"id-1"[..])));
        assert_eq!(line.span, Some(span));
        let (line, rest) = AccessLine::read(rest).unwrap();
        assert_eq!((line.status, line.protocol, line.ack), (None, None, Some("loaded")));
        assert_eq!((line.client, line.id, rest.len()), (AccessClient::Hidden, None, 0));
        assert_eq!(line.span, None);
        assert!(AccessLine::read(&batch[..20]).is_none());
    }

    #[test]
    fn every_outcome_has_its_place_in_the_list() {
        for (place, outcome) in AccessOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place, "{outcome:?}");
        }
    }
}
