//! Decodes the content codings of requests (RFC 9110 section 8.4) while the content arrives: gzip (RFC 1952)
//! and zstd (RFC 8878).
//!
//! A step decodes at most [`STEP_BYTES`] of content, so a few bytes that expand to gigabytes use little
//! memory. The caller counts and bounds the total. Each coding has a bounded state: 32 KiB of history for
//! gzip, and the window of 8 MiB that RFC 9659 allows for zstd.

use bytes::{Buf, BytesMut};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use tollgate_http::{RequestError, RequestHead, StatusCode};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::admit::{Arrived, Destination};
use crate::observe::RequestFault;
use crate::reply::Reply;

/// Maximum bytes of content that one step decodes.
const STEP_BYTES: usize = 64 << 10;
/// Initial size of the buffer for the content of a step, in bytes.
const FIRST_ROOM_BYTES: usize = 1 << 10;
/// Maximum bytes of a block (RFC 8878 section 3.1.1.2.4).
const ZSTD_BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Binary logarithm of the maximum window: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Assumed size of an inflater with its history, in bytes.
const INFLATE_BYTES: usize = 48 << 10;

/// A content coding that the server decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Gzip,
    Zstd,
}

/// The content has a coding that is not supported, or several codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsupported;

impl Arrived {
    /// Returns the coding of the content, if the server decodes it. If the endpoint does not accept the
    /// content, the request is answered at once (RFC 9110 section 15.5.16).
    #[inline]
    pub(super) fn check_content(&mut self) -> Option<ContentCoding> {
        let Destination::Endpoint { endpoint, .. } = &self.destination else { return None };
        let checked = match endpoint.refusal(&self.head) {
            Some(reply) => Err(reply),
            None if !endpoint.decodes_content() => return None,
            None => ContentCoding::of(&self.head).map_err(|Unsupported| {
                let reply = unsupported_coding();
                endpoint.note_fault(RequestFault::ContentCoding, &self.head, &reply);
                reply
            }),
        };
        let checked = checked.map_err(|reply| endpoint.granted(reply, &self.head));
        checked.unwrap_or_else(|reply| {
            self.destination = Destination::Reply(reply.into());
            None
        })
    }
}

fn unsupported_coding() -> Reply {
    let text = format!("content coding is not supported: allowed is one of {}", ContentCoding::ACCEPTED);
    Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).with("Accept-Encoding", ContentCoding::ACCEPTED)
}

impl ContentCoding {
    /// Value of `Accept-Encoding` in a reply.
    pub(super) const ACCEPTED: &'static str = "gzip, zstd";

    /// Returns the content coding of a request, or `None` if the content is not encoded.
    pub(super) fn of(head: &RequestHead) -> Result<Option<Self>, Unsupported> {
        let lines = head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        let names = lines.flat_map(|(_, value)| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
        let mut coding = None;
        for name in names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")) {
            if coding.is_some() {
                return Err(Unsupported);
            }
            coding = Some(Self::from_name(name).ok_or(Unsupported)?);
        }
        Ok(coding)
    }

    fn from_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Decodes the content of one request.
pub(super) enum Decoder {
    Gzip(Gzip),
    Zstd(Zstd),
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The whole input was used, and all of its content is decoded.
    NeedMore,
    Again,
}

/// The result of decoding a part of the input.
struct Made<T> {
    used: usize,
    bytes: usize,
    end: T,
}

/// Size of the zeroed buffer for the content of a step. The size follows the earlier steps. If it were always
/// [`STEP_BYTES`], content in many short pieces would cost more time for zeroing than for decoding.
struct Room {
    bytes: usize,
}

impl Room {
    const fn new() -> Self {
        Self { bytes: FIRST_ROOM_BYTES }
    }

