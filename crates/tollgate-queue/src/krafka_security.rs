//! TLS and SASL of a connection, by krafka.

use std::fs::File;
use std::path::Path;

use krafka::auth::OAuthBearerToken;
use krafka::error::KrafkaError;

use crate::error::QueueError;
use crate::options::{BrokerOptions, Sasl, Security, Tls};

/// Checks that the files of TLS can be read. The client would name no key of the configuration.
///
/// # Errors
/// `Client` names the key and the file.
pub(crate) fn check_files(options: &BrokerOptions) -> Result<(), QueueError> {
    let Some(tls) = &options.security.tls else { return Ok(()) };
    let ca = tls.ca.as_deref().map(|file| ("tls_ca", file));
    let identity = tls.identity.as_ref();
    let identity = identity
        .map(|(certificate, key)| [("tls_certificate", certificate.as_path()), ("tls_key", key.as_path())]);
    for (key, file) in ca.into_iter().chain(identity.into_iter().flatten()) {
        File::open(file).map_err(|error| QueueError::Client {
            brokers: options.brokers.clone(),
            reason: format!("{key} {} cannot be read: {error}", file.display()),
        })?;
    }
    Ok(())
}

/// Returns the security of a connection. `None`: neither TLS nor credentials.
pub(crate) fn security(security: &Security) -> Option<krafka::auth::AuthConfig> {
    use krafka::auth::AuthConfig;
    let with_sasl = security.sasl.as_ref().map(|sasl| match sasl {
        Sasl::Plain { user, password } => AuthConfig::sasl_plain(user, password),
        Sasl::ScramSha256 { user, password } => AuthConfig::sasl_scram_sha256(user, password),
        Sasl::ScramSha512 { user, password } => AuthConfig::sasl_scram_sha512(user, password),
        Sasl::OauthBearer { token_file } => {
            let file = token_file.clone();
            AuthConfig::sasl_oauthbearer_provider(move || std::future::ready(read_token(&file)))
        }
    });
    match (with_sasl, security.tls.as_ref().map(tls)) {
        (Some(sasl), Some(tls)) => Some(sasl.with_tls(tls)),
        (Some(sasl), None) => Some(sasl),
        (None, Some(tls)) => Some(AuthConfig::ssl(tls)),
        (None, None) => None,
    }
}

/// Reads a bearer token. The file is small and local, so the read does not hold up the runtime.
fn read_token(file: &Path) -> Result<OAuthBearerToken, KrafkaError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        KrafkaError::auth(format!("file {} of the token cannot be read: {error}", file.display()))
    })?;
    Ok(OAuthBearerToken::new(text.trim()))
}

fn tls(tls: &Tls) -> krafka::auth::TlsConfig {
    let config = krafka::auth::TlsConfig::new();
    let config = match &tls.ca {
        Some(ca) => config.with_ca_cert(ca.to_string_lossy()),
        None => config.with_native_roots(),
    };
    match &tls.identity {
        Some((certificate, key)) => {
            config.with_client_cert(certificate.to_string_lossy(), key.to_string_lossy())
        }
        None => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_of_tls_is_named_with_its_key() {
        let mut options = BrokerOptions::new("b:1");
        let missing = || "/missing/file.pem".into();
        let check = |tls: Tls, options: &mut BrokerOptions, expected: &str| {
            options.security.tls = Some(tls);
            let text = check_files(options).unwrap_err().to_string();
            assert!(text.starts_with(expected) && !text.contains("refuses"), "{text}");
        };
        let expected = "client of broker b:1 failed: tls_ca /missing/file.pem cannot be read: ";
        check(Tls { ca: Some(missing()), identity: None }, &mut options, expected);
        let identity = Some((file!().into(), missing()));
        let found = std::env::current_exe().unwrap();
        let identity = identity.map(|(_, key): (std::path::PathBuf, _)| (found, key));
        let expected = "client of broker b:1 failed: tls_key /missing/file.pem cannot be read: ";
        check(Tls { ca: None, identity }, &mut options, expected);
        options.security.tls = Some(Tls::default());
        check_files(&options).unwrap();
    }
}
