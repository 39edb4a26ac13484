//! The identity of a segment. Two different segments with the same name have different identities.

use std::fmt;

use tollgate_log::{SegmentFooter, Sequence};

/// The identity of a sealed segment: its last record, its chain of checksums, its size and its digest.
///
/// Two segments with the same name and the same identity have the same bytes. The store keeps the text as a
/// property of the object, so that a machine can compare segments without a download.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentIdentity(String);

impl SegmentIdentity {
    /// Returns the identity of the segment that this footer ends.
    pub fn of(footer: &SegmentFooter) -> Self {
        let mut text = format!("{}-{:08x}-{}-", footer.last.0, footer.chain, footer.file_bytes());
        for byte in footer.digest_bytes() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }

    /// Makes an identity from the text that a store returned.
    pub fn from_store(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the last record of the segment, and the chain of checksums there. `None`: a store returned
    /// another text.
    pub fn end(&self) -> Option<(Sequence, u32)> {
        let mut parts = self.0.split('-');
        let last = Sequence(parts.next()?.parse().ok()?);
        let chain = u32::from_str_radix(parts.next()?, 16).ok()?;
        Some((last, chain))
    }

    /// Returns the text of the identity. The text has only ASCII letters, digits and hyphens.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SegmentIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_segment_is_read_from_its_identity() {
        let end = |text| SegmentIdentity::from_store(text).end();
        assert_eq!(end("42-0000002a-1000-ab"), Some((Sequence(42), 42)));
        for text in ["", "42", "x-0000002a-1-ab", "42-xyz-1-ab"] {
            assert_eq!(end(text), None, "{text:?}");
        }
    }
}
