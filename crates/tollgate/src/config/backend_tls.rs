//! The keys of `[backend.NAME]` for TLS: whom it trusts, who it says that it is, and by which name it is
//! known.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_server::{
    Address, BackendOptions, ClientIdentity, OwnFile, Scheme, TlsError, TlsFiles, TlsOptions,
};

use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_path};
use super::section::Section;

const KEYS: [&str; 4] = ["ca_file", "client_certificate", "client_key", "server_name"];

/// Takes the keys, and reads the files that they name. None: no address is `https`, or it is refused.
pub(super) fn tls(
    section: &mut Section<'_>,
    addresses: &[Address],
    folder: &Path,
) -> Option<Arc<TlsOptions>> {
    let given = KEYS.map(|key| section.has(key));
    let files = files(section, folder);
    if !addresses.iter().any(|address| address.scheme() == Some(Scheme::Https)) {
        for (key, _) in KEYS.iter().zip(given).filter(|(_, is_given)| *is_given && !addresses.is_empty()) {
            let text = format!("{key} in {} is for https, urls has none", section.name());
            section.fault_of(key, text);
        }
        return None;
    }
    match TlsOptions::load(files?) {
        Ok(options) => Some(Arc::new(options)),
        Err(error) => {
            let key = match &error {
                TlsError::Roots(_) => "ca_file",
                TlsError::Certificate(_) => "client_certificate",
                TlsError::Key(_) => "client_key",
                TlsError::ServerName(_) => "server_name",
            };
            let text = match &error {
                TlsError::Roots(_) if !section.has(key) => format!("{error}, name some by ca_file"),
                _ => format!("{key} in {}: {error}", section.name()),
            };
            section.fault_of(key, text);
            None
        }
    }
}

/// None: half of what belongs together.
fn files(section: &mut Section<'_>, folder: &Path) -> Option<TlsFiles> {
    let mut file = |key| path(section, key, PathTo::File).map(|written| folder.join(written.value));
    let [ca, certificate, key] = [file("ca_file"), file("client_certificate"), file("client_key")];
    let server_name = section.text("server_name").map(|written| written.value);
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return half(section, "client_certificate", "client_key"),
        (None, Some(_)) => return half(section, "client_key", "client_certificate"),
    };
    Some(TlsFiles { ca, client, server_name })
}

fn half(section: &Section<'_>, given: &str, missing: &str) -> Option<TlsFiles> {
    section.fault_of(given, format!("{given} in {} needs {missing} beside it", section.name()));
    None
}

/// As the file has it, what is not given left out.
pub(super) fn write_tls(tls: &TlsOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TlsFiles { ca, client, server_name } = tls.files();
    let of_client = |choose: fn(&ClientIdentity) -> &PathBuf| client.as_ref().map(choose);
    let paths = [
        ("ca_file", ca.as_ref()),
        ("client_certificate", of_client(|client| &client.certificate)),
        ("client_key", of_client(|client| &client.key)),
    ];
    for (key, path) in paths {
        if let Some(path) = path {
            writeln!(f, "{key} = {}", quoted_path(path))?;
        }
    }
    server_name.iter().try_for_each(|name| writeln!(f, "server_name = {}", quoted(name)))
}

/// What backends are told who we are by.
pub(super) fn keys_of_backends(backends: &[BackendOptions]) -> Vec<OwnFile> {
    let keys = |tls: &TlsFiles| tls.client.iter().map(|client| ("client_key", client.key.clone())).collect();
    files_of_backends(backends, keys)
}

/// Certificates: anybody may read them.
pub(super) fn certificates_of_backends(backends: &[BackendOptions]) -> Vec<OwnFile> {
    files_of_backends(backends, |tls| {
        let client = tls.client.iter().map(|client| ("client_certificate", client.certificate.clone()));
        tls.ca.iter().map(|path| ("ca_file", path.clone())).chain(client).collect()
    })
}

/// Files of each backend, with the keys that name them.
fn files_of_backends(
    backends: &[BackendOptions],
    files: fn(&TlsFiles) -> Vec<(&'static str, PathBuf)>,
) -> Vec<OwnFile> {
    let mut own = Vec::new();
    for backend in backends {
        let files = backend.tls.as_ref().map(|tls| files(tls.files())).unwrap_or_default();
        let named = |(key, path)| OwnFile::new(format!("{key} in [backend.{}]", backend.name), path);
        own.extend(files.into_iter().map(named));
    }
    own
}