    /// Calls `decode` for the start of `input`, and appends the decoded bytes to `content`.
    fn step<T>(
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

impl Decoder {
    pub(super) fn new(coding: ContentCoding) -> Self {
        match coding {
            ContentCoding::Gzip => Self::Gzip(Gzip::new()),
            ContentCoding::Zstd => Self::Zstd(Zstd::new()),
        }
    }

    /// Decodes a part of `input`, and appends the result to `content`.
    ///
    /// # Errors
    /// The input does not conform to the coding.
    pub(super) fn step(
        &mut self,
        input: &mut BytesMut,
        content: &mut BytesMut,
    ) -> Result<Step, RequestError> {
        let step = match self {
            Self::Gzip(gzip) => gzip.step(input, content),
            Self::Zstd(zstd) => zstd.step(input, content),
        };
        step.map_err(|reason| self.error(reason))
    }

    /// Checks that the input may end here.
    ///
    /// # Errors
    /// The input is incomplete.
    pub(super) fn finish(&self) -> Result<(), RequestError> {
        let is_complete = match self {
            Self::Gzip(gzip) => matches!(gzip.part, MemberPart::Start),
            Self::Zstd(zstd) => zstd.is_between_frames,
        };
        if is_complete { Ok(()) } else { Err(self.error("its data is incomplete")) }
    }

    /// Returns the number of complete members or frames.
    pub(super) fn parts(&self) -> u64 {
        match self {
            Self::Gzip(gzip) => gzip.members,
            Self::Zstd(zstd) => zstd.frames,
        }
    }

    /// Returns the maximum number of encoded bytes before the decoder returns content. A block of zstd has to
    /// be complete (RFC 8878 section 3.1.1.2).
    pub(super) fn block_bytes_max(&self) -> u64 {
        match self {
            Self::Gzip(_) => 0,
            Self::Zstd(_) => ZSTD_BLOCK_BYTES_MAX,
        }
    }

    /// Returns the memory of the decoder in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Gzip(_) => INFLATE_BYTES,
            Self::Zstd(zstd) => zstd.context.sizeof(),
        }
    }

    fn error(&self, reason: &str) -> RequestError {
        let coding = match self {
            Self::Gzip(_) => "gzip",
            Self::Zstd(_) => "zstd",
        };
        RequestError::ContentCoding { coding, reason: reason.into() }
    }
}

/// Decodes a gzip file, which is a sequence of members.
pub(super) struct Gzip {
    part: MemberPart,
    flags: u8,
    /// Checksum of the header so far.
    header: Crc,
    inflate: Box<Decompress>,
    /// Checksum of the data so far.
    checksum: Crc,
    room: Room,
    members: u64,
}

/// The part of a gzip member to which the next byte belongs (RFC 1952 section 2.3).
#[derive(Debug, Clone, Copy)]
enum MemberPart {
    /// The next byte begins a member. The file may also end here.
    Start,
    /// The next byte is in the fixed fields, after the first byte of the member.
    Fixed(usize),
    ExtraLength(Option<u8>),
    Extra(u16),
    Name,
    Comment,
    HeaderChecksum(Option<u8>),
    Data,
    /// The bytes of the trailer so far, and their number.
    Trailer([u8; 8], usize),
}

const FLAG_HEADER_CHECKSUM: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
const FLAGS_RESERVED: u8 = 0b1110_0000;

impl Gzip {
    fn new() -> Self {
        Self {
            part: MemberPart::Start,
            flags: 0,
            header: Crc::new(),
            inflate: Box::new(Decompress::new(false)),
            checksum: Crc::new(),
            room: Room::new(),
            members: 0,
        }
    }

