//! HTTPS for development: an authority of this folder, and its certificate for `localhost`.

use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use anyhow::Context;
use tollgate_acme::{LocalAuthority, LocalCertificate};
use tollgate_server::{BoundAddress, CertificateFiles, ListenSpec, ServerTls, ServerTlsOptions};

use crate::acme::now;
use crate::cli::ServeCommand;
use crate::config::{Config, TLS_DIR};

/// The names that each certificate for development has.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Returns the certificate for development of a configuration, and makes it if that is due.
///
/// # Errors
/// A file cannot be written, or a name is invalid.
pub(crate) fn certificate(config: &Path, further: &[String]) -> anyhow::Result<LocalCertificate> {
    let mut names = NAMES.map(str::to_owned).to_vec();
    names.extend(further.iter().filter(|name| !NAMES.contains(&name.as_str())).cloned());
    let folder = folder_of(config)?.join(TLS_DIR);
    LocalAuthority::new(&folder, now()).certificate(&names).context("no certificate for development")
}

fn folder_of(config: &Path) -> anyhow::Result<PathBuf> {
    let folder = if config.is_dir() { Some(config) } else { config.parent() };
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    absolute(folder).context("cannot find the folder of the configuration")
}

/// Adds an address with TLS to the configuration, if the start has `--https`.
///
/// # Errors
/// There is no certificate.
pub(crate) fn add_to(command: &ServeCommand, config: &mut Config) -> anyhow::Result<()> {
    let Some(address) = command.https else { return Ok(()) };
    let made = certificate(&command.config, &[])?;
    let files = CertificateFiles { certificate: made.certificate, key: made.key };
    let mut options =
        config.server.tls.as_ref().map_or_else(ServerTlsOptions::default, |tls| tls.options().clone());
    options.certificates.push(files);
    config.server.tls = Some(Arc::new(ServerTls::load(options)?));
    config.server.listen.push(ListenSpec { tls: true, ..address.into() });
    Ok(())
}

/// Returns a command that asks the server of a start with `--https`. `None`: the start does not have it.
///
/// # Errors
/// There is no certificate.
pub(crate) fn line_of(command: &ServeCommand, addresses: &[BoundAddress]) -> anyhow::Result<Option<String>> {
    if command.https.is_none() {
        return Ok(None);
    }
    let port_of = |address: &BoundAddress| match address {
        BoundAddress::Tls(address) => Some(address.port()),
        _ => None,
    };
    let port = addresses.iter().rev().find_map(port_of);
    let made = certificate(&command.config, &[])?;
    Ok(port.map(|port| try_line(&made, port)))
}

/// Returns a command that asks for a page with the certificate for development.
pub(crate) fn try_line(made: &LocalCertificate, port: u16) -> String {
    format!("curl --cacert {} https://localhost:{port}/", made.authority.display())
}
