//! Reads the body of a request: removes the framing and the content coding while it arrives.
//!
//! Content stays in memory up to a bound. Above it, the content goes to the spool or to the handler piece by
//! piece. A short body of known length stays in the read buffer until it is complete, and is then split off
//! without a copy.

use std::rc::Rc;

use bytes::{Buf, BytesMut};
use tollgate_backend::UploadPlace;
use tollgate_http::{BodyFraming, ChunkedDecoder, Decoded, RequestError};
use tollgate_script::{Body, BodyFile};

use super::coding::{ContentCoding, Decoding, Step};
use crate::admit::Arrived;
use crate::options::ConnectionLimits;
use crate::spool::{Spool, SpoolError, SpooledBody};

/// A request whose body is being read.
pub(crate) struct BodyReader {
    pub(crate) arrived: Arrived,
    pub(super) framing: RequestFraming,
    decoding: Option<Box<Decoding>>,
    /// Content that was neither spooled nor given to the handler.
    pub(super) content: BytesMut,
    spooled: Option<SpooledBody>,
    memory_bytes_max: usize,
    /// Whether the content in memory has to be spooled before more is read.
    is_full: bool,
    is_continue_owed: bool,
    has_begun: bool,
    judging: Judging,
}

/// State of the validation of the content.
enum Judging {
    /// The first bytes of `content` are validated. The value is their number.
    Over(usize),
    /// A slice ended before all bytes of `content` were validated. The value is also what the read returned.
    Sliced(usize, Filled),
    /// The request is refused, and the content is dropped. The value is the number of dropped bytes.
    Dropping(u64),
}

/// Result of moving bytes from the read buffer into the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    Part,
    /// The decoder stopped, because the content in memory has to be spooled first.
    Overflow,
    Whole,
}

pub(super) enum RequestFraming {
    /// The body stays in the read buffer until it is complete. The value is its length in bytes.
    Whole(usize),
    /// The number of bytes that are still missing.
    Length(u64),
    /// The announced length exceeds the limit.
    TooLong(u64),
    Chunked(Box<ChunkedDecoder>),
}

/// Maximum encoded bytes that are decoded in one turn. A few kinds of input need a hundred times as long as
/// their length suggests.
const ENCODED_BYTES_PER_TURN: usize = 8 << 10;

/// State of a body after the available bytes were read.
pub(crate) enum Progress {
    NeedMore,
    /// The content in memory has to be spooled before more is read.
    Full,
    Done(Body),
}

impl BodyReader {
    pub(crate) fn new(arrived: Arrived, codings: &[ContentCoding], limits: &ConnectionLimits) -> Self {
        let body_bytes_max = arrived.body_bytes_max();
        // Content that no handler uses is never spooled.
        let least = if arrived.is_answered() { body_bytes_max } else { 0 };
        let least = usize::try_from(least).unwrap_or(usize::MAX).max(arrived.look_ahead_bytes());
        let memory_bytes_max = limits.body_memory_max.max(least);
        let framing = match arrived.head.framing() {
            BodyFraming::None => RequestFraming::Whole(0),
            BodyFraming::Length(bytes) if bytes > body_bytes_max => RequestFraming::TooLong(bytes),
            BodyFraming::Length(bytes) => match usize::try_from(bytes) {
                Ok(length)
                    if codings.is_empty() && length <= memory_bytes_max && arrived.validation.is_none() =>
                {
                    RequestFraming::Whole(length)
                }
                _ => RequestFraming::Length(bytes),
            },
            BodyFraming::Chunked => RequestFraming::Chunked(Box::new(ChunkedDecoder::new(&limits.head))),
        };
        Self {
            is_continue_owed: arrived.head.expects_continue(),
            arrived,
            framing,
            decoding: Decoding::new(codings).map(Box::new),
            content: BytesMut::new(),
            spooled: None,
            memory_bytes_max,
            is_full: false,
            has_begun: false,
            judging: Judging::Over(0),
        }
    }

