//! The chunked transfer coding (RFC 9112 section 7.1, rules 12 to 14).
//!
//! The decoder looks at each framing byte once and keeps no line, so its cost is linear and its memory
//! constant, however the bytes are cut. Extensions and trailers are checked against the grammar and
//! discarded: nothing of them reaches fields, scripts or backends. Trailers are kept, apart from all else,
//! only for whoever [asks for that](ChunkedDecoder::keeping_trailers).

use crate::connection::is_hop_by_hop_field;
use crate::error::RequestError;
use crate::field::is_single_field;
use crate::grammar::{BLANK, FIELD_NAME, TOKEN, hex_value, is, is_field_content, trim_blanks};
use crate::limits::{Limits, UnderscoreNames};
use bytes::{Buf, BytesMut};

/// Where a decoder stands after the bytes it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// All bytes are used up and the body goes on.
    NeedMore,
    /// The body is complete; `input` begins with what follows it.
    Done,
}

/// Decodes one chunked body.
#[derive(Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// The size of the current chunk while its digits come, then what is left of its data.
    chunk_left: u64,
    /// Data announced by all chunks so far.
    data_bytes: u64,
    /// Size digits and line ends so far.
    overhead_bytes: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
    framing_per_byte: u64,
    extension_bytes_max: usize,
    trailer_bytes_max: usize,
    /// The class of the bytes of a trailer's name.
    trailer_name: u8,
    failure: Option<RequestError>,
    /// The trailer section, if it is kept.
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

/// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`, from the first `;` on.
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
    /// Makes a decoder for one body.
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

    /// The same, which keeps the trailer section.
    pub fn keeping_trailers(limits: &Limits) -> Self {
        Self { trailers: Some(Vec::new()), ..Self::new(limits) }
    }

    /// Lists the trailer fields of a body that was decoded, in their order, without those that no trailer
    /// section may have (RFC 9110 section 6.5.1): nothing, unless they are kept.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let kept = self.trailers.as_deref().filter(|_| self.is_done()).unwrap_or_default();
        let lines = kept.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let fields = lines.filter_map(|line| {
            let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
            Some((name, trim_blanks(&value[1..])))
        });
        fields.filter(|(name, _)| is_trailer_field(name))
    }

    /// Moves decoded data from the front of `input` to the end of `body`, which may be drained between calls.
    ///
    /// One call adds no more data than `input` holds, so the caller bounds memory by what it reads at once.
    /// `body_bytes_max` bounds the data of the whole body; a chunk that would pass it is refused at its size
    /// line.
    ///
    /// # Errors
    /// Any fault of the coding, and again the same on each later call: there is no resync (rule 15).
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

    /// Tells whether bytes of the coding were taken.
    pub fn has_started(&self) -> bool {
        self.state != (State::Size { digits: 0 }) || self.overhead_bytes > 0
    }

    /// Tells whether the whole body was decoded. At the end of the stream anything else is an incomplete body
    /// (rule 15).
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the bytes of data decoded so far.
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

    /// One byte of framing.
    fn step(&mut self, byte: u8, body_bytes_max: u64) -> Result<State, RequestError> {
        match self.state {
            State::Size { digits } => self.step_size(digits, byte),
            State::Extension(extension) => self.step_extension(extension, byte),
            State::SizeLineFeed if byte == b'\n' => self.begin_chunk(body_bytes_max),
            // Rule 13: a CR in an extension that is not followed by LF.
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

    /// Rule 12: 1 to 16 digits, leading zeros included, so the size always fits a `u64`.
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

    /// RFC 9112 section 7.1.1.
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

    /// The size line is complete: check what it announces before any of it is taken.
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

    /// RFC 9112 section 7.1.2, with the strictness of field lines: no folding, no blank before the colon.
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

/// RFC 9110 section 6.5.1: no field of framing, routing, authentication, request modifiers, response control
/// or about the content, which had to be known before it.
fn is_trailer_field(name: &[u8]) -> bool {
    let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    !is_hop_by_hop_field(name) && !is_single_field(name) && !NEVER_TRAILERS.iter().any(is)
}

/// Those of them that are neither of one connection nor [single](is_single_field).
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

/// Appends `data` as one chunk. No data writes nothing: an empty chunk would end the body.
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

/// The end of a chunked body, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";
const SIZE_DIGITS_MAX: u8 = 16;
/// CRLF after the size and CRLF after the data.
const LINE_ENDS_OF_CHUNK: u64 = 4;
/// Framing of a request may be four times the data beyond this. A one-byte chunk has five bytes of it, so a
/// body may hold some 16,000 of those.
const OVERHEAD_FREE_BYTES: u64 = 16 * 1024;

#[cfg(test)]
mod tests;
