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
    Chunked {
        decoder: Box<ChunkedDecoder>,
        content: BytesMut,
        bytes_max: u64,
    },
}

impl BodyReader {
    /// # Errors
    /// `BodyTooLarge`, when the length says so already.
    pub(crate) fn new(arrived: Arrived, limits: &Limits) -> Result<Self, RequestError> {
        let bytes_max = arrived.body_bytes_max();
        let framing = match arrived.head.framing() {
            BodyFraming::None => Framing::Length(0),
            BodyFraming::Length(bytes) => match usize::try_from(bytes) {
                Ok(length) if bytes <= bytes_max => Framing::Length(length),
                _ => return Err(RequestError::BodyTooLarge { bytes, limit: bytes_max }),
            },
            BodyFraming::Chunked => Framing::Chunked {
                decoder: Box::new(ChunkedDecoder::new(limits)),
                content: BytesMut::new(),
                bytes_max,
            },
        };
        Ok(Self { is_continue_owed: arrived.head.expects_continue(), arrived, framing })
    }

    /// Takes the body off the buffer. None: more bytes are needed.
    ///
    /// # Errors
    /// Any fault of the chunks, or too many bytes.
    pub(crate) fn read(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, RequestError> {
        match &mut self.framing {
            Framing::Length(bytes) if input.len() < *bytes => Ok(None),
            Framing::Length(bytes) => Ok(Some(input.split_to(*bytes).freeze())),
            Framing::Chunked { decoder, content, bytes_max } => {
                match decoder.decode(input, content, *bytes_max)? {
                    Decoded::NeedMore => Ok(None),
                    Decoded::Done => Ok(Some(std::mem::take(content).freeze())),
                }
            }
        }
    }

    /// How many bytes are known to be missing.
    pub(crate) fn missing_bytes(&self, input: &BytesMut) -> usize {
        match &self.framing {
            Framing::Length(bytes) => bytes.saturating_sub(input.len()),
            Framing::Chunked { .. } => 0,
        }
    }

    /// What is held beside the read buffer.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.framing {
            Framing::Length(_) => 0,
            Framing::Chunked { content, .. } => content.capacity(),
        }
    }

    /// Whether the client has to be told to go on; true once, and not when it went on by itself.
    pub(crate) fn take_continue(&mut self, input: &BytesMut) -> bool {
        let has_begun = match &self.framing {
            Framing::Length(_) => !input.is_empty(),
            Framing::Chunked { decoder, .. } => decoder.has_started(),
        };
        std::mem::take(&mut self.is_continue_owed) && !has_begun
    }

    /// The error of a stream that ended here.
    pub(crate) fn incomplete(&self, input: &BytesMut) -> RequestError {
        let bytes = match &self.framing {
            Framing::Length(_) => input.len(),
            Framing::Chunked { content, .. } => content.len(),
        };
        RequestError::BodyIncomplete { bytes: bytes as u64 }
    }
}
