//! The digest algorithms that seal segments.

use std::fmt;

use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use crate::error::FormatError;

/// Algorithm of the digest that seals a segment (FIPS 180-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SegmentDigestAlgorithm {
    /// No digest. Only the checksums of the batches protect the segment.
    None,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl SegmentDigestAlgorithm {
    /// All algorithms, in the order of their numbers from 0.
    pub const ALL: [Self; 5] = [Self::None, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Returns the name in configuration and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    const fn digest_bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    pub(super) fn from_number(number: u8) -> Result<Self, FormatError> {
        Self::ALL.get(usize::from(number)).copied().ok_or(FormatError::Value {
            what: "digest algorithm",
            found: number.into(),
            allowed: "0 to 4",
        })
    }
}

/// Computes the digest of a segment piece by piece.
pub(crate) enum Digester {
    None,
    Sha224(Sha224),
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl Digester {
    pub(crate) fn new(algorithm: SegmentDigestAlgorithm) -> Self {
        match algorithm {
            SegmentDigestAlgorithm::None => Self::None,
            SegmentDigestAlgorithm::Sha224 => Self::Sha224(Sha224::new()),
            SegmentDigestAlgorithm::Sha256 => Self::Sha256(Sha256::new()),
            SegmentDigestAlgorithm::Sha384 => Self::Sha384(Sha384::new()),
            SegmentDigestAlgorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::None => {}
            Self::Sha224(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha384(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        match self {
            Self::None => Digest::new(SegmentDigestAlgorithm::None, &[]),
            Self::Sha224(hash) => Digest::new(SegmentDigestAlgorithm::Sha224, &hash.finalize()),
            Self::Sha256(hash) => Digest::new(SegmentDigestAlgorithm::Sha256, &hash.finalize()),
            Self::Sha384(hash) => Digest::new(SegmentDigestAlgorithm::Sha384, &hash.finalize()),
            Self::Sha512(hash) => Digest::new(SegmentDigestAlgorithm::Sha512, &hash.finalize()),
        }
    }
}

/// The digest of a segment's bytes before its footer. A digest is printed as `sha256:HEX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    algorithm: SegmentDigestAlgorithm,
    pub(super) bytes: [u8; 64],
}

impl Digest {
    pub(super) fn new(algorithm: SegmentDigestAlgorithm, digest: &[u8]) -> Self {
        let mut bytes = [0; 64];
        bytes[..digest.len()].copy_from_slice(digest);
        Self { algorithm, bytes }
    }

    /// Returns the algorithm of the digest.
    pub const fn algorithm(&self) -> SegmentDigestAlgorithm {
        self.algorithm
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.algorithm == SegmentDigestAlgorithm::None {
            return f.write_str("none");
        }
        write!(f, "{}:", self.algorithm.name())?;
        self.bytes[..self.algorithm.digest_bytes()].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_the_published_ones() {
        // FIPS 180-4 examples: the message "abc".
        let check = |algorithm: SegmentDigestAlgorithm, expected: &str| {
            let mut digester = Digester::new(algorithm);
            digester.update(b"abc");
            assert_eq!(digester.finish().to_string(), expected);
        };
        check(SegmentDigestAlgorithm::None, "none");
        check(
            SegmentDigestAlgorithm::Sha224,
            "sha224:23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        );
        check(
            SegmentDigestAlgorithm::Sha256,
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        );
        check(
            SegmentDigestAlgorithm::Sha384,
            "sha384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        );
        check(
            SegmentDigestAlgorithm::Sha512,
            "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        );
    }
}
