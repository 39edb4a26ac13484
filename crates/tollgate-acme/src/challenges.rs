//! The answers to challenges: a file for HTTP, which the caller serves, a certificate for TLS, and a record
//! for DNS.
//!
//! A machine that shares the folder answers too, because the ACME server may reach any of them. The file for
//! HTTP is read for each request. Answers by TLS are read into memory once a second.

use std::time::Duration;

use instant_acme::{ChallengeHandle, ChallengeType};
use ring::digest::{SHA256, digest};
use tollgate_tls::set_validations;

use crate::dns::Dns;
use crate::error::AcmeError;
use crate::folder::StateFolder;
use crate::options::ChallengeKind;
use crate::record::DnsRecord;
use crate::selfmade::validation;

/// Time after which each machine that shares the folder has read an answer by TLS.
const SPREAD_TIME: Duration = Duration::from_millis(1500);

impl ChallengeKind {
    pub(crate) fn kind(self) -> ChallengeType {
        match self {
            Self::Http01 => ChallengeType::Http01,
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
            Self::Dns01 => ChallengeType::Dns01,
        }
    }

    /// Returns the name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }
}

/// An answer that is served until it is removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A file.
    File { token: String, answer: String },
    /// A certificate.
    Certificate { name: String, answer: String },
    /// A record of the DNS.
    Record(DnsRecord),
}

impl Answer {
    /// Returns the answer to a challenge. Nothing is served yet.
    pub(crate) fn new(
        kind: ChallengeKind,
        name: &str,
        challenge: &ChallengeHandle<'_>,
    ) -> Result<Self, AcmeError> {
        let answer = challenge.key_authorization().as_str().to_owned();
        let (token, is_plain) = (challenge.token.clone(), |byte: u8| byte.is_ascii_alphanumeric());
        Ok(match kind {
            ChallengeKind::Http01
                if token.is_empty() || !token.bytes().all(|byte| is_plain(byte) || b"-_".contains(&byte)) =>
            {
                let text = "a token that is no base64url (RFC 8555 section 8.3)";
                return Err(AcmeError::Refused(text.to_owned()));
            }
            ChallengeKind::Http01 => Self::File { token, answer },
            ChallengeKind::TlsAlpn01 => Self::Certificate { name: name.to_owned(), answer },
            ChallengeKind::Dns01 => Self::Record(DnsRecord::of(name, challenge)),
        })
    }

    /// Serves the answer. Returns when all machines that share the folder serve it, or when `dns_wait` after
    /// the set of the record is over.
    ///
    /// # Errors
    /// The answer may be served nevertheless, so the caller removes it.
    pub(crate) async fn serve(
        &self,
        folder: &StateFolder,
        dns: &Dns,
        dns_wait: Duration,
    ) -> Result<(), AcmeError> {
        match self {
            Self::File { token, answer } => folder.write_token(token, answer)?,
            Self::Certificate { name, answer } => {
                folder.write_alpn(name, answer)?;
                serve_validations(&folder.alpn());
                tokio::time::sleep(SPREAD_TIME).await;
            }
            Self::Record(record) => {
                dns.set(folder, record).await?;
                tracing::info!(record = record.name, wait_s = dns_wait.as_secs(), "the record is set");
                tokio::time::sleep(dns_wait).await;
            }
        }
        Ok(())
    }

    /// Removes the answer. A file that cannot be removed does no harm. A record that cannot be removed is
    /// removed later.
    pub(crate) async fn remove(&self, folder: &StateFolder, dns: &Dns) {
        let removed = match self {
            Self::File { token, .. } => folder.remove_token(token),
            Self::Certificate { name, .. } => folder.remove_alpn(name),
            Self::Record(record) => dns.remove(folder, record).await,
        };
        if let Err(error) = removed {
            tracing::warn!("the answer to a challenge cannot be removed: {error}");
        }
    }
}

/// The answers by TLS that are served now.
#[derive(Default)]
pub(crate) struct ServedValidations(Vec<(String, String)>);

impl ServedValidations {
    /// Reads the answers of all machines that share the folder.
    pub(crate) fn refresh(&mut self, folder: &StateFolder) {
        let found = folder.alpn();
        if found != self.0 {
            serve_validations(&found);
            self.0 = found;
        }
    }
}

fn serve_validations(answers: &[(String, String)]) {
    let made = answers.iter().filter_map(|(name, answer)| {
        let made = validation(name, digest(&SHA256, answer.as_bytes()).as_ref());
        Some((name.clone(), made.inspect_err(|error| tracing::warn!(name, "{error}")).ok()?))
    });
    set_validations(made.collect());
}
