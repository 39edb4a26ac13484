//! An authority for development, and its certificates: HTTPS on `localhost` without a public name.
//!
//! The key of the authority never leaves its folder. A browser that trusts the authority trusts each
//! certificate that this key signs, so the key has the permissions 0600.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use crate::error::AcmeError;
use crate::facts::has_name;
use crate::folder::{StateFolder, replace};
use crate::selfmade::failed;

const AUTHORITY: &str = "Tollgate development authority";
const DAY: u64 = 24 * 60 * 60;
/// Validity of the authority.
const AUTHORITY_LIFE: u64 = 3650 * DAY;
/// Validity of a certificate. Some clients refuse more than 398 days.
const LIFE: u64 = 397 * DAY;
/// A certificate is made again if less than this is left.
const LEFT_MIN: u64 = 30 * DAY;
/// Time that the clock of a client may be behind.
const CLOCK_SKEW: u64 = DAY;

/// The authority for development, in a folder.
#[derive(Debug)]
pub struct LocalAuthority {
    folder: PathBuf,
    now: u64,
}

/// The files of a certificate for development.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCertificate {
    /// The certificate of the authority, for clients.
    pub authority: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl LocalAuthority {
    /// Names the folder, and the time in seconds since 1970. Nothing is written yet.
    pub fn new(folder: &Path, now: u64) -> Self {
        Self { folder: folder.to_owned(), now }
    }

    /// Returns a certificate for these names and addresses. Makes the authority and the certificate if they
    /// are not there, and the certificate again if it lacks a name or ends soon.
    ///
    /// # Errors
    /// A file cannot be read or written, or a name is invalid.
    pub fn certificate(&self, names: &[String]) -> Result<LocalCertificate, AcmeError> {
        StateFolder::new(&self.folder).create()?;
        let files = LocalCertificate {
            authority: self.folder.join("local-ca.pem"),
            certificate: self.folder.join("local.pem"),
            key: self.folder.join("local-key.pem"),
        };
        let authority = self.authority(&files.authority)?;
        if self.is_current(&files, names) {
            return Ok(files);
        }
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
        params.distinguished_name = named(names.first().map_or("localhost", |name| name));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        self.set_validity(&mut params, LIFE);
        let certificate = params.signed_by(&key, &authority).map_err(failed)?;
        self.write(&files.key, &key.serialize_pem())?;
        self.write(&files.certificate, &certificate.pem())?;
        Ok(files)
    }

    /// Reads the authority, or makes it.
    fn authority(&self, file: &Path) -> Result<Issuer<'static, KeyPair>, AcmeError> {
        let key_file = self.folder.join("local-ca-key.pem");
        let mut params = CertificateParams::default();
        params.distinguished_name = named(AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        self.set_validity(&mut params, AUTHORITY_LIFE);
        let (key, is_new) = match fs::read_to_string(&key_file) {
            Ok(text) => {
                let key = KeyPair::from_pem(&text).map_err(|_| {
                    AcmeError::Certificate(format!("{} is no private key", key_file.display()))
                })?;
                (key, false)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = KeyPair::generate().map_err(failed)?;
                self.write(&key_file, &key.serialize_pem())?;
                (key, true)
            }
            Err(error) => return Err(AcmeError::folder(&key_file, error)),
        };
        // The certificate of a lost key would verify nothing.
        if is_new || !file.exists() {
            self.write(file, &params.self_signed(&key).map_err(failed)?.pem())?;
        }
        Ok(Issuer::new(params, key))
    }

    /// Returns whether the present certificate has all names and does not end soon.
    fn is_current(&self, files: &LocalCertificate, names: &[String]) -> bool {
        let pair =
            tollgate_tls::CertificateFiles { certificate: files.certificate.clone(), key: files.key.clone() };
        let found = tollgate_tls::Certificate::read(&pair).ok();
        found.is_some_and(|found| {
            let facts = found.facts();
            facts.not_after > self.now + LEFT_MIN && names.iter().all(|name| has_name(facts, name))
        })
    }

    fn set_validity(&self, params: &mut CertificateParams, life: u64) {
        let begin = date_time_ymd(1970, 1, 1);
        params.not_before = begin + Duration::from_secs(self.now.saturating_sub(CLOCK_SKEW));
        params.not_after = begin + Duration::from_secs(self.now + life - CLOCK_SKEW);
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), AcmeError> {
        replace(path, text.as_bytes()).map_err(|error| AcmeError::folder(path, error))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

#[cfg(test)]
mod tests;