    /// Reads the bytes of the body that are in `input`. If the body has a content coding, one call reads at
    /// most [`ENCODED_BYTES_PER_TURN`].
    ///
    /// # Errors
    /// The chunks or the coding are invalid, or the body exceeds a limit.
    pub(crate) fn read(&mut self, input: &mut BytesMut) -> Result<Progress, RequestError> {
        self.has_begun |= !input.is_empty();
        let limit = self.arrived.body_bytes_max();
        match self.framing {
            RequestFraming::TooLong(bytes) => Err(RequestError::BodyTooLarge { bytes, limit }),
            RequestFraming::Whole(bytes) if input.len() < bytes => Ok(Progress::NeedMore),
            RequestFraming::Whole(bytes) => {
                let content = input.split_to(bytes);
                verify(&mut self.arrived, &content)?;
                Ok(Progress::Done(content.freeze().into()))
            }
            RequestFraming::Length(_) | RequestFraming::Chunked(_) => self.read_on(input, limit),
        }
    }

    fn read_on(&mut self, input: &mut BytesMut, limit: u64) -> Result<Progress, RequestError> {
        let filled = match self.judging {
            Judging::Sliced(_, filled) => filled,
            Judging::Over(_) => self.fill(input, limit)?,
            Judging::Dropping(_) => self.drop_content(input)?,
        };
        if !self.judge(filled) {
            return Ok(Progress::NeedMore);
        }
        self.check_dropped()?;
        let is_whole = filled == Filled::Whole;
        self.is_full = filled == Filled::Overflow
            || self.content.len() > self.memory_bytes_max
            || (is_whole && self.spooled.is_some() && !self.content.is_empty());
        Ok(match is_whole {
            _ if self.is_full => Progress::Full,
            false => Progress::NeedMore,
            true => Progress::Done(self.take_body()),
        })
    }

    /// Moves bytes into the content, and removes their framing and coding.
    fn fill(&mut self, input: &mut BytesMut, limit: u64) -> Result<Filled, RequestError> {
        let is_whole = match &mut self.decoding {
            None => {
                let before = self.content.len();
                let is_whole = self.framing.take(input, &mut self.content, limit)?;
                verify(&mut self.arrived, &self.content[before..])?;
                is_whole
            }
            Some(decoding) => {
                let arrived = &mut self.arrived;
                let is_whole =
                    self.framing.take_for_decoding(input, decoding, limit, |came| verify(arrived, came))?;
                while decoding.step(&mut self.content, limit)? == Step::Again {
                    if self.content.len() > self.memory_bytes_max {
                        return Ok(Filled::Overflow);
                    }
                }
                if is_whole {
                    decoding.finish()?;
                }
                is_whole
            }
        };
        Ok(if is_whole { Filled::Whole } else { Filled::Part })
    }

    /// Reads the rest of the content of a refused request. The caller drops these bytes.
    #[cold]
    fn drop_content(&mut self, input: &mut BytesMut) -> Result<Filled, RequestError> {
        let is_whole = self.framing.take(input, &mut self.content, u64::MAX)?;
        Ok(if is_whole { Filled::Whole } else { Filled::Part })
    }

