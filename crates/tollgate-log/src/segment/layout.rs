//! Sizes and magic bytes of a segment's header and footer.

/// Bytes of a segment header.
pub const SEGMENT_HEADER_BYTES: usize = 128;
/// The version of the format that this program writes.
pub const FORMAT_VERSION: u16 = 2;
/// The first eight bytes of a footer.
pub(crate) const FOOTER_MAGIC: &[u8; 8] = b"TGSEALED";
/// Bytes of a footer before its counts.
pub(super) const FOOTER_FIXED_BYTES: usize = 192;
/// Bytes of the count of one schema in a footer.
pub(super) const FOOTER_COUNT_BYTES: usize = 24;
/// Bytes of the length and the checksum that end a footer.
pub(super) const FOOTER_TAIL_BYTES: usize = 8;
/// Bytes from the start of a footer that a reader needs to find its length.
pub(crate) const FOOTER_HEAD_BYTES: usize = FOOTER_FIXED_BYTES + FOOTER_TAIL_BYTES;
/// Bytes of the longest footer, which has counts for all schema numbers.
pub(super) const FOOTER_BYTES_MAX: usize =
    FOOTER_FIXED_BYTES + FOOTER_COUNT_BYTES * 65_536 + FOOTER_TAIL_BYTES;
