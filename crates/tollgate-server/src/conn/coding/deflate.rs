//! Decodes the coding `deflate`: the zlib format (RFC 1950), or DEFLATE data without it (RFC 1951).
//!
//! RFC 9110 section 8.4.1.2 defines `deflate` as the zlib format, and notes that some senders omit the
//! format. The first two bytes decide: a zlib header has method 8, a window of at most 32 KiB and a check
//! value.

use bytes::BytesMut;
use flate2::{Decompress, FlushDecompress, Status};

use super::decode::{Decode, INFLATE_BYTES, Made, Room, Step};

/// Bit of the second byte of a zlib header: a preset dictionary follows (RFC 1950 section 2.2).
const FLAG_DICTIONARY: u8 = 1 << 5;

/// Decodes zlib or DEFLATE data.
pub(super) struct Deflate {
    state: State,
    room: Room,
}

enum State {
    /// Fewer than two bytes have arrived.
    Start,
    Data(Box<Decompress>),
    End,
}

impl Deflate {
    pub(super) fn new() -> Self {
        Self { state: State::Start, room: Room::new() }
    }
}

impl Decode for Deflate {
    fn step(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str> {
        let Self { state, room } = self;
        let inflate = match state {
            State::Data(inflate) => inflate,
            State::End if input.is_empty() => return Ok(Step::NeedMore),
            State::End => return Err("it has bytes after its end"),
            State::Start => {
                let &[first, second, ..] = input.as_ref() else { return Ok(Step::NeedMore) };
                *state = State::Data(Box::new(Decompress::new(has_zlib_header(first, second)?)));
                return Ok(Step::Again);
            }
        };
        let (made, step) = room.step(input, content, |input, output| {
            let (used, bytes) = (inflate.total_in(), inflate.total_out());
            let end = inflate.decompress(input, output, FlushDecompress::None);
            let end = end.map_err(|_| "its data is corrupt")?;
            let (used, bytes) = (inflate.total_in() - used, inflate.total_out() - bytes);
            Ok(Made { used: used as usize, bytes: bytes as usize, end })
        })?;
        match made.end {
            Status::StreamEnd => {
                self.state = State::End;
                Ok(Step::Again)
            }
            _ if made.used == 0 && made.bytes == 0 && !input.is_empty() => Err("its data is corrupt"),
            _ => Ok(step),
        }
    }

    fn is_complete(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// The data has no parts that begin anew.
    fn parts(&self) -> u64 {
        0
    }

    fn memory_bytes(&self) -> usize {
        INFLATE_BYTES
    }
}

/// Returns whether data begins with a zlib header (RFC 1950 section 2.2).
///
/// DEFLATE data can begin with the same bytes only if the unused bits of a stored block are not zero. No
/// encoder writes such data.
///
/// # Errors
/// The header names a dictionary, which no request can have.
fn has_zlib_header(first: u8, second: u8) -> Result<bool, &'static str> {
    let is_header =
        first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([first, second]).is_multiple_of(31);
    if is_header && second & FLAG_DICTIONARY != 0 {
        return Err("it needs a dictionary");
    }
    Ok(is_header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zlib_header_has_method_window_and_check_value() {
        for (header, expect) in [
            ([0x78, 0x01], Ok(true)),
            ([0x78, 0x9c], Ok(true)),
            ([0x78, 0xda], Ok(true)),
            ([0x18, 0x19], Ok(true)),
            ([0x78, 0x9d], Ok(false)),
            ([0x88, 0x1c], Ok(false)),
            ([0x4b, 0x04], Ok(false)),
            ([0x78, 0xbb], Err("it needs a dictionary")),
        ] {
            assert_eq!(has_zlib_header(header[0], header[1]), expect, "{header:x?}");
        }
    }
}
