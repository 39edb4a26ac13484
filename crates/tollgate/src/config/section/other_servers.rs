//! Keys that other servers have. Each group of such keys is one fault, with the text to write here.

use toml::de::DeValue;

use super::super::listen::nearest_address;
use super::{KeyAndValue, Section};
use crate::config::fault::Group;

/// The names that other servers give to the file of a certificate.
pub(in crate::config) const CERTIFICATES: &[&str] = &[
    "tls_cert",
    "tls_cert_file",
    "tls_certificate",
    "ssl_cert",
    "ssl_certificate",
    "SSLCertificateFile",
    "cert",
    "cert_file",
    "certfile",
    "certificate",
    "certificate_file",
];
/// The names that other servers give to the file of a private key.
pub(in crate::config) const PRIVATE_KEYS: &[&str] = &[
    "tls_key",
    "tls_key_file",
    "tls_private_key",
    "ssl_key",
    "ssl_certificate_key",
    "SSLCertificateKeyFile",
    "key",
    "key_file",
    "keyfile",
    "private_key",
    "certificate_key",
];
const HOSTS: &[&str] = &["host", "bind", "address", "addr", "ip", "interface"];
const PORTS: &[&str] = &["port", "http_port"];
/// The sections where operators of other servers look for the certificate.
const SECTIONS_OF_CERTIFICATES: [&str; 5] =
    ["the file", "[server]", "[tls]", "[[route]]", "listen of [server]"];
const SECTIONS_OF_ADDRESSES: [&str; 2] = ["the file", "[server]"];

impl<'a> Section<'a> {
    /// Reads the value of `key` under a name that other servers give it, after a fault.
    pub(in crate::config) fn rename(&mut self, key: &'static str, names: &[&str]) {
        if self.has(key) {
            return;
        }
        let Some(place) = self.entries.iter().position(|entry| names.contains(&entry.key)) else { return };
        let entry = &self.entries[place];
        let text =
            format!("unknown key \"{}\" in {}: write {key} = {}", entry.key, self.name, shown(entry.value));
        self.fault_at(&entry.key_span, text);
        self.entries[place].key = key;
    }

    /// Returns the group of an unknown key, and the text to write in its place.
    pub(super) fn of_other_servers(&self, unknown: &KeyAndValue<'a>) -> Option<(Group, String)> {
        let is_one_of = |names: &[&str]| names.contains(&unknown.key);
        let section = self.name.as_str();
        if SECTIONS_OF_CERTIFICATES.contains(&section) && (is_one_of(CERTIFICATES) || is_one_of(PRIVATE_KEYS))
        {
            let [file, key] = [(CERTIFICATES, "\"cert.pem\""), (PRIVATE_KEYS, "\"key.pem\"")]
                .map(|(names, example)| self.value_of(names).map_or_else(|| example.to_owned(), shown));
            let text = format!("write [[certificate]] with file = {file} and key_file = {key}");
            return Some((Group::Certificate, text));
        }
        if SECTIONS_OF_ADDRESSES.contains(&section) && (is_one_of(HOSTS) || is_one_of(PORTS)) {
            return Some((Group::Address, format!("write listen = [\"{}\"] in [server]", self.address())));
        }
        None
    }

    fn address(&self) -> String {
        let [host, port] = [HOSTS, PORTS].map(|names| self.value_of(names).map(plain));
        let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
        let whole = format!("{host}:{}", port.unwrap_or_else(|| "8080".to_owned()));
        [&host, &whole]
            .into_iter()
            .find_map(|text| text.parse().ok().or_else(|| nearest_address(text)))
            .map_or_else(|| "127.0.0.1:8080".to_owned(), |address| address.to_string())
    }

    fn value_of(&self, names: &[&str]) -> Option<&'a DeValue<'a>> {
        let is_unknown = |entry: &&KeyAndValue<'a>| !self.known.contains(&entry.key);
        let mut entries = self.entries.iter().filter(is_unknown);
        entries.find(|entry| names.contains(&entry.key)).map(|entry| entry.value)
    }
}

fn plain(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        _ => String::new(),
    }
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => number.to_string(),
        _ => format!("{:?}", plain(value)),
    }
}
