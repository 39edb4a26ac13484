//! `[[certificate]]` and `[tls]`: the certificates of addresses with TLS, and the rules of their handshakes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate_server::{
    CertificateFiles, HttpsOptions, ListenSpec, MinVersion, OwnFile, RedirectKind, ServerOptions, ServerTls,
    ServerTlsError, ServerTlsOptions, UnknownName,
};

use super::hsts;
use super::key::{Facts, keys, set_defaults, write};
use super::path::{PathTo, path};
use super::quoted::quoted_path;
use super::section::Section;
use super::units::{SECOND_MS, TIMEOUT_MS};
use super::value::{Named, names};

impl Named for MinVersion {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("1.2", Self::Tls12), ("1.3", Self::Tls13)]
    }
}

impl Named for UnknownName {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("first", Self::First), ("refuse", Self::Refused)]
    }
}

impl Named for RedirectKind {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("permanent", Self::Permanent), ("temporary", Self::Temporary)]
    }
}

/// The values of `[tls]`.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsRules {
    pub(super) min_version: MinVersion,
    pub(super) unknown_name: UnknownName,
    pub(super) handshake_timeout: Duration,
    pub(super) https: HttpsOptions,
}

keys! {
    pub(super) KEYS of TlsRules;
    /// The lowest version of TLS that a client may use.
    min_version = one_of("1.2", names::<MinVersion>) => min_version;
    /// What a client gets that sends no name, or a name that no certificate has: the first certificate, or an
    /// alert.
    unknown_name = one_of("first", names::<UnknownName>) => unknown_name;
    /// Time from the connection to the end of its handshake. Then the connection is closed.
    handshake_timeout = duration(5 * SECOND_MS, TIMEOUT_MS) => handshake_timeout;
    /// How long clients may remember a redirect to HTTPS: 308 or 307.
    redirect = one_of("permanent", names::<RedirectKind>) => https.redirect;
    /// The port that a redirect to HTTPS names.
    redirect_port = integer(443, 1..=65_535) => https.redirect_port;
    /// The policy by which browsers use only HTTPS for the host (RFC 6797).
    hsts [HSTS] = other("none", "a table");
}

keys! {
    /// A certificate of the server.
    pub(super) CERTIFICATE_KEYS of ();
    /// The certificate, and after it the intermediate certificates, in PEM.
    file [FILE] = other("needed", "a file");
    /// The private key of the certificate, in PEM without a passphrase.
    key_file [KEY_FILE] = other("needed", "a file");
}

/// Returns the rules of a configuration without this section.
pub(super) fn unwritten() -> TlsRules {
    let mut rules = TlsRules::default();
    set_defaults(KEYS, &mut rules);
    rules
}

/// Reads `[tls]`.
pub(super) fn rules(mut section: Section<'_>, server: &ServerOptions) -> TlsRules {
    let mut rules = TlsRules::default();
    section.read(KEYS, &mut rules);
    rules.https.hsts = hsts::hsts(&mut section, &HSTS);
    check_policy(&section, &rules, server);
    section.finish();
    rules
}

/// Adds a fault if no request can come by HTTPS, so that its rules have no effect or lock clients out.
fn check_policy(section: &Section<'_>, rules: &TlsRules, server: &ServerOptions) {
    let proxies = &server.trusted_proxies;
    if server.listen.iter().any(|spec| spec.tls) || proxies.unix || !proxies.networks.is_empty() {
        return;
    }
    let needed = "which needs an address of listen with tls = true, or trusted_proxies that end TLS";
    if server.listen.iter().any(|spec| spec.redirect_to_https) {
        section.fault(format!("listen in [server] has redirect_to_https = true, {needed}"));
    }
    if rules.https.hsts.is_some() {
        section.fault_of(HSTS.name, format!("[tls] has hsts, {needed}"));
    }
}

