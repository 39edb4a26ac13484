//! The id of a request, as logs, records, scripts and clients know it.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId {
    /// The server made it.
    Made(Uuid),
    /// It came with the request.
    Taken {
        /// As it came: visible ASCII.
        text: Bytes,
        /// The same where it is a UUID, else one that the server made.
        uuid: Uuid,
    },
}

/// Room for the text of a made id.
pub type RequestIdBuffer = [u8; 36];

impl RequestId {
    /// The id as text, visible ASCII, in `buffer` where it was made.
    pub fn text<'a>(&'a self, buffer: &'a mut RequestIdBuffer) -> &'a [u8] {
        match self {
            Self::Made(uuid) => {
                write_hyphenated(uuid.as_bytes(), buffer);
                buffer
            }
            Self::Taken { text, .. } => text,
        }
    }

    /// The id as a UUID: one of the server's own where what came is none.
    pub fn uuid(&self) -> Uuid {
        match self {
            Self::Made(uuid) | Self::Taken { uuid, .. } => *uuid,
        }
    }
}

/// RFC 9562 section 4, two digits at a time: this is in every reply.
fn write_hyphenated(bytes: &[u8; 16], text: &mut RequestIdBuffer) {
    *text = [b'-'; 36];
    for (byte, at) in bytes.iter().zip(PAIRS_AT) {
        text[at..at + 2].copy_from_slice(&HEX[usize::from(*byte)]);
    }
}

/// Where the digits of each byte stand.
const PAIRS_AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

pub(crate) const HEX: [[u8; 2]; 256] = {
    let digits = *b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.text(&mut [0; 36])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_id_is_written_as_a_uuid_is() {
        for seed in 0..100u128 {
            let uuid = Uuid::from_u128(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            assert_eq!(RequestId::Made(uuid).to_string(), uuid.to_string());
        }
    }
}
