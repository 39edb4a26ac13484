//! The interface of the decoders, and the buffer for the content of one step.

use bytes::{Buf, BytesMut};

/// Maximum bytes of content that one step decodes.
const STEP_BYTES: usize = 64 << 10;
/// Initial size of the buffer for the content of a step, in bytes.
const FIRST_ROOM_BYTES: usize = 1 << 10;

/// Assumed size of an inflater with its history, in bytes.
pub(super) const INFLATE_BYTES: usize = 48 << 10;

/// Decodes one content coding.
pub(super) trait Decode {
    /// Decodes a part of `input`, and appends the result to `content`.
    ///
    /// # Errors
    /// The reason why the input does not conform to the coding.
    fn step(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str>;

    /// Returns whether the input may end here.
    fn is_complete(&self) -> bool;

    /// Returns the number of complete parts: members of gzip, or frames of zstd.
    fn parts(&self) -> u64;

    /// Returns the maximum number of encoded bytes before the decoder returns content. A block of zstd has to
    /// be complete (RFC 8878 section 3.1.1.2).
    fn block_bytes_max(&self) -> u64 {
        0
    }

    /// Returns the memory of the decoder in bytes.
    fn memory_bytes(&self) -> usize;
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::conn) enum Step {
    /// The whole input was used, and all of its content is decoded.
    NeedMore,
    Again,
}

/// The result of decoding a part of the input.
pub(super) struct Made<T> {
    pub(super) used: usize,
    pub(super) bytes: usize,
    pub(super) end: T,
}

/// Size of the zeroed buffer for the content of a step. The size follows the earlier steps. If it were always
/// [`STEP_BYTES`], content in many short pieces would cost more time for zeroing than for decoding.
pub(super) struct Room {
    bytes: usize,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { bytes: FIRST_ROOM_BYTES }
    }

    /// Calls `decode` for the start of `input`, and appends the decoded bytes to `content`.
    pub(super) fn step<T>(
        &mut self,
        input: &mut BytesMut,
        content: &mut BytesMut,
        decode: impl FnOnce(&[u8], &mut [u8]) -> Result<Made<T>, &'static str>,
    ) -> Result<(Made<T>, Step), &'static str> {
        let before = content.len();
        content.resize(before + self.bytes, 0);
        let made = decode(input, &mut content[before..]);
        content.truncate(before + made.as_ref().map_or(0, |made| made.bytes));
        let made = made?;
        input.advance(made.used);
        // A full buffer may mean that more content is available.
        let is_full = made.bytes == self.bytes;
        self.bytes = (made.bytes * 2).clamp(FIRST_ROOM_BYTES, STEP_BYTES);
        let step = if input.is_empty() && !is_full { Step::NeedMore } else { Step::Again };
        Ok((made, step))
    }
}