    /// Checks that the rest of a refused request is short enough to be read.
    #[inline]
    fn check_dropped(&self) -> Result<(), RequestError> {
        let Judging::Dropping(dropped) = self.judging else { return Ok(()) };
        let left = if let RequestFraming::Length(left) = self.framing { left } else { 0 };
        let (bytes, limit) = (dropped + left, self.arrived.body_bytes_max());
        if bytes > limit { Err(RequestError::BodyTooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Validates the content that is new, for a slice. Returns false if some of it is left.
    #[inline]
    fn judge(&mut self, filled: Filled) -> bool {
        match self.judging {
            Judging::Over(_) if self.arrived.validation.is_none() => true,
            Judging::Over(judged) | Judging::Sliced(judged, _) => self.judge_after(judged, filled),
            Judging::Dropping(bytes) => {
                self.judging = Judging::Dropping(bytes + self.content.len() as u64);
                self.content.clear();
                true
            }
        }
    }

    fn judge_after(&mut self, judged: usize, filled: Filled) -> bool {
        let new_bytes = self.content.len() - judged;
        let judged = judged + self.arrived.validate(&self.content[judged..]);
        if self.arrived.is_answered() {
            self.judging = Judging::Dropping(new_bytes as u64);
            self.content = BytesMut::new();
            self.spooled = None;
            self.decoding = None;
            return true;
        }
        let is_over = judged == self.content.len();
        self.judging = if is_over { Judging::Over(judged) } else { Judging::Sliced(judged, filled) };
        is_over
    }

    fn take_body(&mut self) -> Body {
        match self.spooled.take() {
            Some(spooled) => Body::File(Rc::new(spooled)),
            None => std::mem::take(&mut self.content).freeze().into(),
        }
    }

    /// Returns whether the content in memory has to be spooled before more is read.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether the content is decoded, which costs processor time.
    pub(super) fn is_decoding(&self) -> bool {
        self.decoding.is_some()
    }

    /// Returns whether a part of the content has arrived and is not validated yet.
    pub(super) fn is_judging(&self) -> bool {
        matches!(self.judging, Judging::Sliced(..))
    }

    /// Returns a permit to pass the body on while it arrives. Returns `None` if the body has to be complete
    /// before the handler begins. A body with a spooled part also has to be complete.
    pub(super) fn upload_place(&self) -> Option<UploadPlace> {
        if self.spooled.is_some() { None } else { self.arrived.upload_place() }
    }

    /// Moves the content from memory to the spool.
    ///
    /// # Errors
    /// The spool has no space, and the body is lost.
    pub(crate) async fn spool(&mut self, spool: &Spool) -> Result<(), SpoolError> {
        let content = std::mem::take(&mut self.content);
        let (spooled, emptied) = spool.append(self.spooled.take(), content).await?;
        self.spooled = Some(spooled);
        self.content = emptied;
        self.judging = Judging::Over(0);
        self.is_full = false;
        Ok(())
    }

    /// Returns the number of bytes that a body in the read buffer is known to lack.
    pub(crate) fn missing_bytes(&self, input: &BytesMut) -> usize {
        match &self.framing {
            RequestFraming::Whole(bytes) => bytes.saturating_sub(input.len()),
            RequestFraming::Length(_) | RequestFraming::TooLong(_) | RequestFraming::Chunked { .. } => 0,
        }
    }

    /// Returns the memory that the body holds outside the read buffer, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let decoding_bytes = self.decoding.as_ref().map_or(0, |decoding| decoding.memory_bytes());
        let verified_bytes =
            self.arrived.verification.as_ref().map_or(0, |verification| verification.memory_bytes());
        let judged_bytes = self.arrived.validation.as_ref().map_or(0, |validation| validation.memory_bytes());
        self.content.capacity() + decoding_bytes + verified_bytes + judged_bytes
    }

    /// Returns whether the client waits for 100 (Continue). A client that already began to send the body does
    /// not wait.
    pub(crate) fn owes_continue(&self) -> bool {
        self.is_continue_owed && !self.has_begun
    }

    /// Returns whether 100 (Continue) has to be sent. Only the first call may return true.
    pub(crate) fn take_continue(&mut self) -> bool {
        let is_owed = self.owes_continue();
        self.is_continue_owed = false;
        is_owed
    }

    /// Returns the error for a stream that ended inside the body.
    pub(crate) fn incomplete(&self, input: &BytesMut) -> RequestError {
        let spooled_bytes = self.spooled.as_ref().map_or(0, SpooledBody::bytes_len);
        RequestError::BodyIncomplete { bytes: spooled_bytes + (self.content.len() + input.len()) as u64 }
    }
}

impl RequestFraming {
    /// Moves content from the front of `input` to the end of `content`. Returns true if the content is
    /// complete.
    pub(super) fn take(
        &mut self,
        input: &mut BytesMut,
        content: &mut BytesMut,
        limit: u64,
    ) -> Result<bool, RequestError> {
        match self {
            Self::Length(left) => {
                let bytes = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                content.extend_from_slice(&input[..bytes]);
                input.advance(bytes);
                *left -= bytes as u64;
                Ok(*left == 0)
            }
            Self::Chunked(decoder) => Ok(decoder.decode(input, content, limit)? == Decoded::Done),
            Self::Whole(_) | Self::TooLong(_) => Ok(true),
        }
    }

    /// Removes the framing of encoded content, up to the bound of one turn, and passes that content to
    /// `came`. Returns true if the content is complete.
    fn take_for_decoding(
        &mut self,
        input: &mut BytesMut,
        decoding: &mut Decoding,
        limit: u64,
        came: impl FnOnce(&[u8]) -> Result<(), RequestError>,
    ) -> Result<bool, RequestError> {
        let rest = input.split_off(input.len().min(ENCODED_BYTES_PER_TURN));
        let is_whole = decoding.take(|encoded| {
            let before = encoded.len();
            let is_whole = self.take(input, encoded, limit)?;
            came(&encoded[before..])?;
            Ok(is_whole)
        })?;
        input.unsplit(rest);
        Ok(is_whole)
    }
}

/// Passes content as sent to the verification of the signature, if the route needs one.
#[inline]
fn verify(arrived: &mut Arrived, content: &[u8]) -> Result<(), RequestError> {
    arrived.verification.as_mut().map_or(Ok(()), |verification| verification.update(content))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tollgate_http::{HeadReader, StatusCode};

    use super::*;
    use crate::admit::Destination;
    use crate::reply::Reply;

    fn reader(head: &str, codings: &[ContentCoding]) -> BodyReader {
        let limits = ConnectionLimits::default();
        let head = HeadReader::default().read(&mut head.into(), &limits.head).unwrap().unwrap();
        let arrived = Arrived {
            head,
            destination: Destination::Reply(Reply::empty(StatusCode::OK).into()),
            client: None,
            begun: Instant::now(),
            time_us: 0,
            access: crate::auth::Access::Open,
            permit: None,
            verification: None,
            validation: None,
            upload: None,
            is_sampled: false,
            line: None,
        };
        BodyReader::new(arrived, codings, &limits)
    }

    #[test]
    fn a_turn_decodes_so_much_and_leaves_the_rest_and_what_comes_behind() {
        let content: Vec<u8> = (0..20_000_u64).map(|at| ((at * at * 2_654_435_761) >> 13) as u8).collect();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(&content).unwrap();
        let encoded = encoder.finish().unwrap();
        let chunked = [format!("{:x}\r\n", encoded.len()).as_bytes(), &encoded, b"\r\n0\r\n\r\n"].concat();
        for (framing, body) in [
            (format!("Content-Length: {}", encoded.len()), encoded),
            ("Transfer-Encoding: chunked".to_owned(), chunked),
        ] {
            let mut body_reader =
                reader(&format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"), &[ContentCoding::Gzip]);
            let mut input = BytesMut::from(&[&body, &b"GET"[..]].concat()[..]);
            for turn in 1..=body.len() / ENCODED_BYTES_PER_TURN {
                assert!(matches!(body_reader.read(&mut input), Ok(Progress::NeedMore)), "{framing}");
                assert_eq!(input.len(), body.len() + 3 - turn * ENCODED_BYTES_PER_TURN, "{framing}");
            }
            let Ok(Progress::Done(Body::Memory(decoded))) = body_reader.read(&mut input) else {
                panic!("{framing}: it is whole")
            };
            assert!(decoded == content && input == "GET", "{framing}");
        }
    }
}
