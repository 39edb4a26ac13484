//! Certificates and handshakes for tests.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection};

use crate::{CertificateFiles, Trust, Verifier, clock, provider};

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

/// Returns the configuration of a client that accepts any certificate.
pub(crate) fn trusting_client() -> Arc<ClientConfig> {
    let verifier = Verifier::new(None, Trust::Anybody).unwrap();
    let config = ClientConfig::builder_with_details(provider(), clock())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Arc::new(config)
}

/// Performs a handshake in memory. Returns the first error of either side.
pub(crate) fn shake(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    name: &'static str,
) -> Result<(ClientConnection, ServerConnection), Error> {
    let mut client = ClientConnection::new(client, ServerName::try_from(name).unwrap())?;
    let mut server = ServerConnection::new(server)?;
    while client.wants_write() || server.wants_write() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut came = &wire[..];
        while !came.is_empty() {
            server.read_tls(&mut came).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut came = &wire[..];
        while !came.is_empty() {
            client.read_tls(&mut came).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok((client, server))
}
