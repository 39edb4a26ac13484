//! The trace of a request: the strict parser of `traceparent`, and the fields that pass the trace on (W3C
//! Trace Context, 13 January 2023).
//!
//! The trace is parsed on demand, so a request without tracing costs nothing. Repeated parsing returns the
//! same trace.

use tollgate_http::RequestHead;
use uuid::Uuid;

use crate::id::HEX;

/// Source of the trace of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceRule {
    /// There is no trace.
    #[default]
    Off,
    /// The trace is taken from a valid `traceparent` in the request. Without a valid field there is no trace.
    Take,
    /// The trace is taken from a valid `traceparent` in the request. Without a valid field the server creates
    /// a new trace.
    TakeOrMake,
    /// The server creates a new trace, even if the request has one.
    Make,
}

/// The valid `traceparent` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the whole trace. It is not zero.
    pub id: u128,
    /// Span of the caller. It is not zero.
    pub span: u64,
    /// Bit 0 means that the caller may have recorded the trace.
    pub flags: u8,
}

impl TraceParent {
    /// Returns whether the caller may have recorded the trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl TraceRule {
    /// Returns the `traceparent` of a request, if this rule takes it.
    pub fn parent(self, head: &RequestHead) -> Option<TraceParent> {
        match self {
            Self::Off | Self::Make => None,
            Self::Take | Self::TakeOrMake => came(head),
        }
    }

    /// Returns whether a trace begins here if the request brings none.
    pub fn makes(self) -> bool {
        matches!(self, Self::TakeOrMake | Self::Make)
    }
}

/// The trace that a request belongs to. The server creates the span of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// Id of the whole trace. It is not zero.
    pub id: u128,
    /// Span of the caller. `None` if the trace begins here.
    pub parent: Option<u64>,
    /// Span of this request, and parent of the requests that it causes. It is not zero.
    pub span: u64,
    /// Bit 0 means that the caller may have recorded the trace.
    pub flags: u8,
}

const VERSION: &str = "00";
const TRACEPARENT_BYTES: usize = 55;
/// The only supported flag of version 00.
const SAMPLED: u8 = 1;

impl Trace {
    /// Continues a trace, or begins a new one. `id` and `time_us` are those of the request. `is_sampled` is
    /// the flag of a new trace.
    ///
    /// The id of a new trace equals the id of the request, so that an operator who has one id also has the
    /// other.
    pub fn of(parent: Option<TraceParent>, id: Uuid, time_us: i64, is_sampled: bool) -> Self {
        let span = span(id, time_us);
        match parent {
            Some(TraceParent { id, span: parent, flags }) => Self { id, parent: Some(parent), span, flags },
            None => {
                let id = if id.is_nil() { u128::from(span) } else { id.as_u128() };
                Self { id, parent: None, span, flags: if is_sampled { SAMPLED } else { 0 } }
            }
        }
    }

    /// Parses a `traceparent` into id, parent and flags.
    ///
    /// `None` means that the field is invalid. An invalid field is ignored, as if it were absent (section
    /// 3.2.2.5).
    fn read(text: &[u8]) -> Option<TraceParent> {
        let text = std::str::from_utf8(text).ok()?;
        // A later version may have more than four fields, and the further fields are ignored (section 3.2.4).
        let (own, rest) = text.split_at_checked(TRACEPARENT_BYTES)?;
        let mut parts = own.split('-');
        let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_shaped = (version.len(), id.len(), parent.len(), flags.len()) == (2, 32, 16, 2);
        let is_hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_end =
            if version == VERSION { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
        if !is_shaped || ![version, id, parent, flags].iter().all(is_hex) || !is_end || version == "ff" {
            return None;
        }
        let (id, span) = (u128::from_str_radix(id, 16).ok()?, u64::from_str_radix(parent, 16).ok()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (id != 0 && span != 0).then_some(TraceParent { id, span, flags })
    }

    /// Returns the field for a request to another server, with our span as the parent.
    pub fn traceparent(&self) -> [u8; TRACEPARENT_BYTES] {
        let mut text = [b'-'; TRACEPARENT_BYTES];
        text[..2].copy_from_slice(VERSION.as_bytes());
        write_hex(&mut text[3..35], &self.id.to_be_bytes());
        write_hex(&mut text[36..52], &self.span.to_be_bytes());
        write_hex(&mut text[53..], &[self.flags & SAMPLED]);
        text
    }
}

/// Parses the `traceparent` of a request. If there are several such fields, all are ignored (section 3.2.1).
fn came(head: &RequestHead) -> Option<TraceParent> {
    let mut fields = head.raw_fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"traceparent"));
    let (_, first) = fields.next()?;
    fields.next().is_none().then_some(())?;
    Trace::read(first)
}

fn write_hex(text: &mut [u8], bytes: &[u8]) {
    for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
        digits.copy_from_slice(&HEX[usize::from(*byte)]);
    }
}

/// Returns the span id of a request. Span ids differ even if two requests have the same id.
fn span(id: Uuid, time_us: i64) -> u64 {
    let (high, low) = id.as_u64_pair();
    mix(high ^ mix(low ^ mix(time_us.cast_unsigned()))).max(1)
}

/// Mixes the bits of a number by SplitMix64, which is a bijection.
///
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_strictly() {
        let (id, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let sound = Some(TraceParent {
            id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span: 0x00f0_67aa_0ba9_02b7,
            flags: 1,
        });
        let check = |text: String, expect| assert_eq!(Trace::read(text.as_bytes()), expect, "{text:?}");
        check(format!("00-{id}-{parent}-01"), sound);
        check(format!("00-{id}-{parent}-03"), sound.map(|sound| TraceParent { flags: 3, ..sound }));
        check(format!("cc-{id}-{parent}-01"), sound);
        check(format!("cc-{id}-{parent}-01-what-the-future-holds"), sound);
        for unsound in [
            String::new(),
            format!("00-{id}-{parent}"),
            format!("00-{id}-{parent}-1"),
            format!("00-{id}-{parent}-01-"),
            format!("00-{id}-{parent}-01-more"),
            format!("cc-{id}-{parent}-01.more"),
            format!("ff-{id}-{parent}-01"),
            format!("0-{id}-{parent}-011"),
            format!("00-{}-{parent}-01", id.to_uppercase()),
            format!("00-{id}-{}-01", parent.to_uppercase()),
            format!("00-{}-{parent}-01", "0".repeat(32)),
            format!("00-{id}-{}-01", "0".repeat(16)),
            format!("00-{id}-{parent}-0g"),
            format!("00-{}-{parent}-01", id.replace('4', "+")),
            format!(" 00-{id}-{parent}-01"),
            format!("00_{id}_{parent}_01"),
            format!("00-{id}{parent}---01"),
        ] {
            check(unsound, None);
        }
    }

    #[test]
    fn a_forwarded_trace_has_our_span_as_parent_and_no_unknown_flag() {
        let trace = Trace { id: 0xa, parent: Some(0xb), span: 0xc, flags: 0xff };
        assert_eq!(&trace.traceparent(), b"00-0000000000000000000000000000000a-000000000000000c-01");
        assert_eq!(Trace::read(&trace.traceparent()), Some(TraceParent { id: 0xa, span: 0xc, flags: 1 }));
    }
}
