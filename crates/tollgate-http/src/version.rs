//! The HTTP versions that the server supports (RFC 9112 section 2.3).

use std::fmt;

/// A supported HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // The name is the version.
pub enum Version {
    Http10,
    Http11,
}

impl Version {
    /// Returns the version as it is written in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
