//! `[[certificate]]` and `[tls]`: the certificates of addresses with TLS, and the rules of their handshakes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate_server::{
    CertificateFiles, ClientAuth, ClientAuthError, ClientAuthOptions, HttpsOptions, ListenSpec, MinVersion,
    OwnFile, RedirectKind, ServerOptions, ServerTls, ServerTlsError, ServerTlsOptions, UnknownName,
};

use super::fault::Group;
use super::hsts;
use super::key::{Facts, keys, set_defaults, write};
use super::path::{PathTo, check_path, path};
use super::quoted::quoted_path;
use super::section::other_servers::{CERTIFICATES, PRIVATE_KEYS};
use super::section::{Section, Written};
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

impl Named for ClientAuth {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("require", Self::Required), ("request", Self::Requested)]
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
    pub(super) client_auth: ClientAuth,
    client_ca: Option<PathBuf>,
    client_crls: Vec<PathBuf>,
}

impl TlsRules {
    /// Returns whether clients are asked for a certificate.
    pub(super) fn asks_clients(&self) -> bool {
        self.client_ca.is_some()
    }

    fn clients(&self) -> Option<ClientAuthOptions> {
        let (revoked, auth) = (self.client_crls.clone(), self.client_auth);
        let authorities = self.client_ca.clone();
        authorities.map(|authorities| ClientAuthOptions { authorities, revoked, auth })
    }
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
    /// The authorities that issue the certificates of clients, in PEM. Without it no client is asked.
    client_ca [CLIENT_CA] = other("none", "a file");
    /// Whether each client needs a certificate, or may leave it out.
    client_auth = one_of("require", names::<ClientAuth>) => client_auth;
    /// Lists of revoked certificates of clients (CRL), in PEM.
    client_crls [CLIENT_CRLS] = other("`[]`", "a list of files");
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
pub(super) fn rules(mut section: Section<'_>, server: &ServerOptions, folder: &Path) -> TlsRules {
    let mut rules = TlsRules::default();
    section.read(KEYS, &mut rules);
    rules.https.hsts = hsts::hsts(&mut section, &HSTS);
    check_policy(&section, &rules, server);
    let file = path(&mut section, CLIENT_CA.name, PathTo::File);
    rules.client_ca = file.map(|written| folder.join(written.value));
    rules.client_crls = crls(&mut section, folder);
    check_clients(&section, &rules, server);
    section.finish();
    rules
}

/// Takes the files of revoked certificates.
fn crls(section: &mut Section<'_>, folder: &Path) -> Vec<PathBuf> {
    let files = section.texts(CLIENT_CRLS.name).unwrap_or_default();
    let is_path = |file: &Written<String>| check_path(section, "client_crls in [tls]", file, PathTo::File);
    files.iter().filter(|file| is_path(file)).map(|file| folder.join(&file.value)).collect()
}

/// Adds a fault for rules about certificates of clients that have no effect.
fn check_clients(section: &Section<'_>, rules: &TlsRules, server: &ServerOptions) {
    if rules.client_ca.is_some() && !server.listen.iter().any(|spec| spec.tls) {
        let text = "client_ca in [tls] has no effect, because no address of listen has tls";
        section.fault_of(CLIENT_CA.name, text);
    }
    if rules.client_ca.is_none() && !rules.client_crls.is_empty() {
        let text = "client_crls in [tls] needs client_ca, the authorities of the revoked certificates";
        section.fault_of(CLIENT_CRLS.name, text);
    }
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
/// With `[acme]`, certificates arrive later.
pub(super) fn certificates(
    root: &mut Section<'_>,
    rules: &TlsRules,
    listen: &[ListenSpec],
    folder: &Path,
    has_acme: bool,
) -> Option<Arc<ServerTls>> {
    let allowed = "a list of sections [[certificate]]";
    let mut sections = root.tables("certificate", "[[certificate]]", allowed).unwrap_or_default();
    check_use(root, listen, sections.len(), has_acme);
    let files: Vec<_> = sections.iter_mut().map(|section| files(section, folder)).collect();
    let certificates =
        files.into_iter().collect::<Option<Vec<_>>>().filter(|files| has_acme || !files.is_empty());
    let tls = certificates.and_then(|certificates| {
        let (min_version, unknown_name, clients) = (rules.min_version, rules.unknown_name, rules.clients());
        match ServerTls::load(ServerTlsOptions { certificates, min_version, unknown_name, clients }) {
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
fn check_use(root: &Section<'_>, listen: &[ListenSpec], certificates: usize, has_acme: bool) {
    let is_used = listen.iter().any(|spec| spec.tls);
    if is_used && certificates == 0 && !has_acme && !root.has_fault_of(Group::Certificate) {
        root.fault(
            "listen in [server] has tls = true, which needs a [[certificate]] with file and key_file, or \
             [acme]",
        );
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
    section.rename(FILE.name, CERTIFICATES);
    section.rename(KEY_FILE.name, PRIVATE_KEYS);
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
        ServerTlsError::Clients(error) => {
            let key = match error {
                ClientAuthError::Authorities(_) => CLIENT_CA.name,
                ClientAuthError::Revoked(_) => CLIENT_CRLS.name,
            };
            return root.fault_of("tls", format!("{key} in [tls]: {error}"));
        }
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
    let own = all.map(|files| OwnFile::new("file in [[certificate]]", &files.certificate));
    let clients = tls.and_then(|tls| tls.options().clients.as_ref());
    let authorities = clients.map(|clients| OwnFile::new("client_ca in [tls]", &clients.authorities));
    let revoked = clients.into_iter().flat_map(|clients| &clients.revoked);
    let revoked = revoked.map(|file| OwnFile::new("client_crls in [tls]", file));
    own.chain(authorities).chain(revoked).collect()
}

/// Writes both sections.
pub(super) fn write_tls(
    rules: &TlsRules,
    tls: Option<&ServerTls>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "\n[tls]")?;
    let crls: Vec<_> = rules.client_crls.iter().map(|file| quoted_path(file)).collect();
    let own = [
        (HSTS.name, rules.https.hsts.as_ref().map(hsts::show)),
        (CLIENT_CA.name, rules.client_ca.as_deref().map(quoted_path)),
        (CLIENT_CRLS.name, (!crls.is_empty()).then(|| format!("[{}]", crls.join(", ")))),
    ];
    write(KEYS, rules, &own, f)?;
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