/// Reads the certificates, and the files that they name. `None`: there is no certificate, or one has a fault.
pub(super) fn certificates(
    root: &mut Section<'_>,
    rules: &TlsRules,
    listen: &[ListenSpec],
    folder: &Path,
) -> Option<Arc<ServerTls>> {
    let allowed = "a list of sections [[certificate]]";
    let mut sections = root.tables("certificate", "[[certificate]]", allowed).unwrap_or_default();
    check_use(root, listen, sections.len());
    let files: Vec<_> = sections.iter_mut().map(|section| files(section, folder)).collect();
    let certificates = files.into_iter().collect::<Option<Vec<_>>>().filter(|files| !files.is_empty());
    let tls = certificates.and_then(|certificates| {
        let TlsRules { min_version, unknown_name, .. } = *rules;
        match ServerTls::load(ServerTlsOptions { certificates, min_version, unknown_name }) {
            Ok(tls) => Some(Arc::new(tls)),
            Err(error) => {
                add_fault(root, &sections, &error);
                None
            }
        }
    });
    sections.into_iter().for_each(Section::finish);
    tls
}

/// Adds a fault if an address with TLS has no certificate, or if no address uses the certificates.
fn check_use(root: &Section<'_>, listen: &[ListenSpec], certificates: usize) {
    let is_used = listen.iter().any(|spec| spec.tls);
    if is_used && certificates == 0 {
        root.fault("listen in [server] has tls = true, which needs a [[certificate]] with file and key_file");
    }
    if !is_used && certificates > 0 {
        root.fault_of(
            "certificate",
            "[[certificate]] has no effect, because no address of listen has tls: write \
             { address = \"0.0.0.0:443\", tls = true }",
        );
    }
}

fn files(section: &mut Section<'_>, folder: &Path) -> Option<CertificateFiles> {
    let [certificate, key] = [&FILE, &KEY_FILE].map(|key| file(section, key, folder));
    Some(CertificateFiles { certificate: certificate?, key: key? })
}

fn file(section: &mut Section<'_>, key: &Facts, folder: &Path) -> Option<std::path::PathBuf> {
    if !section.has(key.name) {
        section.fault(format!("missing key \"{}\" in [[certificate]]: allowed is a file", key.name));
    }
    path(section, key.name, PathTo::File).map(|written| folder.join(written.value))
}

fn add_fault(root: &Section<'_>, sections: &[Section<'_>], error: &ServerTlsError) {
    let (index, key) = match error {
        ServerTlsError::Certificate { index, .. } => (*index, FILE.name),
        ServerTlsError::Key { index, .. } => (*index, KEY_FILE.name),
        ServerTlsError::Options(error) => return root.fault(format!("TLS cannot be used: {error}")),
    };
    if let Some(section) = sections.get(index) {
        section.fault_of(key, format!("{key} in [[certificate]]: {error}"));
    }
}

/// Returns the private keys, which are secret.
pub(super) fn keys_of(tls: Option<&ServerTls>) -> Vec<OwnFile> {
    let all = tls.into_iter().flat_map(|tls| &tls.options().certificates);
    all.map(|files| OwnFile::new("key_file in [[certificate]]", &files.key)).collect()
}

/// Returns the certificates, which are not secret.
pub(super) fn certificates_of(tls: Option<&ServerTls>) -> Vec<OwnFile> {
    let all = tls.into_iter().flat_map(|tls| &tls.options().certificates);
    all.map(|files| OwnFile::new("file in [[certificate]]", &files.certificate)).collect()
}

/// Writes both sections.
pub(super) fn write_tls(
    rules: &TlsRules,
    tls: Option<&ServerTls>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "\n[tls]")?;
    write(KEYS, rules, &[(HSTS.name, rules.https.hsts.as_ref().map(hsts::show))], f)?;
    for files in tls.into_iter().flat_map(|tls| &tls.options().certificates) {
        writeln!(f, "\n[[certificate]]")?;
        let own = [
            (FILE.name, Some(quoted_path(&files.certificate))),
            (KEY_FILE.name, Some(quoted_path(&files.key))),
        ];
        write(CERTIFICATE_KEYS, &(), &own, f)?;
    }
    Ok(())
}
