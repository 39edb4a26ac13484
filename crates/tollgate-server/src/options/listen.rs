//! The addresses of the server: the configured addresses, and the bound addresses.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One address of the server, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenSpec {
    /// The address to listen on.
    pub address: ListenAddress,
    /// Whether every connection begins with a PROXY protocol header of version 2.
    pub proxy_protocol: bool,
    /// Whether the system holds back a TCP connection until its first bytes arrive, or for a second without
    /// bytes (tcp(7), `TCP_DEFER_ACCEPT`). If false, a systemd socket keeps the setting of its unit.
    pub deferred: bool,
    /// Whether connections use TLS.
    pub tls: bool,
    /// Whether requests without TLS get a redirect to HTTPS.
    pub redirect_to_https: bool,
}

impl ListenSpec {
    /// Creates the default options of an address.
    pub fn new(address: ListenAddress) -> Self {
        Self { address, proxy_protocol: false, deferred: false, tls: false, redirect_to_https: false }
    }
}

impl From<SocketAddr> for ListenSpec {
    fn from(address: SocketAddr) -> Self {
        Self::new(ListenAddress::Tcp(address))
    }
}

/// A configured address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and port. Port 0 selects a free port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix {
        /// The socket file.
        path: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
    /// The sockets from systemd: all sockets, or the sockets with this name.
    Systemd(Option<String>),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            Self::Systemd(None) => f.write_str("systemd"),
            Self::Systemd(Some(name)) => write!(f, "systemd:{name}"),
        }
    }
}

/// A bound address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// An address and the actual port.
    Tcp(SocketAddr),
    /// An address and the actual port, for connections with TLS.
    Tls(SocketAddr),
    /// The file of a Unix socket, or an empty path if it has none.
    Unix(PathBuf),
}

impl BoundAddress {
    /// Returns the address and port, or `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Tls(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Tls(address) => write!(f, "https://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
