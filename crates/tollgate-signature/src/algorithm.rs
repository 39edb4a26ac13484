//! The algorithms of signatures by public keys, and the kind of key that each of them needs.

use std::fmt;

use ring::signature::{self, EcdsaVerificationAlgorithm, RsaParameters};

/// An algorithm that verifies a signature by a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 (RFC 8017 section 8.2).
    RsaPkcs1(Sha2),
    /// RSASSA-PSS (RFC 8017 section 8.1). The salt has the length of the digest, and MGF1 uses the same
    /// digest.
    RsaPss(Sha2),
    /// ECDSA with the digest of the curve: SHA-256 for P-256, SHA-384 for P-384.
    Ecdsa(Curve, Form),
    /// Ed25519 (RFC 8032 section 5.1).
    Ed25519,
}

/// The digest of an RSA signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sha2 {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// An elliptic curve of NIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// P-256, which is prime256v1 and secp256r1.
    P256,
    /// P-384, which is secp384r1.
    P384,
}

/// How an ECDSA signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A DER sequence of both numbers (RFC 3279 section 2.2.3), as X.509 and OpenSSL use it.
    Der,
    /// Both numbers in fixed width, one after the other (RFC 7518 section 3.4), as JWS uses it.
    Fixed,
}

/// The kind of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// An RSA key.
    Rsa,
    /// A key on an elliptic curve.
    Ec(Curve),
    /// An Ed25519 key.
    Ed25519,
}

impl Algorithm {
    /// Returns the kind of key that verifies signatures of this algorithm.
    pub fn key_kind(self) -> KeyKind {
        match self {
            Self::RsaPkcs1(_) | Self::RsaPss(_) => KeyKind::Rsa,
            Self::Ecdsa(curve, _) => KeyKind::Ec(curve),
            Self::Ed25519 => KeyKind::Ed25519,
        }
    }
}

impl Curve {
    /// Number of bytes of one coordinate.
    pub(crate) fn coordinate_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }

    pub(crate) fn ecdsa(self, form: Form) -> &'static EcdsaVerificationAlgorithm {
        match (self, form) {
            (Self::P256, Form::Der) => &signature::ECDSA_P256_SHA256_ASN1,
            (Self::P256, Form::Fixed) => &signature::ECDSA_P256_SHA256_FIXED,
            (Self::P384, Form::Der) => &signature::ECDSA_P384_SHA384_ASN1,
            (Self::P384, Form::Fixed) => &signature::ECDSA_P384_SHA384_FIXED,
        }
    }
}

impl Sha2 {
    pub(crate) fn rsa_pkcs1(self) -> &'static RsaParameters {
        match self {
            Self::Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        }
    }

    pub(crate) fn rsa_pss(self) -> &'static RsaParameters {
        match self {
            Self::Sha256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Sha384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Sha512 => &signature::RSA_PSS_2048_8192_SHA512,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa => "RSA",
            Self::Ec(Curve::P256) => "P-256",
            Self::Ec(Curve::P384) => "P-384",
            Self::Ed25519 => "Ed25519",
        })
    }
}
