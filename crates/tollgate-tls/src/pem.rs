//! Certificates and keys in PEM files (RFC 7468).

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use webpki::BorrowedCertRevocationList;

/// Maximum bytes of a file. The authorities of any system have far fewer bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reason why a file cannot be used. The error never contains any content of the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct PemError {
    path: PathBuf,
    reason: String,
}

impl PemError {
    pub(crate) fn new(path: &Path, reason: &dyn fmt::Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Reads all certificates of a file, in the order of the file. There is at least one.
///
/// # Errors
/// The file has no certificate, or not all of them can be read.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| PemError::new(path, &"it has a certificate that is not valid PEM"))?;
    match found.is_empty() {
        true => Err(PemError::new(path, &"it has no certificate in PEM")),
        false => Ok(found),
    }
}

/// Reads all lists of revoked certificates of a file. There is at least one.
///
/// # Errors
/// The file has no list, or not all of them can be read.
pub(crate) fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, PemError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|_| PemError::new(path, &"it has a revocation list that is not valid PEM"))?;
    if found.is_empty() {
        return Err(PemError::new(path, &"it has no revocation list (X509 CRL) in PEM"));
    }
    for list in &found {
        BorrowedCertRevocationList::from_der(list).map_err(|error| {
            PemError::new(path, &format!("it has a revocation list that cannot be used: {error}"))
        })?;
    }
    Ok(found)
}

/// Reads the first private key of a file: PKCS#8, PKCS#1 or SEC1, without a passphrase.
///
/// # Errors
/// The file has no private key.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let text = read(path)?;
    // The cause is not reported, because it may contain parts of the key.
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| PemError::new(path, &"it has no private key in PEM without a passphrase"))
}

/// Reads a regular file, and refuses any other kind, because reading a pipe could block the start forever.
fn read(path: &Path) -> Result<Vec<u8>, PemError> {
    let about = fs::metadata(path).map_err(|error| PemError::new(path, &error))?;
    if !about.is_file() {
        return Err(PemError::new(path, &"it is not a file"));
    }
    if about.len() > FILE_BYTES_MAX {
        let reason = format!("it has {} bytes, limit {FILE_BYTES_MAX} bytes", about.len());
        return Err(PemError::new(path, &reason));
    }
    fs::read(path).map_err(|error| PemError::new(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_what_it_should_hold_is_named_and_its_content_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pem");
        let secret = "-----BEGIN PRIVATE KEY-----\nsesame!\n-----END PRIVATE KEY-----\n";
        let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VzYW1l\n-----END ENCRYPTED PRIVATE KEY-----\n";
        for text in ["", "sesame", secret, locked, "-----BEGIN CERTIFICATE-----\nsesame"] {
            fs::write(&file, text).unwrap();
            let name = file.display().to_string();
            let key = private_key(&file).unwrap_err().to_string();
            assert_eq!(key, format!("{name}: it has no private key in PEM without a passphrase"));
            let certificate = certificates(&file).unwrap_err().to_string();
            assert!(certificate.starts_with(&name) && !certificate.contains("sesame"), "{certificate}");
            let untrusted = crate::Verifier::new(Some(&file), crate::Trust::Host).unwrap_err().to_string();
            assert!(untrusted.starts_with(&name), "{untrusted}");
        }
        let missing = certificates(&folder.path().join("b.pem")).unwrap_err().to_string();
        assert!(missing.contains("b.pem: No such file"), "{missing}");
        let folder = private_key(folder.path()).unwrap_err().to_string();
        assert!(folder.ends_with("it is not a file"), "{folder}");
    }
}
