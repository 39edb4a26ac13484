//! A piece of the head by offsets, so that a head is one shared buffer and one vector.

/// Start and end in the bytes of a head. A head never exceeds `HEAD_BYTES_CEILING`, so `u32` holds both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// No configured limit lets a head grow past what a [`Span`] can address.
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

    /// The grammar made sure that targets, hosts and names are ASCII before a span of them existed.
    pub(crate) fn text(self, head: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(head)).unwrap_or_default()
    }
}
