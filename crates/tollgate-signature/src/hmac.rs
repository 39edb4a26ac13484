//! HMAC (RFC 2104) that runs along with a message, and the comparison with a received code.

use ring::hmac;
use subtle::ConstantTimeEq;

/// The digest of an HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    /// SHA-1. An HMAC does not need a digest without collisions (RFC 6194 section 3.3), but new partners
    /// should use SHA-256.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// The HMAC of a message that arrives in parts.
#[derive(Clone)]
pub struct Hmac(hmac::Context);

impl Hmac {
    /// Begins an HMAC with a secret of any length.
    pub fn new(hash: Hash, secret: &[u8]) -> Self {
        let algorithm = match hash {
            Hash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha384 => hmac::HMAC_SHA384,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        Self(hmac::Context::with_key(&hmac::Key::new(algorithm, secret)))
    }

    /// Adds the next bytes of the message.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the code of the message.
    pub fn finish(self) -> Vec<u8> {
        self.0.sign().as_ref().to_vec()
    }

    /// Returns whether a code is the code of this message. The time does not reveal where the two differ.
    #[must_use]
    pub fn matches(self, code: &[u8]) -> bool {
        self.0.sign().as_ref().ct_eq(code).into()
    }
}

impl std::fmt::Debug for Hmac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hmac")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2202 section 3 and RFC 4231 section 4: test case 2, and keys longer than a block.
    #[test]
    fn codes_are_those_of_the_rfcs() {
        let (key, data): (&[u8], &[u8]) = (b"Jefe", b"what do ya want for nothing?");
        check(Hash::Sha1, key, data, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        check(Hash::Sha256, key, data, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let sha384 = "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e\
                      8e2240ca5e69e2c78b3239ecfab21649";
        check(Hash::Sha384, key, data, sha384);
        let sha512 = "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
                      9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737";
        check(Hash::Sha512, key, data, sha512);
        let data = b"Test Using Larger Than Block-Size Key - Hash Key First";
        check(Hash::Sha1, &[0xaa; 80], data, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
        let sha256 = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        check(Hash::Sha256, &[0xaa; 131], data, sha256);
    }

    #[test]
    fn a_code_that_differs_in_one_bit_or_in_its_length_is_another() {
        let mac = Hmac::new(Hash::Sha256, b"Jefe");
        let code = mac.clone().finish();
        assert!(mac.clone().matches(&code));
        for index in 0..code.len() * 8 {
            let mut other = code.clone();
            other[index / 8] ^= 1 << (index % 8);
            assert!(!mac.clone().matches(&other), "bit {index}");
        }
        assert!(
            !mac.clone().matches(&code[..31])
                && !mac.clone().matches(b"")
                && !mac.matches(&[code, vec![0]].concat())
        );
    }

    fn check(hash: Hash, key: &[u8], data: &[u8], expected: &str) {
        let mut mac = Hmac::new(hash, key);
        for part in data.chunks(7) {
            mac.update(part);
        }
        let code: String = mac.finish().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(code, expected, "{hash:?}");
    }
}
