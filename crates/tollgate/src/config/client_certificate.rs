//! `client_certificate` of a route: the certificates of clients that it accepts. The value is `true` or a
//! table.

use tollgate_server::ClientCertificateRule;

use super::key::{Facts, inline, keys};
use super::quoted::quoted_list;
use super::section::{Section, SwitchOrTable};

const ALLOWED: &str = "true or a table { san = [...], fingerprint = [...] }";
/// The kinds of alternative names, as they are written before a name.
const KINDS: [&str; 4] = ["dns:", "ip:", "email:", "uri:"];
const NAMES_ALLOWED: &str = r#"a list such as `["dns:a.example", "uri:spiffe://a/b"]`"#;
const FINGERPRINTS_ALLOWED: &str = "a list of SHA-256 digests, 64 hexadecimal digits";
const FINGERPRINT_DIGITS: usize = 64;

keys! {
    pub(super) KEYS of ClientCertificateRule;
    /// Alternative names (SAN). A certificate with one of them is accepted.
    san [SAN] = other("`[]`", NAMES_ALLOWED);
    /// Digests of whole certificates. A certificate with one of them is accepted.
    fingerprint [FINGERPRINT] = other("`[]`", FINGERPRINTS_ALLOWED);
}

/// Takes the rule of a route, if `client_certificate` is set.
pub(super) fn client_certificate(section: &mut Section<'_>, key: &Facts) -> Option<ClientCertificateRule> {
    match section.switch_or_table(key.name, ALLOWED)? {
        SwitchOrTable::Switch(any) => {
            if !any.value {
                let text =
                    "client_certificate in [[route]] is false, allowed is true: remove the key instead";
                section.fault_at(&any.span, text);
            }
            any.value.then(ClientCertificateRule::default)
        }
        SwitchOrTable::Table(table) => Some(rule(table)),
    }
}

fn rule(mut section: Section<'_>) -> ClientCertificateRule {
    let mut rule = ClientCertificateRule::default();
    let [names, digests] = [&SAN, &FINGERPRINT].map(|key| section.texts(key.name).unwrap_or_default());
    if names.is_empty() && digests.is_empty() {
        section.fault("client_certificate has neither san nor fingerprint: write true for any certificate");
    }
    for name in names {
        let Some(kind) = KINDS.iter().find(|kind| name.value.starts_with(**kind)) else {
            let text =
                format!("san has {:?}, allowed is a name after its kind: {}", name.value, KINDS.join(", "));
            section.fault_at(&name.span, text);
            continue;
        };
        let is_host = *kind == "dns:";
        rule.names.push(if is_host { name.value.to_ascii_lowercase() } else { name.value });
    }
    for digest in digests {
        // openssl writes digests in upper case with colons.
        let digits = digest.value.replace(':', "").to_ascii_lowercase();
        if digits.len() != FINGERPRINT_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let text = format!(
                "fingerprint has {:?}, allowed are the 64 hexadecimal digits of \"openssl x509 -fingerprint \
                 -sha256\"",
                digest.value
            );
            section.fault_at(&digest.span, text);
        }
        rule.fingerprints.push(digits);
    }
    section.finish();
    rule
}

/// Shows the rule as the file writes it.
pub(super) fn show(rule: &ClientCertificateRule) -> String {
    if *rule == ClientCertificateRule::default() {
        return true.to_string();
    }
    let list = |texts: &[String]| (!texts.is_empty()).then(|| quoted_list(texts.iter()));
    inline(KEYS, rule, &[(SAN.name, list(&rule.names)), (FINGERPRINT.name, list(&rule.fingerprints))])
}
