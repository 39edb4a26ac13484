//! `[admin]`: the address of the admin listener, and the clients that it answers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_server::{ListenAddress, ListenSpec};

use super::defaults::OFF;
use super::key::{keys, set_defaults, write};
use super::listen::is_same;
use super::quoted::{quoted, quoted_list};
use super::section::{Section, Written};
use super::units::{HOUR_MS, SECOND_MS};

/// Name of the default socket, in the log folder. Only the owner can reach this folder, and two servers never
/// share one.
pub(crate) const ADMIN_SOCKET: &str = "admin.sock";
const ALLOWED: &str = "\"ip:port\" like \"127.0.0.1:9080\", \"unix:PATH\", or \"off\"";
/// Minimum bytes of a token. A shorter token can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

keys! {
    pub(super) KEYS of Admin;
    /// The socket of the admin listener.
    listen [LISTEN] =
        other(r#"`"unix:admin.sock"` in `[log] dir`"#, r#"`"ip:port"`, `"unix:PATH"`, `"off"`"#).restart();
    /// The token that `/metrics`, `/status` and `/history` require as `Authorization: Bearer TOKEN`.
    token [TOKEN] = secret("none").restart();
    /// The names that `Host` may have, in addition to addresses and `localhost`.
    hosts [HOSTS] = other("`[]`", "a list of names without ports").restart();
    /// Health and readiness fail if a worker completes no pass over its connections for this long.
    worker_stall_max = duration(10 * SECOND_MS, SECOND_MS..=HOUR_MS).restart() => worker_stall_max;
}

/// The address of the admin listener, and the clients that it answers.
#[derive(Debug, Clone)]
pub(crate) struct Admin {
    pub(crate) listen: AdminListen,
    pub(crate) token: Option<Token>,
    /// Names of the server in requests, besides addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// If a worker makes no turn for this time, the server is not ready.
    pub(crate) worker_stall_max: Duration,
}

/// The address of the admin listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminListen {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// The default socket, in the log folder. If it cannot be made, the server runs without the admin
    /// listener.
    LogFolder(PathBuf),
    Nowhere,
}

impl AdminListen {
    /// Returns the address as a text, by which a successor recognizes it. `None`: there is no listener.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Tcp(address) => Some(address.to_string()),
            Self::Unix(path) | Self::LogFolder(path) => Some(format!("unix:{}", path.display())),
            Self::Nowhere => None,
        }
    }

    fn is_that_of(&self, spec: &ListenSpec) -> bool {
        let own = match self {
            Self::Tcp(address) => ListenAddress::Tcp(*address),
            Self::Unix(path) | Self::LogFolder(path) => ListenAddress::Unix { path: path.clone(), mode: 0 },
            Self::Nowhere => return false,
        };
        is_same(&own, &spec.address)
    }
}

/// A secret that clients must send.
#[derive(Clone)]
pub(crate) struct Token {
    /// The variable of the environment that holds the token.
    variable: String,
    pub(crate) secret: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${{{}}}", self.variable)
    }
}

impl Admin {
    /// Returns the options of a configuration without this section.
    pub(super) fn default_in(log_dir: &Path) -> Self {
        let mut admin = Self {
            listen: AdminListen::LogFolder(log_dir.join(ADMIN_SOCKET)),
            token: None,
            hosts: Vec::new(),
            worker_stall_max: Duration::ZERO,
        };
        set_defaults(KEYS, &mut admin);
        admin
    }

    /// Writes the section so that it reads back to the same.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listen = match &self.listen {
            AdminListen::Tcp(address) => address.to_string(),
            AdminListen::Unix(path) | AdminListen::LogFolder(path) => format!("unix:{}", path.display()),
            AdminListen::Nowhere => OFF.to_owned(),
        };
        writeln!(f, "\n[admin]")?;
        let own = [
            (LISTEN.name, Some(quoted(&listen))),
            (TOKEN.name, self.token.as_ref().map(|token| format!("\"{token:?}\""))),
            (HOSTS.name, Some(quoted_list(&self.hosts))),
        ];
        write(KEYS, self, &own, f)
    }
}

/// Reads `[admin]`.
pub(super) fn admin(mut section: Section<'_>, folder: &Path, log_dir: &Path, served: &[ListenSpec]) -> Admin {
    let mut admin = Admin::default_in(log_dir);
    let listen = section.text(LISTEN.name);
    if let Some(written) = &listen
        && let Some(found) = address(&section, written, folder)
        && found != AdminListen::Unix(log_dir.join(ADMIN_SOCKET))
    {
        if served.iter().any(|spec| found.is_that_of(spec)) {
            let text = format!(
                "listen in [admin] is {:?}, which listen in [server] has too: choose another address",
                written.value
            );
            section.fault_at(&written.span, text);
        }
        admin.listen = found;
    }
    admin.token = token(&mut section);
    for host in section.texts(HOSTS.name).unwrap_or_default() {
        admin.hosts.extend(name(&section, &host));
    }
    section.overlay(KEYS, &mut admin);
    if let (AdminListen::Tcp(address), Some(written), None) = (&admin.listen, &listen, &admin.token)
        && !is_loopback(address.ip())
        && !section.has(TOKEN.name)
    {
        section.fault_at(
            &written.span,
            format!(
                "listen in [admin] is {address}, which other machines can reach: set token = \
                     \"${{NAME}}\", or listen on a loopback address"
            ),
        );
    }
    section.finish();
    admin
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn address(section: &Section<'_>, written: &Written<String>, folder: &Path) -> Option<AdminListen> {
    let text = &written.value;
    let found = match text.strip_prefix("unix:") {
        Some(path) if !path.is_empty() => Some(AdminListen::Unix(folder.join(path))),
        Some(_) => None,
        None if text == OFF => Some(AdminListen::Nowhere),
        None => text.parse().ok().map(AdminListen::Tcp),
    };
    if found.is_none() {
        section.fault_at(&written.span, format!("listen in [admin] is {text:?}, allowed is {ALLOWED}"));
    }
    found
}

fn token(section: &mut Section<'_>) -> Option<Token> {
    let (variable, secret) = section.secret(TOKEN.name)?;
    let bytes = secret.len();
    let is_visible = secret.bytes().all(|byte| byte.is_ascii_graphic());
    if bytes < TOKEN_BYTES_MIN || !is_visible {
        let allowed = format!("allowed are at least {TOKEN_BYTES_MIN} bytes of visible ASCII without blanks");
        section.fault_at(&variable.span, format!("token in [admin] has {bytes} bytes, {allowed}"));
    }
    Some(Token { variable: variable.value, secret })
}

fn name(section: &Section<'_>, host: &Written<String>) -> Option<String> {
    if super::route::is_host(&host.value) {
        return Some(host.value.to_ascii_lowercase());
    }
    let text = format!("hosts in [admin] has {:?}, allowed is a name without a port", host.value);
    section.fault_at(&host.span, text);
    None
}
