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
    /// Whether connections of TCP are held back until bytes have come on them.
    pub deferral: Deferral,
}

/// Whether the system holds a connection of TCP back until bytes have come on it, or a second of silence
/// (tcp(7), `TCP_DEFER_ACCEPT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deferral {
    /// As long as they come in numbers and are soon over. A socket that systemd hands in stays as it is.
    #[default]
    WhereItPays,
    /// It does.
    Always,
    /// It gives them out as they come.
    Never,
}

impl From<SocketAddr> for ListenSpec {
    fn from(address: SocketAddr) -> Self {
        Self { address: ListenAddress::Tcp(address), proxy_protocol: false, deferral: Deferral::default() }
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
