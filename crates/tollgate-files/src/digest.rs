//! One digest, and its form in a field (RFC 9530).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use sha2::{Digest, Sha256, Sha512};
use tollgate_http::DigestAlgorithm;

/// Maximum length of content that is digested. The digest of longer content would delay a request for
/// seconds.
pub(crate) const DIGESTED_BYTES_MAX: u64 = 256 << 20;

pub(crate) const REPR_DIGEST: &str = "Repr-Digest";
pub(crate) const CONTENT_DIGEST: &str = "Content-Digest";

/// Returns a dictionary with one member (RFC 9530 section 2).
pub(crate) fn field_value(algorithm: DigestAlgorithm, digest: &[u8]) -> String {
    format!("{}=:{}:", algorithm.name(), BASE64_STANDARD.encode(digest))
}

pub(crate) fn digest_of(algorithm: DigestAlgorithm, content: &[u8]) -> Bytes {
    match algorithm {
        DigestAlgorithm::Sha256 => Sha256::digest(content).to_vec().into(),
        DigestAlgorithm::Sha512 => Sha512::digest(content).to_vec().into(),
    }
}
