//! The answers to challenges: a file for HTTP, which the caller serves, and a certificate for TLS.
//!
//! A machine that shares the folder answers too, because the ACME server may reach any of them. The file for
//! HTTP is read for each request. Answers by TLS are read into memory once a second.

use std::time::Duration;

use instant_acme::{ChallengeHandle, ChallengeType};
use ring::digest::{SHA256, digest};
use tollgate_tls::set_validations;

use crate::error::AcmeError;
use crate::folder::StateFolder;
use crate::options::ChallengeKind;
use crate::selfmade::validation;

/// Time after which each machine that shares the folder has read an answer by TLS.
const SPREAD_TIME: Duration = Duration::from_millis(1500);

impl ChallengeKind {
    pub(crate) fn kind(self) -> ChallengeType {
        match self {
            Self::Http01 => ChallengeType::Http01,
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
        }
    }

    /// Returns the name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// An answer that is served until it is removed.
pub(crate) enum Answer {
    /// A file, by the token.
    File(String),
    /// A certificate, by the name.
    Certificate(String),
}

impl Answer {
    /// Writes the answer to a challenge. Returns when all machines that share the folder serve it.
    pub(crate) async fn serve(
        folder: &StateFolder,
        kind: ChallengeKind,
        name: &str,
        challenge: &ChallengeHandle<'_>,
    ) -> Result<Self, AcmeError> {
        let answer = challenge.key_authorization();
        match kind {
            ChallengeKind::Http01 => {
                let token = challenge.token.clone();
                if token.is_empty()
                    || !token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                {
                    return Err(AcmeError::Refused(
                        "a token that is no base64url (RFC 8555 section 8.3)".to_owned(),
                    ));
                }
                folder.write_token(&token, answer.as_str())?;
                Ok(Self::File(token))
            }
            ChallengeKind::TlsAlpn01 => {
                folder.write_alpn(name, answer.as_str())?;
                serve_validations(&folder.alpn());
                tokio::time::sleep(SPREAD_TIME).await;
                Ok(Self::Certificate(name.to_owned()))
            }
        }
    }

    /// Removes the answer. An answer that cannot be removed does no harm.
    pub(crate) fn remove(self, folder: &StateFolder) {
        let removed = match &self {
            Self::File(token) => folder.remove_token(token),
            Self::Certificate(name) => folder.remove_alpn(name),
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
