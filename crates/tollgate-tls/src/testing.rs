//! Certificates for tests.

use std::fs;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair};

use crate::CertificateFiles;

/// Writes a self-signed certificate for these names, and returns its files.
pub(crate) fn certificate(folder: &Path, file: &str, names: &[&str]) -> CertificateFiles {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let files = CertificateFiles {
        certificate: folder.join(format!("{file}.pem")),
        key: folder.join(format!("{file}-key.pem")),
    };
    fs::write(&files.certificate, certificate.pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}
