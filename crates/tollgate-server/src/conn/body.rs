//! The body of a request, gathered in memory within the limit of its route.

use bytes::{Bytes, BytesMut};
use tollgate_http::{BodyFraming, ChunkedDecoder, Decoded, Limits, RequestError};

use super::exchange::Arrived;

/// A request whose body comes.
pub(crate) struct BodyReader {
    pub(crate) arrived: Arrived,
    framing: Framing,
    is_continue_owed: bool,
}

enum Framing {
    /// So many bytes, which stay in the read buffer until they are all there.
    Length(usize),
    /// More than may come: so many.
    TooLong(u64),
    Chunked {
        decoder: Box<ChunkedDecoder>,
        content: BytesMut,
    },
}

impl BodyReader {
    pub(crate) fn new(arrived: Arrived, limits: &Limits) -> Self {
        let framing = match arrived.head.framing() {
            BodyFraming::None => Framing::Length(0),
            BodyFraming::Length(bytes) => match usize::try_from(bytes) {
                Ok(length) if bytes <= arrived.body_bytes_max() => Framing::Length(length),
                _ => Framing::TooLong(bytes),
            },
            BodyFraming::Chunked => {
                Framing::Chunked { decoder: Box::new(ChunkedDecoder::new(limits)), content: BytesMut::new() }
            }
        };
        Self { is_continue_owed: arrived.head.expects_continue(), arrived, framing }
    }

    /// Takes the body off the buffer. None: more bytes are needed.
    ///
    /// # Errors
    /// Any fault of the chunks, or too many bytes.
    pub(crate) fn read(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, RequestError> {
        let limit = self.arrived.body_bytes_max();
        match &mut self.framing {
            Framing::TooLong(bytes) => Err(RequestError::BodyTooLarge { bytes: *bytes, limit }),
            Framing::Length(bytes) if input.len() < *bytes => Ok(None),
            Framing::Length(bytes) => Ok(Some(input.split_to(*bytes).freeze())),
            Framing::Chunked { decoder, content } => match decoder.decode(input, content, limit)? {
                Decoded::NeedMore => Ok(None),
                Decoded::Done => Ok(Some(std::mem::take(content).freeze())),
            },
        }
    }

    /// How many bytes are known to be missing.
    pub(crate) fn missing_bytes(&self, input: &BytesMut) -> usize {
        match &self.framing {
            Framing::Length(bytes) => bytes.saturating_sub(input.len()),
            Framing::TooLong(_) | Framing::Chunked { .. } => 0,
        }
    }

    /// What is held beside the read buffer.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.framing {
            Framing::Length(_) | Framing::TooLong(_) => 0,
            Framing::Chunked { content, .. } => content.capacity(),
        }
    }

    /// Whether the client has to be told to go on; true once, and not when it went on by itself.
    pub(crate) fn take_continue(&mut self, input: &BytesMut) -> bool {
        let has_begun = match &self.framing {
            Framing::Length(_) | Framing::TooLong(_) => !input.is_empty(),
            Framing::Chunked { decoder, .. } => decoder.has_started(),
        };
        std::mem::take(&mut self.is_continue_owed) && !has_begun
    }

    /// The error of a stream that ended here.
    pub(crate) fn incomplete(&self, input: &BytesMut) -> RequestError {
        let bytes = match &self.framing {
            Framing::Length(_) | Framing::TooLong(_) => input.len(),
            Framing::Chunked { content, .. } => content.len(),
        };
        RequestError::BodyIncomplete { bytes: bytes as u64 }
    }
}
