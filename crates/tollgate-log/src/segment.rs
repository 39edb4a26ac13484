//! The parts of a segment file around its batches: name, header, footer, digest.

mod digest;
mod footer;
mod header;
mod layout;
mod name;

pub(crate) use digest::Digester;
pub use digest::{Digest, SegmentDigestAlgorithm};
pub(crate) use footer::footer_at_end;
pub use footer::{SegmentFooter, StreamCount, read_footer};
pub use header::SegmentHeader;
pub(crate) use header::is_nonce;
pub(crate) use layout::{FOOTER_HEAD_BYTES, FOOTER_MAGIC};
pub use layout::{FORMAT_VERSION, SEGMENT_HEADER_BYTES};
pub use name::{SegmentName, SegmentState};
