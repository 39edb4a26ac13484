//! TLS by rustls, with the certificate checks of libpq's `sslmode`.

use std::sync::Arc;

use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_tls::{RootsError, Verifier};

use super::options::PostgresUrl;

/// Makes the TLS connector of a connection.
///
/// # Errors
/// The certificates of the authorities cannot be read.
pub(super) fn connector(url: &PostgresUrl) -> Result<MakeRustlsConnect, String> {
    let verifier = Verifier::new(url.root_cert.as_deref(), url.trust).map_err(|error| match error {
        RootsError::File(error) => format!("sslrootcert {error}"),
        RootsError::None => format!("{error}: set sslrootcert"),
        RootsError::Unreadable(_) | RootsError::Version(_) => error.to_string(),
    })?;
    let config = Arc::new(verifier).client().map_err(|error| error.to_string())?;
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}
