//! Spans of a head, by offsets. With offsets, a head needs only one shared buffer and one vector.

/// Start and end in the bytes of a head. Both offsets fit `u32`, because a head never exceeds
/// `HEAD_BYTES_CEILING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// Maximum of the configured limit of a head, in bytes, because a [`Span`] cannot address more.
pub(crate) const HEAD_BYTES_CEILING: usize = u32::MAX as usize;

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= HEAD_BYTES_CEILING);
        Self { start: start as u32, end: end as u32 }
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(crate) fn bytes(self, head: &[u8]) -> &[u8] {
        head.get(self.range()).unwrap_or_default()
    }

    /// The bytes are ASCII, because the grammar checks targets, hosts and names before a span is created.
    pub(crate) fn text(self, head: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(head)).unwrap_or_default()
    }
}
