//! Public keys: from their numbers, from the members of a JWK, and the verification by a key.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ED25519, RsaPublicKeyComponents, UnparsedPublicKey};

use crate::algorithm::{Algorithm, Curve, KeyKind};

/// A public key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(Parts);

#[derive(Clone, PartialEq, Eq)]
enum Parts {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// The byte 4, then both coordinates (SEC 1 section 2.3.3).
    Ec(Curve, Vec<u8>),
    /// The encoded point (RFC 8032 section 5.1.5).
    Ed25519([u8; ED25519_BYTES]),
}

/// The members of a JWK (RFC 7517) that make a public key. The caller reads the JSON.
#[derive(Debug, Clone, Copy, Default)]
pub struct Jwk<'a> {
    /// The key type: `RSA`, `EC` or `OKP`.
    pub kty: &'a str,
    /// The curve of `EC` and `OKP`.
    pub crv: Option<&'a str>,
    /// The modulus of `RSA`.
    pub n: Option<&'a str>,
    /// The exponent of `RSA`.
    pub e: Option<&'a str>,
    /// The first coordinate of `EC`, or the key of `OKP`.
    pub x: Option<&'a str>,
    /// The second coordinate of `EC`.
    pub y: Option<&'a str>,
}

/// Reason why a text is not a usable public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text has no public key.
    #[error("it has no public key in PEM: expected a section PUBLIC KEY or CERTIFICATE")]
    Absent,
    /// The text is not valid PEM.
    #[error("it is not valid PEM")]
    Pem,
    /// The text has a private key.
    #[error("it has a private key: give the public key, `openssl pkey -pubout` writes it")]
    Private,
    /// The DER structure is not valid.
    #[error("the {0} is not valid DER")]
    Der(&'static str),
    /// The key is of a kind that no algorithm here uses.
    #[error("the key has algorithm {0}: expected RSA, P-256, P-384 or Ed25519")]
    Algorithm(String),
    /// The modulus is too short or too long.
    #[error("the RSA key has {0} bits: expected 2048 to 8192 bits")]
    RsaBits(usize),
    /// The numbers cannot be an RSA key.
    #[error("the RSA key is not valid: its modulus and exponent must be odd, and the exponent 3 to 2^33 - 1")]
    RsaNumbers,
    /// The bytes cannot be a point of the curve.
    #[error("the {0} key is not an uncompressed point of the curve")]
    Point(KeyKind),
    /// A JWK lacks a member.
    #[error("the JWK has no {0}")]
    Member(&'static str),
    /// A member of a JWK is not base64url.
    #[error("{0} of the JWK is not base64url without padding")]
    Base64(&'static str),
    /// A JWK is not a public key of a known kind.
    #[error(
        "the JWK has kty {kty:?} and crv {crv:?}: expected RSA, EC with P-256 or P-384, or OKP with Ed25519"
    )]
    Kind {
        /// The key type.
        kty: String,
        /// The curve, or nothing.
        crv: String,
    },
}

/// Reason why a signature does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The algorithm needs a key of another kind.
    #[error("the key is {key}, and the algorithm needs {needed}")]
    KeyKind {
        /// The kind of the key.
        key: KeyKind,
        /// The kind that the algorithm needs.
        needed: KeyKind,
    },
    /// The signature is not one of this message by this key.
    #[error("the signature does not match")]
    Mismatch,
}

impl PublicKey {
    /// Reads the public members of a JWK (RFC 7518 section 6, RFC 8037 section 2).
    ///
    /// # Errors
    /// A member is absent or not valid, or the key is of a kind that no algorithm here uses.
    pub fn from_jwk(jwk: &Jwk<'_>) -> Result<Self, KeyError> {
        match (jwk.kty, jwk.crv) {
            ("RSA", _) => Self::from_rsa(&decode("n", jwk.n)?, &decode("e", jwk.e)?),
            ("EC", Some("P-256")) => Self::from_coordinates(Curve::P256, jwk),
            ("EC", Some("P-384")) => Self::from_coordinates(Curve::P384, jwk),
            ("OKP", Some("Ed25519")) => Self::from_ed25519(&decode("x", jwk.x)?),
            (kty, crv) => {
                Err(KeyError::Kind { kty: kty.to_owned(), crv: crv.unwrap_or_default().to_owned() })
            }
        }
    }

