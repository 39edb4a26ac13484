//! The findings of backends, and of the keys of tokens that backends publish.

use tollgate_server::{BackendSnapshot, TokenKeysStatus};

use super::code::Code;
use super::finding::Health;

/// Maximum number of addresses and names of a backend in a finding.
const TROUBLES_SHOWN: usize = 5;

pub(super) fn look_at_backend(health: &mut Health, backend: &BackendSnapshot) {
    let name = &backend.name;
    if backend.addresses.is_empty() {
        let text = format!("backend {name} has no address: no name in its urls was found");
        return health.add(Code::BackendUnresolved, text);
    }
    if backend.breaker.is_failing() {
        let text = format!("the breaker of backend {name} is {}", backend.breaker.name());
        return health.add(Code::BackendDown, text);
    }
    let failing = backend.addresses.iter().filter(|address| address.state().is_failing());
    let failing = failing.map(|address| format!("{} is {}", address.address, address.state().name()));
    let missing = backend.missing_names.iter().map(|name| format!("name {name} is not found"));
    let troubles: Vec<_> = failing.chain(missing).collect();
    if !troubles.is_empty() {
        let shown = troubles[..troubles.len().min(TROUBLES_SHOWN)].join(", ");
        let more = troubles.len().saturating_sub(TROUBLES_SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        health.add(Code::BackendImpaired, format!("backend {name}: {shown}{more}"));
    }
}

/// Reports keys of tokens that a backend does not publish now. A start begins without keys, so that a first
/// fetch which has not failed is no finding.
pub(super) fn look_at_token_keys(health: &mut Health, keys: &TokenKeysStatus) {
    let Some((reason, since)) = &keys.trouble else { return };
    let (section, backend, seconds) = (&keys.section, &keys.backend, since.as_secs());
    let text = format!("{section} gets no keys of tokens from backend {backend} for {seconds} s: {reason}");
    health.add(if keys.is_there { Code::TokenKeysOld } else { Code::TokenKeysMissing }, text);
}
