//! Public keys in DER: SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7, RFC 8410) and certificates.

use x509_cert::Certificate;
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::spki::SubjectPublicKeyInfoRef;

use crate::algorithm::Curve;
use crate::key::{KeyError, PublicKey};

/// Reads the key of a SubjectPublicKeyInfo.
pub(crate) fn key(der: &[u8]) -> Result<PublicKey, KeyError> {
    let invalid = |_| KeyError::Der("public key");
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(invalid)?;
    let bytes = info.subject_public_key.as_bytes().ok_or(KeyError::Der("public key"))?;
    match info.algorithm.oid {
        RSA => {
            let (n, e) = rsa_numbers(bytes).map_err(invalid)?;
            PublicKey::from_rsa(n.as_bytes(), e.as_bytes())
        }
        ED25519 => PublicKey::from_ed25519(bytes),
        EC => match info.algorithm.parameters_oid() {
            Ok(P256) => PublicKey::from_point(Curve::P256, bytes),
            Ok(P384) => PublicKey::from_point(Curve::P384, bytes),
            Ok(curve) => Err(KeyError::Algorithm(curve.to_string())),
            Err(_) => Err(KeyError::Der("public key")),
        },
        other => Err(KeyError::Algorithm(other.to_string())),
    }
}

/// Reads the key of a certificate.
pub(crate) fn key_of_certificate(der: &[u8]) -> Result<PublicKey, KeyError> {
    let invalid = |_| KeyError::Der("certificate");
    let certificate = Certificate::from_der(der).map_err(invalid)?;
    let info = certificate.tbs_certificate.subject_public_key_info.to_der().map_err(invalid)?;
    key(&info)
}

/// Reads an RSAPublicKey (RFC 8017 appendix A.1.1): a sequence of modulus and exponent.
fn rsa_numbers(der: &[u8]) -> x509_cert::der::Result<(UintRef<'_>, UintRef<'_>)> {
    let mut reader = SliceReader::new(der)?;
    let numbers = reader.sequence(|reader| Ok((reader.decode()?, reader.decode()?)))?;
    reader.finish(numbers)
}

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
