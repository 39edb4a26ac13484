//! The client of TLS for tests: whom it trusts, and the content of what it receives.

use std::io::{self, Read};
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, SupportedProtocolVersion};
use tollgate_tls::{Trust, Verifier};

use crate::terminator::Authority;

pub(crate) type Versions = [&'static SupportedProtocolVersion];

/// Begins the configuration of a client that trusts only `authority`.
pub(crate) fn trusting(
    authority: &Authority,
    versions: &Versions,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let verifier = Verifier::new(Some(&authority.path("ca.pem")), Trust::Host).unwrap();
    ClientConfig::builder_with_provider(tollgate_tls::provider())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
}

/// Passes bytes of the server to a session, and appends their content to `content`.
pub(crate) fn receive(
    session: &mut ClientConnection,
    mut bytes: &[u8],
    content: &mut Vec<u8>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        session.read_tls(&mut bytes)?;
        let state = session.process_new_packets().map_err(io::Error::other)?;
        let before = content.len();
        content.resize(before + state.plaintext_bytes_to_read(), 0);
        session.reader().read_exact(&mut content[before..])?;
    }
    Ok(())
}
