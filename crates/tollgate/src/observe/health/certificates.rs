//! The troubles of certificates. All are warnings: the certificates before are still served.

use jiff::Timestamp;

use super::code::Code;
use crate::certificates::Certificates;

/// Maximum number of certificates of one kind of trouble that are listed.
const SHOWN: usize = 5;

/// Returns the troubles of all certificates, each with its text.
pub(super) fn troubles_of(certificates: &Certificates, now: Timestamp) -> Vec<(Code, String)> {
    let due: Vec<_> = certificates.served.iter().filter_map(|served| served.due(now)).collect();
    let unusable = shown(&certificates.faults).into_iter().map(|text| (Code::CertificateUnusable, text));
    unusable.chain(shown(&due).into_iter().map(|text| (Code::CertificateExpires, text))).collect()
}

/// Returns the first texts, and the number of the others.
fn shown(texts: &[String]) -> Vec<String> {
    let more = texts.len().saturating_sub(SHOWN);
    let mut shown: Vec<_> = texts.iter().take(SHOWN).cloned().collect();
    if more > 0 {
        shown.push(format!("{more} more certificates: `tollgate check` lists all"));
    }
    shown
}
