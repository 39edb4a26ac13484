//! `hsts` in `[tls]`: the policy by which browsers use only HTTPS for a host.

use tollgate_server::Hsts;

use super::key::{Facts, inline, keys};
use super::section::{Section, TextOrTable};
use super::units::{HOUR_MS, show_duration};

const ALLOWED: &str = "a table { max_age = \"8760h\", ... }";
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;

keys! {
    pub(super) KEYS of Hsts;
    /// How long a browser remembers the policy, in whole seconds. `"0s"`: it forgets the policy.
    max_age [MAX_AGE] = duration(YEAR_MS, 0..=10 * YEAR_MS) => max_age;
    /// Whether the policy covers all names below the host.
    include_subdomains = switch(false) => include_subdomains;
    /// Whether browsers may ship the policy with their code.
    preload [PRELOAD] = switch(false) => preload;
}

/// Takes the policy, if `hsts` is set.
pub(super) fn hsts(section: &mut Section<'_>, key: &Facts) -> Option<Hsts> {
    match section.text_or_table(key.name, ALLOWED)? {
        TextOrTable::Text(text) => {
            let found = text.value;
            section.fault_at(&text.span, format!("hsts in [tls] is {found:?}, allowed is {ALLOWED}"));
            None
        }
        TextOrTable::Table(table) => Some(policy(table)),
    }
}

fn policy(mut section: Section<'_>) -> Hsts {
    let mut hsts = Hsts::default();
    section.read(KEYS, &mut hsts);
    let shown = show_duration(hsts.max_age);
    if hsts.max_age.subsec_nanos() != 0 {
        section.fault_of(MAX_AGE.name, format!("max_age in hsts is \"{shown}\", allowed are whole seconds"));
    }
    if hsts.preload && !(hsts.include_subdomains && u128::from(YEAR_MS) <= hsts.max_age.as_millis()) {
        let text = "preload in hsts needs include_subdomains = true and a max_age of \"8760h\" or more: the \
                    list of browsers takes no other policy";
        section.fault_of(PRELOAD.name, text);
    }
    section.finish();
    hsts
}

/// Shows the policy as the file writes it, with every key.
pub(super) fn show(hsts: &Hsts) -> String {
    inline(KEYS, hsts, &[])
}
