//! `[acme]`: certificates that the server orders and renews by itself.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_acme::{
    AcmeOptions, ChallengeKind, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING, StateFolder,
};
use tollgate_server::{DnsHookSpec, ListenSpec, OwnFile};

use super::defaults::TLS_DIR;
use super::key::{keys, write};
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_list, quoted_path};
use super::section::{Section, Written};
use super::ship_store::secret;
use super::units::{HOUR_MS, MINUTE_MS, SECOND_MS};
use super::value::{Named, names};

/// The names of directories that need no URL.
const DIRECTORIES: [(&str, &str); 2] =
    [("letsencrypt", LETS_ENCRYPT), ("letsencrypt-staging", LETS_ENCRYPT_STAGING)];

impl Named for ChallengeKind {
    fn all() -> Vec<(&'static str, Self)> {
        [Self::Http01, Self::TlsAlpn01, Self::Dns01].map(|kind| (kind.name(), kind)).into()
    }
}

/// The values of `[acme]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acme {
    /// The options, with all paths absolute.
    pub(crate) options: AcmeOptions,
    terms_agreed: bool,
    /// The `eab_hmac_key` as the file has it: a variable or a file.
    hmac_key_written: Option<String>,
    /// The files of secrets, by their keys.
    secret_files: Vec<(&'static str, PathBuf)>,
    /// The hook for the DNS provider.
    dns: Option<PathBuf>,
    /// The folder of the modules of the hook.
    folder: PathBuf,
    /// Maximum time of one call of the hook.
    dns_timeout: Duration,
}

keys! {
    pub(super) KEYS of Acme;
    /// The names of the server. Each one gets a certificate of its own.
    domains [DOMAINS] = other("needed", "a list of host names, wildcards and addresses");
    /// The address that the ACME server may send notices to.
    email [EMAIL] = other("none", "a mail address");
    /// The ACME server.
    directory [DIRECTORY] =
        text("letsencrypt", "`letsencrypt`, `letsencrypt-staging`, or the `https://` URL of a directory");
    /// Whether you agree to the terms of service of the ACME server.
    terms_agreed = switch(false) => terms_agreed;
    /// How the ACME server checks that a name belongs to this server.
    challenge = one_of("http-01", names::<ChallengeKind>) => options.challenge;
    /// The hook that sets and removes records at the DNS provider, for `dns-01`.
    dns [DNS] = other("none", "a script with the functions `set` and `remove`");
    /// How long the server waits after the set of a record, until all servers of the DNS provider have it.
    dns_wait = duration(30 * SECOND_MS, 0..=HOUR_MS) => options.dns_wait;
    /// How long one call of the hook may take from its first wait to its return.
    dns_timeout = duration(MINUTE_MS, SECOND_MS..=HOUR_MS) => dns_timeout;
    /// The profile of the certificates, as the ACME server names it.
    profile [PROFILE] = other("none", "a name, such as `\"shortlived\"`");
    /// The authorities that the certificate of the ACME server may come from, in PEM.
    ca_file [CA_FILE] = other("the authorities of the system", "a file");
    /// The id of the account with the certificate authority, for servers that need one.
    eab_key_id [EAB_KEY_ID] = other("none", "a text");
    /// The key of this account. It is never printed, and its file is never served.
    eab_hmac_key [EAB_HMAC_KEY] = other("none", "`${NAME}` or `file:PATH`, in base64");
    /// The folder of keys, certificates and orders. Several machines may share it.
    dir [DIR] = text(TLS_DIR, "a path");
}

