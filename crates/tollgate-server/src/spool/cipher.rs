//! Encrypts spooled bodies: ChaCha20 with a random key for each file. The key is in memory only, so a file is
//! unreadable after its process has ended.
//!
//! The bytes are not authenticated. Encryption protects against a reader of the disk, and not against a
//! change of the file.

use std::fmt;
use std::io;

use chacha20::ChaCha20Legacy;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};

/// The key of one file. `Debug` does not show the key.
#[derive(Clone)]
pub(super) struct FileKey([u8; 32]);

/// A key is used for one file only, so its nonce need not differ.
const NONCE: [u8; 8] = [0; 8];

impl FileKey {
    /// Creates a random key.
    ///
    /// # Errors
    /// The system returns no random bytes.
    pub(super) fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self(key))
    }

    /// Encrypts or decrypts bytes at `offset`.
    ///
    /// # Errors
    /// The offset exceeds the range that one key may encrypt (2^70 bytes).
    pub(super) fn apply(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut cipher = ChaCha20Legacy::new(&self.0.into(), &NONCE.into());
        let is_within = cipher.try_seek(offset).is_ok() && cipher.try_apply_keystream(bytes).is_ok();
        if is_within { Ok(()) } else { Err(io::ErrorKind::FileTooLarge.into()) }
    }
}

impl fmt::Debug for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_any_place_and_differ_from_what_is_stored() {
        let plain: Vec<u8> = (0..1000_u32).map(|n| n as u8).collect();
        let key = FileKey::new().unwrap();
        let mut stored = plain.clone();
        // The pieces do not end at borders of cipher blocks.
        for (start, end) in [(0, 1), (1, 130), (130, 1000)] {
            key.apply(&mut stored[start..end], start as u64).unwrap();
        }
        assert!(stored.iter().zip(&plain).filter(|(stored, plain)| stored == plain).count() < 50);
        for start in [0, 1, 63, 64, 65, 500, 999] {
            let mut part = stored[start..].to_vec();
            key.apply(&mut part, start as u64).unwrap();
            assert_eq!(part, plain[start..], "from {start}");
        }
        let mut other = stored.clone();
        FileKey::new().unwrap().apply(&mut other, 0).unwrap();
        assert_ne!(other, plain, "each file has a key of its own");
        assert_eq!(format!("{key:?}"), "FileKey");
    }

    #[test]
    fn places_beyond_what_32_bits_count_have_a_keystream_of_their_own() {
        let key = FileKey::new().unwrap();
        let (mut near, mut far) = ([0; 64], [0; 64]);
        key.apply(&mut near, 0).unwrap();
        key.apply(&mut far, 1 << 38).unwrap();
        assert_ne!(near, far);
    }
}
