//! Feeds a document for a slice of time.

use std::time::{Duration, Instant};

use tollgate_validate::{Document, DocumentFault};

/// Time after which other connections have their turn.
pub(crate) const SLICE: Duration = Duration::from_millis(2);
/// Bytes between two readings of the clock.
const PIECE_BYTES: usize = 4 << 10;

/// Feeds `bytes` until a slice is over. Returns the number of bytes that the document took.
///
/// # Errors
/// The first fault of the document.
pub(super) fn feed(document: &mut Document, bytes: &[u8]) -> Result<usize, Box<DocumentFault>> {
    let begun = Instant::now();
    let mut fed = 0;
    for piece in bytes.chunks(PIECE_BYTES) {
        document.feed(piece)?;
        fed += piece.len();
        if begun.elapsed() >= SLICE {
            break;
        }
    }
    Ok(fed)
}
