//! Verification of signatures: RSA, ECDSA and Ed25519 by a public key, HMAC by a shared secret.
//!
//! The key decides the algorithm: a key of another kind refuses an algorithm before any mathematics. This
//! crate signs only with shared secrets. It reads no files, and it knows no clocks and no headers. No error
//! contains any part of a key.

mod algorithm;
mod hex;
mod hmac;
mod key;
mod pem;
mod spki;

pub use algorithm::{Algorithm, Curve, Form, KeyKind, Sha2};
pub use hex::{decode_hex, encode_hex};
pub use hmac::{Hash, Hmac};
pub use key::{Jwk, KeyError, PublicKey, VerifyError};
