//! The client of TLS for tests, and whom it trusts.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, SupportedProtocolVersion};
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
