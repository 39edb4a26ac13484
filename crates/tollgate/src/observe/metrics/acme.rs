//! The metrics of the certificates that the server orders.

use tollgate_acme::{AcmeStatus, CertificateReport, CertificateState};
use tollgate_meter::{Exposition, Kind};

/// Adds the metrics. All are 0 if the server orders no certificate.
pub(super) fn expose(out: &mut Exposition, acme: Option<&AcmeStatus>) {
    let none = AcmeStatus::default();
    let acme = acme.unwrap_or(&none);
    let text = "Orders of certificates by ACME, by their result.";
    out.family("tollgate_acme_orders_total", Kind::Counter, text)
        .count(&[("result", "issued")], acme.issued)
        .count(&[("result", "failed")], acme.failed);
    let count = |is_one: fn(&CertificateReport) -> bool| {
        acme.certificates.iter().filter(|certificate| is_one(certificate)).count() as u64
    };
    let text = "Names that have a self-signed certificate, because no order was done yet.";
    out.family("tollgate_acme_self_signed_certificates", Kind::Gauge, text)
        .count(&[], count(|certificate| certificate.state == CertificateState::SelfSigned));
    let text = "Names whose last order failed.";
    out.family("tollgate_acme_failing_certificates", Kind::Gauge, text)
        .count(&[], count(|certificate| certificate.reason.is_some()));
}
