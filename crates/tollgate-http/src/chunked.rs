//! The chunked transfer coding (RFC 9112 section 7.1).
//!
//! The decoder reads each framing byte once and buffers no line. The cost is linear and the memory is
//! constant, even if the network splits the bytes into many pieces.
//!
//! Extensions and trailers are checked against the grammar and discarded. Trailers become no fields, and
//! neither scripts nor backends get extensions or trailers. A decoder made by
//! [`ChunkedDecoder::keeping_trailers`] keeps the trailers, apart from the other fields.

use crate::connection::is_hop_by_hop_field;
use crate::error::RequestError;
use crate::field::is_single_field;
use crate::grammar::{BLANK, FIELD_NAME, TOKEN, hex_value, is, is_field_content, trim_blanks};
use crate::limits::{Limits, UnderscoreNames};
use bytes::{Buf, BytesMut};

/// State of a decoder after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// All input is consumed, and the body is not complete.
    NeedMore,
    /// The body is complete. `input` begins with the bytes after the body.
    Done,
}

/// Decodes one chunked body.
#[derive(Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// While the digits of a chunk size arrive: the size so far. Later: the remaining bytes of data in the
    /// chunk.
    chunk_left: u64,
    /// Sum of the announced chunk sizes so far, in bytes.
    data_bytes: u64,
    /// Number of bytes in size digits and line ends so far.
    overhead_bytes: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
    framing_per_byte: u64,
    extension_bytes_max: usize,
    trailer_bytes_max: usize,
    /// The byte class of trailer names.
    trailer_name: u8,
    failure: Option<RequestError>,
    /// The trailer section so far. `None` if trailers are not kept.
    trailers: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size { digits: u8 },
    Extension(Extension),
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// State in `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`, from the first `;` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Token,
    Quoted,
    QuotedPair,
    AfterQuoted,
    AfterValue,
}

impl ChunkedDecoder {
    /// Creates a decoder for one body.
    pub fn new(limits: &Limits) -> Self {
        Self {
            state: State::Size { digits: 0 },
            chunk_left: 0,
            data_bytes: 0,
            overhead_bytes: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            framing_per_byte: limits.chunk_framing_per_byte,
            extension_bytes_max: limits.chunk_extension_bytes_max,
            trailer_bytes_max: limits.trailer_bytes_max,
            trailer_name: match limits.underscore_names {
                UnderscoreNames::Refuse => FIELD_NAME,
                UnderscoreNames::Drop => TOKEN,
            },
            failure: None,
            trailers: None,
        }
    }

    /// Creates a decoder for one body that keeps the trailer section.
    pub fn keeping_trailers(limits: &Limits) -> Self {
        Self { trailers: Some(Vec::new()), ..Self::new(limits) }
    }

