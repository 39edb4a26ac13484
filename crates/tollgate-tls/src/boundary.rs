//! Checks whether the received bytes end with a complete record (RFC 8446 section 5.1). While a connection is
//! idle, a partial record means that the peer sends data without a request.

/// Bytes of a record header: type (1), version (2), length (2), big-endian.
const HEADER_BYTES: usize = 5;

/// Position of the last received byte in its record. rustls validates the lengths, so this type does not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Missing bytes of the record after its header.
    left: usize,
}

impl Boundary {
    /// Counts received bytes.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEADER_BYTES - self.header_bytes).min(bytes.len());
            self.header[self.header_bytes..self.header_bytes + taken].copy_from_slice(&bytes[..taken]);
            self.header_bytes += taken;
            bytes = &bytes[taken..];
            if self.header_bytes == HEADER_BYTES {
                self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                self.header_bytes = 0;
            }
        }
    }

    /// Returns whether the last record is complete.
    pub(crate) fn is_reached(self) -> bool {
        self.left == 0 && self.header_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_whole_with_its_last_byte_however_it_comes() {
        let mut bytes = vec![23, 3, 3, 1, 2];
        bytes.resize(5 + 0x102, 7);
        bytes.extend([22, 3, 3, 0, 0]);
        bytes.extend([21, 3, 3, 0, 2, 1, 0]);
        let whole = [0, 5 + 0x102, 10 + 0x102, bytes.len()];
        for step in 1..=bytes.len() {
            let (mut boundary, mut at) = (Boundary::default(), 0);
            for piece in bytes.chunks(step) {
                assert_eq!(boundary.is_reached(), whole.contains(&at), "{at} by {step}");
                boundary.pass(piece);
                at += piece.len();
            }
            assert!(boundary.is_reached());
        }
    }
}