    fn step(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str> {
        while !matches!(self.part, MemberPart::Data) {
            let Some(&byte) = input.first() else { return Ok(Step::NeedMore) };
            input.advance(1);
            if !matches!(self.part, MemberPart::HeaderChecksum(_) | MemberPart::Trailer(..)) {
                self.header.update(&[byte]);
            }
            self.part = self.frame(byte)?;
        }
        self.inflate(input, content)
    }

    fn inflate(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str> {
        let Self { inflate, checksum, room, .. } = self;
        let (made, step) = room.step(input, content, |input, output| {
            let (used, bytes) = (inflate.total_in(), inflate.total_out());
            let end = inflate.decompress(input, output, FlushDecompress::None);
            let end = end.map_err(|_| "its data is corrupt")?;
            let (used, bytes) = (inflate.total_in() - used, inflate.total_out() - bytes);
            checksum.update(&output[..bytes as usize]);
            Ok(Made { used: used as usize, bytes: bytes as usize, end })
        })?;
        match made.end {
            Status::StreamEnd => {
                self.part = MemberPart::Trailer([0; 8], 0);
                Ok(Step::Again)
            }
            _ if made.used == 0 && made.bytes == 0 && !input.is_empty() => Err("its data is corrupt"),
            _ => Ok(step),
        }
    }

    /// Handles one byte outside the compressed data.
    fn frame(&mut self, byte: u8) -> Result<MemberPart, &'static str> {
        Ok(match self.part {
            MemberPart::Start if byte == 0x1f => MemberPart::Fixed(1),
            MemberPart::Start => return Err("it has bytes that do not begin a member"),
            MemberPart::Fixed(1) if byte != 0x8b => return Err("it has bytes that do not begin a member"),
            MemberPart::Fixed(2) if byte != 8 => return Err("its method is not deflate"),
            MemberPart::Fixed(3) if byte & FLAGS_RESERVED != 0 => return Err("a reserved flag is set"),
            MemberPart::Fixed(9) => self.behind(0),
            MemberPart::Fixed(at) => {
                if at == 3 {
                    self.flags = byte;
                }
                MemberPart::Fixed(at + 1)
            }
            MemberPart::ExtraLength(None) => MemberPart::ExtraLength(Some(byte)),
            MemberPart::ExtraLength(Some(low)) => match u16::from_le_bytes([low, byte]) {
                0 => self.behind(FLAG_EXTRA),
                bytes => MemberPart::Extra(bytes),
            },
            MemberPart::Extra(1) => self.behind(FLAG_EXTRA),
            MemberPart::Extra(left) => MemberPart::Extra(left - 1),
            MemberPart::Name if byte == 0 => self.behind(FLAG_NAME),
            MemberPart::Comment if byte == 0 => self.behind(FLAG_COMMENT),
            MemberPart::HeaderChecksum(None) => MemberPart::HeaderChecksum(Some(byte)),
            MemberPart::HeaderChecksum(Some(low)) => self.end_header([low, byte])?,
            MemberPart::Name | MemberPart::Comment | MemberPart::Data => self.part,
            MemberPart::Trailer(mut bytes, at) => {
                bytes[at] = byte;
                if at + 1 < bytes.len() {
                    MemberPart::Trailer(bytes, at + 1)
                } else {
                    self.end_member(bytes)?
                }
            }
        })
    }

    /// Returns the part that follows the optional field of `flag`. With zero, returns the part that follows
    /// the fixed fields.
    fn behind(&self, flag: u8) -> MemberPart {
        let is_next = |next: u8| self.flags & next != 0;
        if flag < FLAG_EXTRA && is_next(FLAG_EXTRA) {
            MemberPart::ExtraLength(None)
        } else if flag < FLAG_NAME && is_next(FLAG_NAME) {
            MemberPart::Name
        } else if flag < FLAG_COMMENT && is_next(FLAG_COMMENT) {
            MemberPart::Comment
        } else if is_next(FLAG_HEADER_CHECKSUM) {
            MemberPart::HeaderChecksum(None)
        } else {
            MemberPart::Data
        }
    }

    /// RFC 1952 section 2.3.1: the header checksum is the lower half of the CRC of all bytes before it.
    fn end_header(&self, checksum: [u8; 2]) -> Result<MemberPart, &'static str> {
        let found = self.header.sum() & u32::from(u16::MAX);
        if u32::from(u16::from_le_bytes(checksum)) == found {
            Ok(MemberPart::Data)
        } else {
            Err("the checksum of its header is wrong")
        }
    }

    fn end_member(&mut self, [a, b, c, d, e, f, g, h]: [u8; 8]) -> Result<MemberPart, &'static str> {
        let (checksum, length) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if (checksum, length) != (self.checksum.sum(), self.checksum.amount()) {
            return Err("its checksum or length is wrong");
        }
        self.members += 1;
        self.inflate.reset(false);
        self.header.reset();
        self.checksum.reset();
        Ok(MemberPart::Start)
    }
}

/// Decodes Zstandard data, which is a sequence of frames.
pub(super) struct Zstd {
    context: DCtx<'static>,
    is_between_frames: bool,
    room: Room,
    frames: u64,
}

impl Zstd {
    fn new() -> Self {
        let mut context = DCtx::create();
        let bound = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX));
        assert!(bound.is_ok(), "zstd takes a window of {ZSTD_WINDOW_LOG_MAX} bits");
        Self { context, is_between_frames: true, room: Room::new(), frames: 0 }
    }

    fn step(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str> {
        if input.is_empty() && self.is_between_frames {
            return Ok(Step::NeedMore);
        }
        let Self { context, room, .. } = self;
        let (made, step) = room.step(input, content, |input, output| {
            let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
            let expected = context.decompress_stream(&mut to, &mut from);
            let end = expected.map_err(zstd_safe::get_error_name)?;
            Ok(Made { used: from.pos(), bytes: to.pos(), end })
        })?;
        self.is_between_frames = made.end == 0;
        self.frames += u64::from(self.is_between_frames);
        if made.used == 0 && made.bytes == 0 && !input.is_empty() {
            return Err("the decoder makes no progress");
        }
        Ok(step)
    }
}
