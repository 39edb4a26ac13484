//! The id of a request in logs, records, scripts and replies.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestId {
    /// The server generated the id.
    Made(Uuid),
    /// The id came with the request.
    Taken {
        /// The id as received: visible ASCII.
        text: Bytes,
        /// The same id as a UUID. If the id is not a UUID, a generated one.
        uuid: Uuid,
    },
}

/// Buffer for the text of a generated id.
pub type RequestIdBuffer = [u8; 36];

impl RequestId {
    /// Returns the id as visible ASCII. A generated id is written into `buffer`.
    pub fn text<'a>(&'a self, buffer: &'a mut RequestIdBuffer) -> &'a [u8] {
        match self {
            Self::Made(uuid) => {
                write_hyphenated(uuid.as_bytes(), buffer);
                buffer
            }
            Self::Taken { text, .. } => text,
        }
    }

    /// Returns the id as a UUID. If the received id is not a UUID, returns a generated one.
    pub fn uuid(&self) -> Uuid {
        match self {
            Self::Made(uuid) | Self::Taken { uuid, .. } => *uuid,
        }
    }
}

/// Writes a UUID in the form of RFC 9562 section 4. Two digits are written at a time, because each reply has
/// an id and this is faster.
fn write_hyphenated(bytes: &[u8; 16], text: &mut RequestIdBuffer) {
    *text = [b'-'; 36];
    for (byte, at) in bytes.iter().zip(PAIRS_AT) {
        text[at..at + 2].copy_from_slice(&HEX[usize::from(*byte)]);
    }
}

/// Position of the two digits of each byte in the text.
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
