//! Answers for the id of a request, as logs, records, scripts and clients know it.

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
    /// The id as text, in `buffer` where it was made.
    pub fn text<'a>(&'a self, buffer: &'a mut RequestIdBuffer) -> &'a [u8] {
        match self {
            Self::Made(uuid) => uuid.hyphenated().encode_lower(buffer).as_bytes(),
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

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.text(&mut [0; 36])))
    }
}