    /// Lists the trailer fields of a complete body, in their order.
    ///
    /// The list leaves out fields that no trailer section may have (RFC 9110 section 6.5.1). The list is
    /// empty unless the decoder keeps trailers.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let kept = self.trailers.as_deref().filter(|_| self.is_done()).unwrap_or_default();
        let lines = kept.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let fields = lines.filter_map(|line| {
            let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
            Some((name, trim_blanks(&value[1..])))
        });
        fields.filter(|(name, _)| is_trailer_field(name))
    }

    /// Moves decoded data from the front of `input` to the end of `body`. The caller may drain `body` between
    /// calls.
    ///
    /// One call adds at most `input.len()` bytes. The caller therefore bounds memory by the size of its
    /// reads. `body_bytes_max` bounds the data of the whole body. A chunk that would exceed this bound is
    /// refused at its size line.
    ///
    /// # Errors
    /// The coding has a fault. Each later call returns the same error, because the decoder cannot
    /// resynchronize.
    pub fn decode(
        &mut self,
        input: &mut BytesMut,
        body: &mut BytesMut,
        body_bytes_max: u64,
    ) -> Result<Decoded, RequestError> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let mut used = 0;
        let decoded = self.run(input, &mut used, body, body_bytes_max);
        input.advance(used);
        self.failure = decoded.as_ref().err().cloned();
        decoded
    }

    /// Returns whether the decoder consumed bytes.
    pub fn has_started(&self) -> bool {
        self.state != (State::Size { digits: 0 }) || self.overhead_bytes > 0
    }

    /// Returns whether the whole body was decoded.
    ///
    /// If the stream ends before this function returns true, the body is incomplete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the size of the decoded data so far, in bytes.
    pub fn body_bytes(&self) -> u64 {
        match self.state {
            State::Data => self.data_bytes - self.chunk_left,
            _ => self.data_bytes,
        }
    }

    fn run(
        &mut self,
        input: &[u8],
        used: &mut usize,
        body: &mut BytesMut,
        body_bytes_max: u64,
    ) -> Result<Decoded, RequestError> {
        loop {
            let rest = input.get(*used..).unwrap_or_default();
            match (self.state, rest) {
                (State::Done, _) => return Ok(Decoded::Done),
                (_, []) => return Ok(Decoded::NeedMore),
                (State::Data, _) => *used += self.take_data(rest, body),
                (_, [byte, ..]) => {
                    *used += 1;
                    self.state = self.step(*byte, body_bytes_max)?;
                }
            }
        }
    }

    fn take_data(&mut self, input: &[u8], body: &mut BytesMut) -> usize {
        let bytes = usize::try_from(self.chunk_left).map_or(input.len(), |left| left.min(input.len()));
        body.extend_from_slice(&input[..bytes]);
        self.chunk_left -= bytes as u64;
        if self.chunk_left == 0 {
            self.state = State::DataCarriageReturn;
        }
        bytes
    }

    /// Consumes one byte of framing.
    fn step(&mut self, byte: u8, body_bytes_max: u64) -> Result<State, RequestError> {
        match self.state {
            State::Size { digits } => self.step_size(digits, byte),
            State::Extension(extension) => self.step_extension(extension, byte),
            State::SizeLineFeed if byte == b'\n' => self.begin_chunk(body_bytes_max),
            // A CR after an extension must be followed by LF.
            State::SizeLineFeed => Err(RequestError::ChunkSizeInvalid { byte }),
            State::DataCarriageReturn if byte == b'\r' => Ok(State::DataLineFeed),
            State::DataLineFeed if byte == b'\n' => Ok(State::Size { digits: 0 }),
            State::DataCarriageReturn | State::DataLineFeed => Err(RequestError::ChunkEndInvalid { byte }),
            State::TrailerStart
            | State::TrailerName
            | State::TrailerValue
            | State::TrailerLineFeed
            | State::EndLineFeed => self.step_trailer(byte),
            State::Data | State::Done => Ok(self.state),
        }
    }

    /// Parses 1 to 16 digits with leading zeros. Sixteen hexadecimal digits always fit a `u64`.
    fn step_size(&mut self, digits: u8, byte: u8) -> Result<State, RequestError> {
        match (byte, hex_value(byte)) {
            (_, Some(value)) if digits < SIZE_DIGITS_MAX => {
                self.chunk_left = self.chunk_left << 4 | u64::from(value);
                self.overhead_bytes += 1;
                Ok(State::Size { digits: digits + 1 })
            }
            (b';', _) if digits > 0 => self.count_extension(Extension::BeforeName),
            (b'\r', _) if digits > 0 => Ok(State::SizeLineFeed),
            _ => Err(RequestError::ChunkSizeInvalid { byte }),
        }
    }

    /// Consumes one byte of a chunk extension (RFC 9112 section 7.1.1).
    fn step_extension(&mut self, extension: Extension, byte: u8) -> Result<State, RequestError> {
        use Extension::{
            AfterName, AfterQuoted, AfterValue, BeforeName, BeforeValue, Name, Quoted, QuotedPair, Token,
        };
        let next = match (extension, byte) {
            (Name | Token | AfterQuoted, b'\r') => return Ok(State::SizeLineFeed),
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => QuotedPair,
            (Quoted | QuotedPair, _) if is_field_content(byte) => Quoted,
            (BeforeName | BeforeValue | AfterName | AfterValue, _) if is(BLANK, byte) => extension,
            (Name, _) if is(BLANK, byte) => AfterName,
            (Token | AfterQuoted, _) if is(BLANK, byte) => AfterValue,
            (BeforeName | Name, _) if is(TOKEN, byte) => Name,
            (BeforeValue | Token, _) if is(TOKEN, byte) => Token,
            (BeforeValue, b'"') => Quoted,
            (Name | AfterName, b'=') => BeforeValue,
            (Name | AfterName | Token | AfterQuoted | AfterValue, b';') => BeforeName,
            _ => return Err(RequestError::ChunkExtensionInvalid { byte }),
        };
        self.count_extension(next)
    }

    fn count_extension(&mut self, next: Extension) -> Result<State, RequestError> {
        self.extension_bytes += 1;
        if self.extension_bytes > self.extension_bytes_max {
            return Err(RequestError::ChunkExtensionsTooLarge { limit: self.extension_bytes_max });
        }
        Ok(State::Extension(next))
    }

    /// Checks the announced size before the decoder consumes any data of the chunk.
    fn begin_chunk(&mut self, body_bytes_max: u64) -> Result<State, RequestError> {
        if self.chunk_left == 0 {
            return Ok(State::TrailerStart);
        }
        let bytes = self.data_bytes.saturating_add(self.chunk_left);
        if bytes > body_bytes_max {
            return Err(RequestError::BodyTooLarge { bytes, limit: body_bytes_max });
        }
        self.data_bytes = bytes;
        self.overhead_bytes += LINE_ENDS_OF_CHUNK;
        self.check_overhead()?;
        Ok(State::Data)
    }

    fn check_overhead(&self) -> Result<(), RequestError> {
        let limit = self.data_bytes.saturating_mul(self.framing_per_byte).saturating_add(OVERHEAD_FREE_BYTES);
        if self.overhead_bytes > limit {
            return Err(RequestError::ChunkOverhead {
                overhead: self.overhead_bytes,
                data: self.data_bytes,
                limit,
            });
        }
        Ok(())
    }

    /// Consumes one byte of the trailer section (RFC 9112 section 7.1.2).
    ///
    /// Trailers obey the strict rules of field lines: no folding, and no blank before the colon.
    fn step_trailer(&mut self, byte: u8) -> Result<State, RequestError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > self.trailer_bytes_max {
            return Err(RequestError::TrailerTooLarge { limit: self.trailer_bytes_max });
        }
        if let Some(trailers) = &mut self.trailers {
            trailers.push(byte);
        }
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::TrailerStart | State::TrailerName, _) if is(self.trailer_name, byte) => {
                Ok(State::TrailerName)
            }
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, _) if is_field_content(byte) => Ok(State::TrailerValue),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::EndLineFeed, b'\n') => Ok(State::Done),
            _ => Err(RequestError::TrailerInvalid { byte }),
        }
    }
}