/// Reads `[acme]`. `None`: the file does not have this section.
pub(super) fn acme(root: &mut Section<'_>, folder: &Path, listen: &[ListenSpec]) -> Option<Acme> {
    if !root.has("acme") {
        return None;
    }
    let mut section = root.table("acme");
    if !listen.iter().any(|spec| spec.tls) {
        section.fault(
            "[acme] has no effect, because no address of listen has tls: write \
             { address = \"0.0.0.0:443\", tls = true }",
        );
    }
    let mut acme = unwritten(folder);
    section.read(KEYS, &mut acme);
    acme.options.domains = domains(&mut section);
    acme.options.email = email(&mut section);
    if let Some(written) = section.text(DIRECTORY.name) {
        acme.options.directory = directory(&section, &written);
    }
    acme.options.profile = section.text(PROFILE.name).map(|written| written.value);
    acme.options.ca_file =
        path(&mut section, CA_FILE.name, PathTo::File).map(|written| folder.join(written.value));
    if let Some(written) = path(&mut section, DIR.name, PathTo::Folder) {
        acme.options.folder = folder.join(written.value);
    }
    acme.read_external_account(&mut section, folder);
    acme.dns = path(&mut section, DNS.name, PathTo::File).map(|written| folder.join(written.value));
    acme.check(&section);
    section.finish();
    Some(acme)
}

fn unwritten(folder: &Path) -> Acme {
    let options = AcmeOptions {
        domains: Vec::new(),
        email: None,
        directory: LETS_ENCRYPT.to_owned(),
        ca_file: None,
        external_account: None,
        profile: None,
        challenge: ChallengeKind::default(),
        dns_wait: Duration::ZERO,
        folder: folder.join(DIR.default_text()),
    };
    Acme {
        options,
        terms_agreed: false,
        hmac_key_written: None,
        secret_files: Vec::new(),
        dns: None,
        folder: folder.to_owned(),
        dns_timeout: Duration::ZERO,
    }
}

impl Acme {
    fn read_external_account(&mut self, section: &mut Section<'_>, folder: &Path) {
        self.hmac_key_written = section.as_written(EAB_HMAC_KEY.name).map(str::to_owned);
        let key_id = section.text(EAB_KEY_ID.name).map(|written| written.value);
        let hmac_key = secret(section, folder, EAB_HMAC_KEY.name, &mut self.secret_files);
        if key_id.is_some() != section.has(EAB_HMAC_KEY.name) {
            section.fault("eab_key_id and eab_hmac_key in [acme] belong together: set both, or none");
        }
        let (Some(key_id), Some(hmac_key)) = (key_id, hmac_key) else { return };
        self.options.external_account = ExternalAccount::read(&key_id, hmac_key.reveal());
        if self.options.external_account.is_none() {
            section.fault_of(EAB_HMAC_KEY.name, "eab_hmac_key in [acme] is no base64");
        }
    }

    /// Finds values that do not go together.
    fn check(&self, section: &Section<'_>) {
        if !self.terms_agreed {
            let text = "terms_agreed in [acme] is false: read the terms of service of the ACME server, and set \
                        terms_agreed = true if you agree";
            section.fault_of("terms_agreed", text);
        }
        let kind = self.options.challenge;
        let find = |is_unfit: fn(&String) -> bool| self.options.domains.iter().find(|name| is_unfit(name));
        if kind != ChallengeKind::Http01
            && let Some(address) = find(|name| name.parse::<IpAddr>().is_ok())
        {
            let text =
                format!("domains in [acme] has the address {address}, which needs challenge = \"http-01\"");
            section.fault_of(DOMAINS.name, text);
        }
        if kind != ChallengeKind::Dns01
            && let Some(name) = find(|name| name.starts_with("*."))
        {
            let text = format!(
                "domains in [acme] has the wildcard {name}, which needs challenge = \"dns-01\" and a hook in \
                 dns"
            );
            section.fault_of(DOMAINS.name, text);
        }
        let has_hook = section.has(DNS.name);
        if has_hook != (kind == ChallengeKind::Dns01) {
            let text = if has_hook {
                "dns in [acme] has no effect: write challenge = \"dns-01\", or remove dns"
            } else {
                "challenge = \"dns-01\" in [acme] needs a hook for the DNS provider: write dns = \"dns.luau\""
            };
            section.fault_of(if has_hook { DNS.name } else { "challenge" }, text);
        }
    }

