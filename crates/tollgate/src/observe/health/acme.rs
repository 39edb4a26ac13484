//! Faults of the certificates that the server orders.

use tollgate_acme::{AcmeStatus, CertificateReport, CertificateState};

use super::code::Code;
use crate::wall::rfc3339;

/// Returns the faults, each with a text.
pub(super) fn troubles_of(status: &AcmeStatus) -> Vec<(Code, String)> {
    let folder = status.folder_fault.as_ref();
    let folder = folder.map(|fault| {
        (Code::CertificateOrderFailed, format!("dir in [acme] cannot be used, so no order is done: {fault}"))
    });
    let record = status.record_fault.as_ref();
    let record = record.map(|fault| (Code::DnsRecordLeft, format!("an old record stays: {fault}")));
    folder.into_iter().chain(record).chain(status.certificates.iter().filter_map(trouble_of)).collect()
}

fn trouble_of(certificate: &CertificateReport) -> Option<(Code, String)> {
    let CertificateReport { name, state, failures, .. } = certificate;
    let is_self_signed = *state == CertificateState::SelfSigned;
    let Some(reason) = &certificate.reason else {
        let text = format!("{name} has a self-signed certificate: the first order runs");
        return is_self_signed.then_some((Code::CertificateSelfSigned, text));
    };
    let next = rfc3339(certificate.next_order);
    let tail = format!("order {failures} failed, the next one is at {next}: {reason}");
    Some(if is_self_signed {
        (Code::CertificateSelfSigned, format!("{name} has a self-signed certificate: {tail}"))
    } else {
        (Code::CertificateOrderFailed, format!("the certificate of {name} is not renewed: {tail}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: CertificateState, reason: Option<&str>) -> AcmeStatus {
        let certificate = CertificateReport {
            name: "a.test".to_owned(),
            state,
            facts: None,
            next_order: 60,
            failures: 2,
            reason: reason.map(str::to_owned),
            is_requested: false,
        };
        AcmeStatus { certificates: vec![certificate], ..AcmeStatus::default() }
    }

    #[test]
    fn a_trouble_names_the_reason_of_the_server_and_the_next_order() {
        use CertificateState::{Expired, SelfSigned, Valid};
        let check = |status: AcmeStatus, expect: Option<(Code, &str)>| {
            let found = troubles_of(&status);
            let found = found.first().map(|(trouble, text)| (*trouble, text.as_str()));
            assert_eq!(found, expect);
        };
        check(report(Valid, None), None);
        let text = "a.test has a self-signed certificate: the first order runs";
        check(report(SelfSigned, None), Some((Code::CertificateSelfSigned, text)));
        let text = "a.test has a self-signed certificate: order 2 failed, the next one is at \
                    1970-01-01T00:01:00Z: no";
        check(report(SelfSigned, Some("no")), Some((Code::CertificateSelfSigned, text)));
        let text = "the certificate of a.test is not renewed: order 2 failed, the next one is at \
                    1970-01-01T00:01:00Z: no";
        for state in [Valid, Expired] {
            check(report(state, Some("no")), Some((Code::CertificateOrderFailed, text)));
        }
        let fault = AcmeStatus { folder_fault: Some("read-only".to_owned()), ..AcmeStatus::default() };
        let text = "dir in [acme] cannot be used, so no order is done: read-only";
        check(fault, Some((Code::CertificateOrderFailed, text)));
        let fault = AcmeStatus { record_fault: Some("429".to_owned()), ..AcmeStatus::default() };
        check(fault, Some((Code::DnsRecordLeft, "an old record stays: 429")));
    }
}
