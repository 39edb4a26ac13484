//! Bounds on the input from a peer, with their defaults.

/// Bounds of the parser, in bytes unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head: request line, field lines, and the blank lines around them. A longer head
    /// gets 431.
    pub head_bytes_max: usize,
    /// Bytes of a request target. A longer target gets 414. RFC 9112 section 3 requires at least 8,000.
    pub target_bytes_max: usize,
    /// Field lines in a head. More lines get 431.
    pub fields_max: usize,
    /// Bytes of chunk framing for each byte of data, beyond the first 16 KiB. More framing gets 400.
    pub chunk_framing_per_byte: u64,
    /// Bytes of all chunk extensions of one body together. More bytes get 400.
    pub chunk_extension_bytes_max: usize,
    /// Bytes of a trailer section. A longer section gets 431.
    pub trailer_bytes_max: usize,
    /// Treatment of field names with `_`.
    pub underscore_names: UnderscoreNames,
    /// Whether methods are accepted that the server does not know, except CONNECT and TRACE. Otherwise they
    /// get 501.
    pub extension_methods: bool,
}

/// Treatment of a field with `_` in its name. Other software confuses `_` with `-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnderscoreNames {
    /// The request is refused with 400.
    #[default]
    Refuse,
    /// The field is checked and counted like any other, and then dropped.
    Drop,
}

impl UnderscoreNames {
    /// All values of the option.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Drop];

    /// Returns the word for this value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
        }
    }
}

impl Limits {
    /// Chunk framing that no chunk with data exceeds: 16 size digits and 4 bytes of line ends, for one byte
    /// of data.
    ///
    /// Use this value for trusted senders, which may send chunks of any size. Chunk extensions have their own
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
            extension_methods: false,
        }
    }
}
