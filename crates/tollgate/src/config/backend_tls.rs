//! The TLS keys of `[backend.NAME]`: trusted authorities, the client's certificate and key, and the server's
//! name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_server::{
    Address, BackendOptions, ClientIdentity, OwnFile, Scheme, TlsError, TlsFiles, TlsOptions,
};

use super::key::{Facts, OwnValue};
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_path};
use super::section::Section;

/// The TLS keys of a backend.
pub(super) struct TlsKeys {
    pub(super) ca: &'static Facts,
    pub(super) certificate: &'static Facts,
    pub(super) key: &'static Facts,
    pub(super) server_name: &'static Facts,
}

/// Takes the keys, and reads the files that they name. `None`: no address is `https`, or a value is refused.
pub(super) fn tls(
    section: &mut Section<'_>,
    keys: &TlsKeys,
    addresses: &[Address],
    folder: &Path,
) -> Option<Arc<TlsOptions>> {
    let names = [keys.ca, keys.certificate, keys.key, keys.server_name].map(|key| key.name);
    let given = names.map(|name| section.has(name));
    let files = files(section, keys, folder);
    if !addresses.iter().any(|address| address.scheme() == Some(Scheme::Https)) {
        for (key, _) in names.iter().zip(given).filter(|(_, is_given)| *is_given && !addresses.is_empty()) {
            let text = format!("{key} in {} needs https, urls has no https:// address", section.name());
            section.fault_of(key, text);
        }
        return None;
    }
    match TlsOptions::load(files?) {
        Ok(options) => Some(Arc::new(options)),
        Err(error) => {
            let key = match &error {
                TlsError::Roots(_) => keys.ca.name,
                TlsError::Certificate(_) => keys.certificate.name,
                TlsError::Key(_) => keys.key.name,
                TlsError::ServerName(_) => keys.server_name.name,
            };
            let text = match &error {
                TlsError::Roots(_) if !section.has(key) => format!("{error}; set ca_file"),
                _ => format!("{key} in {}: {error}", section.name()),
            };
            section.fault_of(key, text);
            None
        }
    }
}

/// Takes the files. `None`: the certificate or its key is missing.
fn files(section: &mut Section<'_>, keys: &TlsKeys, folder: &Path) -> Option<TlsFiles> {
    let mut file =
        |key: &Facts| path(section, key.name, PathTo::File).map(|written| folder.join(written.value));
    let [ca, certificate, key] = [file(keys.ca), file(keys.certificate), file(keys.key)];
    let server_name = section.text(keys.server_name.name).map(|written| written.value);
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return half(section, keys.certificate, keys.key),
        (None, Some(_)) => return half(section, keys.key, keys.certificate),
    };
    Some(TlsFiles { ca, client, server_name })
}

fn half(section: &Section<'_>, given: &Facts, missing: &Facts) -> Option<TlsFiles> {
    let (given, missing) = (given.name, missing.name);
    section
        .fault_of(given, format!("{given} in {} needs {missing} too: set both or neither", section.name()));
    None
}

/// Shows the keys that have values.
pub(super) fn show(tls: Option<&TlsOptions>, keys: &TlsKeys) -> [OwnValue; 4] {
    let files = tls.map(TlsOptions::files);
    let client = files.and_then(|files| files.client.as_ref());
    [
        (keys.ca.name, files.and_then(|files| files.ca.as_ref()).map(|path| quoted_path(path))),
        (keys.certificate.name, client.map(|client| quoted_path(&client.certificate))),
        (keys.key.name, client.map(|client| quoted_path(&client.key))),
        (keys.server_name.name, files.and_then(|files| files.server_name.as_deref()).map(quoted)),
    ]
}

/// Returns the private client keys of backends, which are secret.
pub(super) fn keys_of_backends(backends: &[BackendOptions]) -> Vec<OwnFile> {
    let keys = |tls: &TlsFiles| tls.client.iter().map(|client| ("client_key", client.key.clone())).collect();
    files_of_backends(backends, keys)
}

/// Returns the certificates of backends, which are not secret.
pub(super) fn certificates_of_backends(backends: &[BackendOptions]) -> Vec<OwnFile> {
    files_of_backends(backends, |tls| {
        let client = tls.client.iter().map(|client| ("client_certificate", client.certificate.clone()));
        tls.ca.iter().map(|path| ("ca_file", path.clone())).chain(client).collect()
    })
}

/// Returns files of each backend, with the keys that name them.
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
