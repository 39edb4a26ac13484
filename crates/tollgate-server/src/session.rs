//! Facts of a TLS session, for scripts, records and routes.

use std::rc::Rc;

use rustls::{ProtocolVersion, ServerConnection};
use tollgate_script::{ClientCertificate, TlsSession};
use tollgate_tls::{CertificateFacts, NotX509};

const MICROSECONDS: u64 = 1_000_000;

/// Returns the facts of a session after its handshake.
///
/// # Errors
/// The certificate of the client breaks a rule of RFC 5280 that its verification does not check.
pub(crate) fn facts_of(session: &ServerConnection) -> Result<Rc<TlsSession>, NotX509> {
    let version = match session.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "1.2",
        _ => "1.3",
    };
    let cipher = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    Ok(Rc::new(TlsSession {
        version: version.into(),
        // rustls has names of its own for the suites of TLS 1.3.
        cipher: cipher.unwrap_or_default().replacen("TLS13_", "TLS_", 1).into(),
        server_name: session.server_name().map(Into::into),
        client: certificate.map(CertificateFacts::of).transpose()?.map(client_of),
    }))
}

/// Returns whether the certificate of the client has expired. The handshake verifies the time, and a resumed
/// session keeps the certificate of the session before.
pub(crate) fn is_client_expired(session: &TlsSession, now_us: i64) -> bool {
    session.client.as_ref().is_some_and(|client| client.not_after_us < now_us)
}

fn client_of(facts: CertificateFacts) -> ClientCertificate {
    let CertificateFacts { subject, issuer, serial, names, not_before: _, not_after, fingerprint } = facts;
    let not_after_us = i64::try_from(not_after.saturating_mul(MICROSECONDS)).unwrap_or(i64::MAX);
    ClientCertificate { subject, issuer, serial, names, fingerprint, not_after_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_of_a_client_expires_after_its_last_moment() {
        let certificate = ClientCertificate { not_after_us: 10, ..ClientCertificate::default() };
        let session = TlsSession { client: Some(certificate), ..TlsSession::default() };
        assert_eq!([9, 10, 11].map(|now_us| is_client_expired(&session, now_us)), [false, false, true]);
        assert!(!is_client_expired(&TlsSession::default(), i64::MAX));
    }
}
