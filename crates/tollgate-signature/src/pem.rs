//! Public keys in PEM (RFC 7468) and in DER.

use rustls_pki_types::pem::{PemObject, SectionKind};

use crate::key::{KeyError, PublicKey};
use crate::spki;

impl PublicKey {
    /// Reads a public key in DER: a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// The structure is not valid, or the key is of a kind that no algorithm here uses.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        spki::key(der)
    }

    /// Reads all public keys of a PEM text: sections `PUBLIC KEY` (SPKI) and `CERTIFICATE`. There is at least
    /// one.
    ///
    /// Only the key of a certificate is read. Its dates, its names and its issuer are not verified.
    ///
    /// # Errors
    /// The text has no key, has a private key, or has a key that no algorithm here uses.
    pub fn all_from_pem(text: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) = section.map_err(|_| KeyError::Pem)?;
            match kind {
                SectionKind::PublicKey => keys.push(spki::key(&der)?),
                SectionKind::Certificate => keys.push(spki::key_of_certificate(&der)?),
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                    return Err(KeyError::Private);
                }
                _ => {}
            }
        }
        if keys.is_empty() { Err(KeyError::Absent) } else { Ok(keys) }
    }
}
