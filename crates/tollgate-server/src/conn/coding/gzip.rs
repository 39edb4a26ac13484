//! Decodes gzip (RFC 1952).

use bytes::{Buf, BytesMut};
use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::decode::{Decode, INFLATE_BYTES, Made, Room, Step};

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

impl Decode for Gzip {
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

    fn is_complete(&self) -> bool {
        matches!(self.part, MemberPart::Start)
    }

    fn parts(&self) -> u64 {
        self.members
    }

    fn memory_bytes(&self) -> usize {
        INFLATE_BYTES
    }
}

impl Gzip {
    pub(super) fn new() -> Self {
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
