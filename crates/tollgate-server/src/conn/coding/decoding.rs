//! Decodes the content of one request, within bounds.

use bytes::BytesMut;
use tollgate_http::RequestError;

use super::content_coding::ContentCoding;
use super::decode::{Decode, Step};

/// Maximum ratio of decoded to encoded bytes, after the first [`EXPANDED_BYTES_FREE`] decoded bytes. Gzip
/// itself cannot exceed 1032.
const EXPANSION_MAX: u64 = 1100;
const EXPANDED_BYTES_FREE: u64 = 1 << 20;
/// Maximum ratio of encoded to decoded bytes, after the first [`ENCODED_BYTES_FREE`] encoded bytes and one
/// block. The framing of chunks has the same kind of bound.
const ENCODED_PER_CONTENT_BYTE: u64 = 4;
const ENCODED_BYTES_FREE: u64 = 16 << 10;
/// Minimum decoded bytes for each part (member or frame), after the first [`PARTS_FREE`] parts. The start of
/// a part costs work even if the part has no content.
const CONTENT_BYTES_PER_PART: u64 = 16;
const PARTS_FREE: u64 = 500;

/// Decodes the content of one request.
pub(in crate::conn) struct Decoding {
    coding: ContentCoding,
    decoder: Box<dyn Decode>,
    /// Encoded bytes without framing, not decoded yet.
    encoded: BytesMut,
    encoded_bytes: u64,
    decoded_bytes: u64,
}

impl Decoding {
    pub(in crate::conn) fn new(coding: ContentCoding) -> Self {
        Self {
            coding,
            decoder: coding.decoder(),
            encoded: BytesMut::new(),
            encoded_bytes: 0,
            decoded_bytes: 0,
        }
    }

    /// Calls `take`, which appends encoded bytes to the buffer.
    ///
    /// # Errors
    /// The errors of `take`.
    pub(in crate::conn) fn take<T>(
        &mut self,
        take: impl FnOnce(&mut BytesMut) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let before = self.encoded.len();
        let taken = take(&mut self.encoded)?;
        self.encoded_bytes += (self.encoded.len() - before) as u64;
        Ok(taken)
    }

    /// Decodes a part of the encoded bytes, and appends the result to `content`.
    ///
    /// # Errors
    /// The encoded bytes do not conform to the coding, or the content exceeds a limit.
    pub(in crate::conn) fn step(
        &mut self,
        content: &mut BytesMut,
        limit: u64,
    ) -> Result<Step, RequestError> {
        let before = content.len();
        let step = self.decoder.step(&mut self.encoded, content).map_err(|reason| self.error(reason))?;
        self.decoded_bytes += (content.len() - before) as u64;
        let (encoded, decoded) = (self.encoded_bytes - self.encoded.len() as u64, self.decoded_bytes);
        if decoded > limit {
            return Err(RequestError::BodyTooLarge { bytes: decoded, limit });
        }
        if decoded > EXPANDED_BYTES_FREE && decoded / EXPANSION_MAX > encoded {
            return Err(RequestError::ContentExpands { encoded, decoded, ratio: EXPANSION_MAX });
        }
        let parts = self.decoder.parts();
        let bytes_free = ENCODED_BYTES_FREE + self.decoder.block_bytes_max();
        if encoded > bytes_free + decoded * ENCODED_PER_CONTENT_BYTE
            || parts > PARTS_FREE + decoded / CONTENT_BYTES_PER_PART
        {
            return Err(RequestError::ContentCodingOverhead { encoded, parts, decoded });
        }
        Ok(step)
    }

    /// Checks that the content may end here. An empty body is empty content in every coding.
    ///
    /// # Errors
    /// The encoded bytes are incomplete.
    pub(in crate::conn) fn finish(&self) -> Result<(), RequestError> {
        if self.encoded_bytes == 0 || self.decoder.is_complete() {
            return Ok(());
        }
        Err(self.error("its data is incomplete"))
    }

    /// Returns the memory of the decoder and of its buffer in bytes.
    pub(in crate::conn) fn memory_bytes(&self) -> usize {
        self.encoded.capacity() + self.decoder.memory_bytes()
    }

    fn error(&self, reason: &str) -> RequestError {
        RequestError::ContentCoding { coding: self.coding.name(), reason: reason.into() }
    }
}