/// Returns whether a trailer section may have this field (RFC 9110 section 6.5.1).
///
/// This rule refuses fields of framing, routing, authentication, request modifiers and response control.
/// Fields about the content are refused, too, because the recipient needs them before the content.
fn is_trailer_field(name: &[u8]) -> bool {
    let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    !is_hop_by_hop_field(name) && !is_single_field(name) && !NEVER_TRAILERS.iter().any(is)
}

/// Refused trailer fields that are neither hop-by-hop nor [single](is_single_field).
const NEVER_TRAILERS: [&str; 22] = [
    "accept-ranges",
    "allow",
    "authentication-info",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-language",
    "content-length",
    "content-security-policy",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "max-forwards",
    "pragma",
    "range",
    "set-cookie",
    "strict-transport-security",
    "vary",
    "via",
    "www-authenticate",
];

/// Appends `data` as one chunk.
///
/// If `data` is empty, nothing is appended, because an empty chunk would end the body.
pub fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let digits = (data.len().ilog2() / 4 + 1) as usize;
    for place in (0..digits).rev() {
        out.push(HEX_DIGITS[data.len() >> (place * 4) & 15]);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// End of a chunked body, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const SIZE_DIGITS_MAX: u8 = 16;
/// Bytes of the CRLF after the size and the CRLF after the data.
const LINE_ENDS_OF_CHUNK: u64 = 4;
/// Bytes of framing that are allowed beyond the share of the data.
///
/// A request may have four bytes of framing for each byte of data, plus this amount. A one-byte chunk has
/// five bytes of framing, so a body may hold about 16,000 such chunks.
const OVERHEAD_FREE_BYTES: u64 = 16 * 1024;

#[cfg(test)]
mod tests;
