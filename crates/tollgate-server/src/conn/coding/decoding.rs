//! Decodes the content of one request, within bounds.
//!
//! A content with several codings passes through several stages. Each stage has all bounds, and the bound on
//! expansion also applies to all stages together.

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
    /// The first stage gets the bytes of the client: the coding that was applied last.
    first: Stage,
    /// Each later stage gets the bytes of the stage before it.
    later: Vec<Stage>,
}

/// Decodes one coding.
struct Stage {
    coding: ContentCoding,
    decoder: Box<dyn Decode>,
    /// Encoded bytes, not decoded yet.
    encoded: BytesMut,
    encoded_bytes: u64,
    decoded_bytes: u64,
    /// Whether the decoder may return content without further bytes.
    can_continue: bool,
}

impl Decoding {
    /// Creates the decoder for the codings in the order in which they were applied. Returns `None` if there
    /// are none.
    pub(in crate::conn) fn new(codings: &[ContentCoding]) -> Option<Self> {
        let mut stages = codings.iter().rev().map(|coding| Stage::new(*coding));
        Some(Self { first: stages.next()?, later: stages.collect() })
    }

    /// Calls `take`, which appends encoded bytes to the buffer.
    ///
    /// # Errors
    /// The errors of `take`.
    pub(in crate::conn) fn take<T>(
        &mut self,
        take: impl FnOnce(&mut BytesMut) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        let before = self.first.encoded.len();
        let taken = take(&mut self.first.encoded)?;
        self.first.count_from(before);
        Ok(taken)
    }

    /// Decodes a part of the encoded bytes, and appends the result to `content`. Later stages have
    /// precedence, so that little content is between two stages.
    ///
    /// # Errors
    /// The encoded bytes do not conform to their coding, or the content exceeds a limit.
    pub(in crate::conn) fn step(&mut self, content: &mut BytesMut, limit: u64) -> Result<Step, RequestError> {
        let step = self.step_unchecked(content, limit)?;
        self.check_expansion()?;
        Ok(step)
    }

    fn step_unchecked(&mut self, content: &mut BytesMut, limit: u64) -> Result<Step, RequestError> {
        let mut output = Output::Content(content);
        for stage in self.later.iter_mut().rev().chain([&mut self.first]) {
            if stage.can_continue {
                stage.step(output, limit)?;
                return Ok(Step::Again);
            }
            output = Output::Stage(stage);
        }
        Ok(Step::NeedMore)
    }

    /// Checks that the content may end here. An empty body is empty content in every coding.
    ///
    /// # Errors
    /// The encoded bytes are incomplete.
    pub(in crate::conn) fn finish(&self) -> Result<(), RequestError> {
        let is_incomplete = |stage: &&Stage| stage.encoded_bytes > 0 && !stage.decoder.is_complete();
        match self.stages().find(is_incomplete) {
            Some(stage) => Err(stage.error("its data is incomplete")),
            None => Ok(()),
        }
    }

    /// Returns the memory of the decoders and of their buffers in bytes.
    pub(in crate::conn) fn memory_bytes(&self) -> usize {
        self.stages().map(|stage| stage.encoded.capacity() + stage.decoder.memory_bytes()).sum()
    }

    fn stages(&self) -> impl Iterator<Item = &Stage> {
        [&self.first].into_iter().chain(&self.later)
    }

    /// Checks the ratio of the content to the bytes of the client.
    fn check_expansion(&self) -> Result<(), RequestError> {
        let last = self.later.last().unwrap_or(&self.first);
        check_ratio(self.first.used_bytes(), last.decoded_bytes)
    }
}

/// The place for the bytes of a stage.
enum Output<'a> {
    Content(&'a mut BytesMut),
    Stage(&'a mut Stage),
}

impl Stage {
    fn new(coding: ContentCoding) -> Self {
        Self {
            coding,
            decoder: coding.decoder(),
            encoded: BytesMut::new(),
            encoded_bytes: 0,
            decoded_bytes: 0,
            can_continue: false,
        }
    }

    /// Counts the bytes that were added to the buffer when it had `before` bytes.
    fn count_from(&mut self, before: usize) {
        let added = (self.encoded.len() - before) as u64;
        self.encoded_bytes += added;
        self.can_continue |= added > 0;
    }

    /// Returns the number of encoded bytes that the decoder has used.
    fn used_bytes(&self) -> u64 {
        self.encoded_bytes - self.encoded.len() as u64
    }

    fn step(&mut self, output: Output<'_>, limit: u64) -> Result<(), RequestError> {
        match output {
            Output::Content(content) => self.decode(content, limit),
            Output::Stage(next) => {
                let before = next.encoded.len();
                self.decode(&mut next.encoded, limit)?;
                next.count_from(before);
                Ok(())
            }
        }
    }

    fn decode(&mut self, content: &mut BytesMut, limit: u64) -> Result<(), RequestError> {
        let before = content.len();
        let step = self.decoder.step(&mut self.encoded, content).map_err(|reason| self.error(reason))?;
        self.can_continue = step == Step::Again;
        self.decoded_bytes += (content.len() - before) as u64;
        self.check(limit)
    }

    /// Checks the bounds on size and ratio.
    fn check(&self, limit: u64) -> Result<(), RequestError> {
        let (encoded, decoded) = (self.used_bytes(), self.decoded_bytes);
        if decoded > limit {
            return Err(RequestError::BodyTooLarge { bytes: decoded, limit });
        }
        check_ratio(encoded, decoded)?;
        let parts = self.decoder.parts();
        let bytes_free = ENCODED_BYTES_FREE + self.decoder.block_bytes_max();
        if encoded > bytes_free + decoded * ENCODED_PER_CONTENT_BYTE
            || parts > PARTS_FREE + decoded / CONTENT_BYTES_PER_PART
        {
            return Err(RequestError::ContentCodingOverhead { encoded, parts, decoded });
        }
        Ok(())
    }

    fn error(&self, reason: &str) -> RequestError {
        RequestError::ContentCoding { coding: self.coding.name(), reason: reason.into() }
    }
}

fn check_ratio(encoded: u64, decoded: u64) -> Result<(), RequestError> {
    if decoded > EXPANDED_BYTES_FREE && decoded / EXPANSION_MAX > encoded {
        return Err(RequestError::ContentExpands { encoded, decoded, ratio: EXPANSION_MAX });
    }
    Ok(())
}
