//! A TXT record that answers a challenge by DNS (RFC 8555 section 8.4).

use instant_acme::ChallengeHandle;
use serde::{Deserialize, Serialize};

/// The label of records of challenges, before the name that is checked.
const LABEL: &str = "_acme-challenge";

/// A TXT record that answers a challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DnsRecord {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl DnsRecord {
    /// Returns the record for a challenge. A wildcard is checked at the name below which it matches.
    pub(crate) fn of(domain: &str, challenge: &ChallengeHandle<'_>) -> Self {
        let domain = domain.strip_prefix("*.").unwrap_or(domain);
        Self { name: format!("{LABEL}.{domain}"), value: challenge.key_authorization().dns_value() }
    }
}
