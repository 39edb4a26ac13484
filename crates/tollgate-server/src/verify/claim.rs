//! The signatures and the timestamp that a head claims.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tollgate_http::RequestHead;
use tollgate_signature::{decode_hex, encode_hex};

use super::fault::SignatureFault;
use crate::options::{SignatureEncoding, SignatureScheme, SignatureSeparator};

/// Maximum number of signatures that are tried. A partner that rotates its keys sends two.
const SIGNATURES_MAX: usize = 8;
/// Maximum digits of a timestamp in seconds. Ten digits last until the year 2286.
const TIMESTAMP_DIGITS_MAX: usize = 12;

/// The signatures and the timestamp of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// The bytes of each signature.
    pub(super) signatures: Vec<Vec<u8>>,
    /// The timestamp as sent. Empty if the scheme has none.
    pub(super) timestamp: Vec<u8>,
}

impl SignatureScheme {
    /// Reads the signatures and the timestamp of a head, and compares the timestamp with the clock.
    pub(super) fn claim(&self, head: &RequestHead, now_s: i64) -> Result<Claim, SignatureFault> {
        let value = field(head, &self.header)?;
        let items: Vec<_> = self.items(value).collect();
        let signatures = self.signatures(&items)?;
        let item = |prefix: &String| items.iter().find_map(|item| item.strip_prefix(prefix.as_bytes()));
        let timestamp = match (&self.timestamp_header, &self.timestamp_item) {
            (Some(header), _) => field(head, header)?,
            (None, Some(prefix)) => item(prefix).ok_or(SignatureFault::Timestamp)?,
            (None, None) => return Ok(Claim { signatures, timestamp: Vec::new() }),
        };
        self.check_time(timestamp, now_s)?;
        Ok(Claim { signatures, timestamp: timestamp.to_vec() })
    }

    /// Returns the items of the signature field, without blanks around them.
    fn items<'v>(&self, value: &'v [u8]) -> impl Iterator<Item = &'v [u8]> {
        let separator = self.separator.text().as_bytes().first().copied();
        let is_separator = move |byte: &u8| Some(*byte) == separator;
        value.split(is_separator).map(<[u8]>::trim_ascii)
    }

    /// Returns the signatures among the items. Items of other schemes are skipped, because a partner may send
    /// an old and a new scheme together.
    fn signatures(&self, items: &[&[u8]]) -> Result<Vec<Vec<u8>>, SignatureFault> {
        let own = items.iter().filter_map(|item| item.strip_prefix(self.prefix.as_bytes()));
        let own: Vec<_> = own.filter(|text| !text.is_empty()).collect();
        if own.len() > SIGNATURES_MAX {
            let header = self.header.clone();
            return Err(SignatureFault::TooMany { header, found: own.len(), limit: SIGNATURES_MAX });
        }
        let decoded: Vec<_> = own.into_iter().filter_map(|text| self.encoding.decode(text)).collect();
        if decoded.is_empty() { Err(SignatureFault::Malformed(self.header.clone())) } else { Ok(decoded) }
    }

    fn check_time(&self, timestamp: &[u8], now_s: i64) -> Result<(), SignatureFault> {
        let is_number = !timestamp.is_empty()
            && timestamp.len() <= TIMESTAMP_DIGITS_MAX
            && timestamp.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(timestamp).ok().filter(|_| is_number);
        let seconds: i64 = text.and_then(|text| text.parse().ok()).ok_or(SignatureFault::Timestamp)?;
        let (difference, limit) = (now_s.abs_diff(seconds), self.tolerance.as_secs());
        match difference > limit {
            false => Ok(()),
            true if seconds < now_s => Err(SignatureFault::Old { seconds: difference, limit }),
            true => Err(SignatureFault::Ahead { seconds: difference, limit }),
        }
    }
}

impl SignatureSeparator {
    /// Returns the separator between two items.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Comma => ",",
            Self::Space => " ",
        }
    }
}

impl SignatureEncoding {
    pub(super) fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Hex => decode_hex(text),
            Self::Base64 => BASE64_STANDARD.decode(text).ok(),
        }
    }

    pub(super) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Self::Hex => encode_hex(bytes),
            Self::Base64 => BASE64_STANDARD.encode(bytes),
        }
    }
}

/// Returns the value of a field that a request must have once. A second line would be another claim.
pub(super) fn field<'h>(head: &'h RequestHead, name: &str) -> Result<&'h [u8], SignatureFault> {
    let mut values = head.values_of(name);
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(SignatureFault::Absent(name.to_owned())),
        (Some(_), Some(_)) => Err(SignatureFault::Repeated(name.to_owned())),
    }
}
