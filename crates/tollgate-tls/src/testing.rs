//! Certificates and handshakes for tests.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    date_time_ymd,
};
use rustls::client::WantsClientCert;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, Error, ServerConfig, ServerConnection};

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
    Arc::new(trusting().with_no_client_auth())
}

/// Returns the same configuration with a certificate of the client.
pub(crate) fn client_with((certificate, key): &(Certificate, KeyPair)) -> Arc<ClientConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    Arc::new(trusting().with_client_auth_cert(vec![certificate.der().clone()], key).unwrap())
}

fn trusting() -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let verifier = Verifier::new(None, Trust::Anybody).unwrap();
    ClientConfig::builder_with_details(provider(), clock())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
}

/// An authority that issues certificates of clients.
pub(crate) struct ClientAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl ClientAuthority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Returns the certificate of the authority.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate with this serial number.
    pub(crate) fn issue(&self, name: &str, serial: u64) -> (Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = Some(serial.into());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Returns a list that revokes these serial numbers.
    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2026, 1, 2),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
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