    /// Makes an RSA key of its modulus and its exponent, both big-endian.
    ///
    /// # Errors
    /// The modulus has not 2048 to 8192 bits, or the numbers cannot be an RSA key.
    pub fn from_rsa(n: &[u8], e: &[u8]) -> Result<Self, KeyError> {
        let (n, e) = (without_leading_zeros(n), without_leading_zeros(e));
        let bits = bits(n);
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(KeyError::RsaBits(bits));
        }
        let exponent =
            e.iter().take(EXPONENT_BYTES_MAX + 1).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        if !is_odd(n) || !is_odd(e) || !(3..1 << 33).contains(&exponent) {
            return Err(KeyError::RsaNumbers);
        }
        Ok(Self(Parts::Rsa { n: n.to_vec(), e: e.to_vec() }))
    }

    /// Makes a key of an uncompressed point (SEC 1 section 2.3.3): the byte 4, then both coordinates.
    ///
    /// Whether the point is on the curve is checked with each signature.
    ///
    /// # Errors
    /// The bytes are not an uncompressed point.
    pub fn from_point(curve: Curve, point: &[u8]) -> Result<Self, KeyError> {
        if point.len() != 1 + 2 * curve.coordinate_bytes() || point.first() != Some(&UNCOMPRESSED) {
            return Err(KeyError::Point(KeyKind::Ec(curve)));
        }
        Ok(Self(Parts::Ec(curve, point.to_vec())))
    }

    /// Makes an Ed25519 key of its 32 bytes.
    ///
    /// # Errors
    /// There are not 32 bytes.
    pub fn from_ed25519(key: &[u8]) -> Result<Self, KeyError> {
        let key = key.try_into().map_err(|_| KeyError::Point(KeyKind::Ed25519))?;
        Ok(Self(Parts::Ed25519(key)))
    }

    fn from_coordinates(curve: Curve, jwk: &Jwk<'_>) -> Result<Self, KeyError> {
        let (x, y) = (decode("x", jwk.x)?, decode("y", jwk.y)?);
        // RFC 7518 section 6.2.1.2: each coordinate has the full width, so that two texts cannot be split
        // elsewhere.
        if x.len() != curve.coordinate_bytes() || y.len() != curve.coordinate_bytes() {
            return Err(KeyError::Point(KeyKind::Ec(curve)));
        }
        Self::from_point(curve, &[&[UNCOMPRESSED], x.as_slice(), y.as_slice()].concat())
    }

    /// Returns the kind of the key, which decides the algorithms that it can verify.
    pub fn kind(&self) -> KeyKind {
        match &self.0 {
            Parts::Rsa { .. } => KeyKind::Rsa,
            Parts::Ec(curve, _) => KeyKind::Ec(*curve),
            Parts::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// Verifies the signature of a message.
    ///
    /// # Errors
    /// `KeyKind` if the algorithm needs another kind of key. `Mismatch` if the signature does not hold.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
        let result = match (&self.0, algorithm) {
            (Parts::Rsa { n, e }, Algorithm::RsaPkcs1(digest)) => {
                RsaPublicKeyComponents { n, e }.verify(digest.rsa_pkcs1(), message, signature)
            }
            (Parts::Rsa { n, e }, Algorithm::RsaPss(digest)) => {
                RsaPublicKeyComponents { n, e }.verify(digest.rsa_pss(), message, signature)
            }
            (Parts::Ec(curve, point), Algorithm::Ecdsa(needed, form)) if *curve == needed => {
                UnparsedPublicKey::new(curve.ecdsa(form), point).verify(message, signature)
            }
            (Parts::Ed25519(key), Algorithm::Ed25519) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return Err(VerifyError::KeyKind { key: self.kind(), needed: algorithm.key_kind() }),
        };
        result.map_err(|_| VerifyError::Mismatch)
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PublicKey").field(&self.kind()).finish()
    }
}

fn decode(name: &'static str, text: Option<&str>) -> Result<Vec<u8>, KeyError> {
    let text = text.ok_or(KeyError::Member(name))?;
    BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError::Base64(name))
}

fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Number of bits of a number without leading zeros.
fn bits(number: &[u8]) -> usize {
    let first = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    number.len() * 8 - first
}

const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;
/// An exponent below 2^33 has at most five bytes.
const EXPONENT_BYTES_MAX: usize = 5;
const ED25519_BYTES: usize = 32;
const UNCOMPRESSED: u8 = 4;

#[cfg(test)]
mod tests;
