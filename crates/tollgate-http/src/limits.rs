//! The bounds on what a peer may send before it is refused; the default figures are those of rules 5, 13, 14
//! and 24.

/// Bounds of the parser, in bytes unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head: request line, field lines, the blank lines around them. Above: 431.
    pub head_bytes_max: usize,
    /// Bytes of a request target. Above: 414 (RFC 9112 section 3 asks for at least 8,000).
    pub target_bytes_max: usize,
    /// Field lines in a head. Above: 431.
    pub fields_max: usize,
    /// Bytes of chunk framing for each byte of data, beyond the first 16 KiB. Above: 400.
    pub chunk_framing_per_byte: u64,
    /// Bytes of all chunk extensions of one body together. Above: 400.
    pub chunk_extension_bytes_max: usize,
    /// Bytes of a trailer section. Above: 431.
    pub trailer_bytes_max: usize,
    /// What becomes of field names with `_`.
    pub underscore_names: UnderscoreNames,
}

/// What becomes of a field whose name holds `_`, which others mistake for `-` (rule 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnderscoreNames {
    /// The request is refused with 400.
    #[default]
    Refuse,
    /// The field is checked and counted like any other, and then left out.
    Drop,
}

impl UnderscoreNames {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Drop];

    /// Returns the word for it in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
        }
    }
}

impl Limits {
    /// Chunk framing that every chunk with data stays within: 16 digits of a size, and four bytes of line
    /// ends, for one byte. For senders that are trusted to flush as they like; extensions have their own
    /// bound.
    pub const ANY_CHUNK_FRAMING: u64 = 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 * 1024,
            target_bytes_max: 8_000,
            fields_max: 100,
            chunk_framing_per_byte: 4,
            chunk_extension_bytes_max: 16 * 1024,
            trailer_bytes_max: 8 * 1024,
            underscore_names: UnderscoreNames::default(),
        }
    }
}
