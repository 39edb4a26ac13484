//! Where connections come in: as configured, and as bound.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One entry of what is listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenSpec {
    /// Where.
    pub address: ListenAddress,
    /// Every connection begins with a PROXY protocol header of version 2.
    pub proxy_protocol: bool,
    /// The system holds a TCP connection back until its first bytes arrive, or for a second of silence
    /// (tcp(7), `TCP_DEFER_ACCEPT`). If false, a socket of systemd stays as its unit configures it.
    pub deferred: bool,
}

impl From<SocketAddr> for ListenSpec {
    fn from(address: SocketAddr) -> Self {
        Self { address: ListenAddress::Tcp(address), proxy_protocol: false, deferred: false }
    }
}

/// Where connections come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and port; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix {
        /// Its file.
        path: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
    /// The sockets that systemd hands in: all, or those of one name.
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

/// Where a socket listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// An address and the port that was found.
    Tcp(SocketAddr),
    /// The file of a Unix socket; empty if it has none.
    Unix(PathBuf),
}

impl BoundAddress {
    /// The address and port, unless it is a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