    /// Returns the hook for the DNS provider.
    pub(crate) fn dns_hook(&self) -> Option<DnsHookSpec> {
        Some(DnsHookSpec { file: self.dns.clone()?, root: self.folder.clone(), timeout: self.dns_timeout })
    }

    /// Returns the folder of answers to challenges.
    pub(super) fn challenges(&self) -> PathBuf {
        StateFolder::new(&self.options.folder).challenges()
    }

    /// Returns the folder of keys, the hook, and the files of secrets.
    pub(super) fn own_files(&self) -> Vec<OwnFile> {
        let mut own = vec![OwnFile::new("dir in [acme]", &self.options.folder)];
        own.extend(self.dns.as_ref().map(|hook| OwnFile::new("dns in [acme]", hook)));
        own.extend(
            self.secret_files.iter().map(|(key, path)| OwnFile::new(format!("{key} in [acme]"), path)),
        );
        own
    }

    /// Writes the section.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let text = |value: &Option<String>| value.as_deref().map(quoted);
        let key_id = options.external_account.as_ref().map(|account| quoted(&account.key_id));
        // A variable is written as it was, so the secret is not in the text.
        let hmac_key = self.hmac_key_written.as_ref();
        let hmac_key = hmac_key.map(|written| toml::Value::String(written.clone()).to_string());
        let own = [
            (DOMAINS.name, Some(quoted_list(&options.domains))),
            (EMAIL.name, text(&options.email)),
            (DIRECTORY.name, Some(quoted(&options.directory))),
            (PROFILE.name, text(&options.profile)),
            (DNS.name, self.dns.as_deref().map(quoted_path)),
            (CA_FILE.name, options.ca_file.as_deref().map(quoted_path)),
            (EAB_KEY_ID.name, key_id),
            (EAB_HMAC_KEY.name, hmac_key),
            (DIR.name, Some(quoted_path(&options.folder))),
        ];
        writeln!(f, "\n[acme]")?;
        write(KEYS, self, &own, f)
    }
}

fn domains(section: &mut Section<'_>) -> Vec<String> {
    let mut domains = Vec::new();
    for written in section.texts(DOMAINS.name).unwrap_or_default() {
        let name = written.value.to_ascii_lowercase();
        match fault_of_domain(&name) {
            Some(fault) => {
                section.fault_at(&written.span, format!("domains in [acme] has {name:?}: {fault}"));
            }
            None if domains.contains(&name) => {
                section.fault_at(&written.span, format!("domains in [acme] has {name:?} twice"));
            }
            None => domains.push(name),
        }
    }
    if domains.is_empty() {
        section.fault_of(DOMAINS.name, "domains in [acme] has no name: write domains = [\"example.com\"]");
    }
    domains
}

/// Returns the reason why no certificate can be ordered for a name.
fn fault_of_domain(name: &str) -> Option<&'static str> {
    if name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let name = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        let is_plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && is_plain && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label);
    (!is_name).then_some("allowed is a host name without a port, a wildcard, or an address")
}

fn email(section: &mut Section<'_>) -> Option<String> {
    let written = section.text(EMAIL.name)?;
    let is_address =
        written.value.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    if !is_address || written.value.contains([' ', ',', '?', ':']) {
        section.fault_at(
            &written.span,
            format!("email in [acme] is {:?}, allowed is one mail address", written.value),
        );
    }
    Some(written.value)
}

fn directory(section: &Section<'_>, written: &Written<String>) -> String {
    let known = DIRECTORIES.iter().find(|(name, _)| *name == written.value);
    if let Some((_, url)) = known {
        return (*url).to_owned();
    }
    let has_host = written.value.strip_prefix("https://").is_some_and(|rest| !rest.is_empty());
    if !has_host || written.value.contains([' ', '#']) {
        let allowed = "letsencrypt, letsencrypt-staging, or the https:// URL of a directory";
        let text = format!("directory in [acme] is {:?}, allowed is {allowed}", written.value);
        section.fault_at(&written.span, text);
    }
    written.value.clone()
}
