//! The address of a backend: `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name that needs a lookup, and a port.
    Name {
        /// Scheme of the URL: `http` or `https`.
        scheme: Scheme,
        /// Host name, without the port.
        name: String,
        /// Port of the backend.
        port: u16,
    },
    /// A socket address, which needs no lookup.
    Socket {
        /// Scheme of the URL: `http` or `https`.
        scheme: Scheme,
        /// Socket address of the backend.
        socket: SocketAddr,
    },
    /// A Unix socket, by its absolute path.
    Unix(PathBuf),
}

/// The scheme of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    /// Returns the default port of the scheme (RFC 9110 sections 4.2.1 and 4.2.2).
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Reason why a text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The scheme is missing or unknown.
    #[error("allowed is http://HOST:PORT, https://HOST:PORT or unix:/PATH")]
    Scheme,
    /// The host is invalid, or the port is not from 1 to 65535.
    #[error("allowed are a name or an address, and a port from 1 to 65535")]
    Host,
    /// The scheme is `https`, but no certificate can have this name.
    #[error("a certificate cannot have this name: allowed are labels of letters, digits, - and _")]
    Uncertifiable,
    /// Further text follows the port.
    #[error("remove the path: routes have strip_prefix and prefix")]
    Path,
    /// The path of a Unix socket is not absolute, or too long for the system.
    #[error("the path of a Unix socket must be absolute and have at most 107 bytes")]
    UnixPath,
}

const UNIX_PATH_BYTES_MAX: usize = 107;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.len() > UNIX_PATH_BYTES_MAX || path.contains('\0') {
                return Err(AddressError::UnixPath);
            }
            return Ok(Self::Unix(path.into()));
        }
        let schemes = [Scheme::Http, Scheme::Https];
        let of_scheme = |scheme: Scheme| Some((scheme, text.strip_prefix(scheme.prefix())?));
        let (scheme, authority) = schemes.into_iter().find_map(of_scheme).ok_or(AddressError::Scheme)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains(['/', '?', '#']) {
            return Err(AddressError::Path);
        }
        let (host, port) = split_port(authority, scheme).ok_or(AddressError::Host)?;
        if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            let address = address.parse().map_err(|_| AddressError::Host)?;
            return Ok(Self::Socket { scheme, socket: (IpAddr::V6(address), port).into() });
        }
        if let Ok(address) = host.parse() {
            return Ok(Self::Socket { scheme, socket: (IpAddr::V4(address), port).into() });
        }
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        // A host that ends in a number is a malformed IP address (RFC 3986 section 7.4).
        let ends_in_number = host.rsplit('.').next().is_some_and(|last| last.parse::<u64>().is_ok());
        if host.is_empty() || host.len() > 253 || ends_in_number || !host.bytes().all(is_name_byte) {
            return Err(AddressError::Host);
        }
        if scheme == Scheme::Https && crate::tls::server_name(host).is_err() {
            return Err(AddressError::Uncertifiable);
        }
        Ok(Self::Name { scheme, name: host.to_ascii_lowercase(), port })
    }
}

/// Splits an authority. The default port of the scheme replaces a missing port.
fn split_port(authority: &str, scheme: Scheme) -> Option<(&str, u16)> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let is_digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = if is_digits { port.parse().ok() } else { None };
            port.filter(|port| *port > 0).map(|port| (host, port))
        }
        _ => Some((authority, scheme.default_port())),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { scheme, name, port } => write!(f, "{}{name}:{port}", scheme.prefix()),
            Self::Socket { scheme, socket } => write!(f, "{}{socket}", scheme.prefix()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// Returns the value of Host (RFC 9110 section 7.2). A Unix socket has no name.
    pub fn host(&self) -> String {
        match self {
            Self::Name { scheme, name, port } if *port == scheme.default_port() => name.clone(),
            Self::Name { name, port, .. } => format!("{name}:{port}"),
            Self::Socket { socket, .. } => socket.to_string(),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Returns the scheme. A Unix socket has no scheme, because it is local.
    pub const fn scheme(&self) -> Option<Scheme> {
        match self {
            Self::Name { scheme, .. } | Self::Socket { scheme, .. } => Some(*scheme),
            Self::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port_or_a_socket() {
        let check = |text: &str, expect: Result<&str, AddressError>| {
            let found = text.parse::<Address>().map(|address| address.to_string());
            assert_eq!(found, expect.map(str::to_owned), "{text}");
        };
        check("http://127.0.0.1:9000", Ok("http://127.0.0.1:9000"));
        check("http://127.0.0.1:9000/", Ok("http://127.0.0.1:9000"));
        check("http://[::1]:9000", Ok("http://[::1]:9000"));
        check("http://Billing.internal:81", Ok("http://billing.internal:81"));
        check("http://billing", Ok("http://billing:80"));
        check("http://[::1]", Ok("http://[::1]:80"));
        check("unix:/run/app.sock", Ok("unix:/run/app.sock"));
        check("https://Billing.internal", Ok("https://billing.internal:443"));
        check("https://10.0.0.1", Ok("https://10.0.0.1:443"));
        check("https://[::1]:8443/", Ok("https://[::1]:8443"));
        check("https://a..b", Err(AddressError::Uncertifiable));
        check("https://a:0", Err(AddressError::Host));
        check("HTTPS:a", Err(AddressError::Scheme));
        for text in ["a:1", "127.0.0.1:1", "ftp://a:1", ""] {
            check(text, Err(AddressError::Scheme));
        }
        for text in ["http://a:0", "http://a:65536", "http://a:", "http://a:x", "http://:1", "http://u@a:1"] {
            check(text, Err(AddressError::Host));
        }
        for text in ["http://300.1.1.1:1", "http://1.2.3:4", "http://[::g]:1", "http://a b:1"] {
            check(text, Err(AddressError::Host));
        }
        for text in ["http://a:1/b", "http://a:1?b", "http://a:1#b"] {
            check(text, Err(AddressError::Path));
        }
        check("unix:relative", Err(AddressError::UnixPath));
        check(&format!("unix:/{}", "x".repeat(107)), Err(AddressError::UnixPath));
    }

    #[test]
    fn host_leaves_the_default_port_out() {
        let host = |text: &str| text.parse::<Address>().unwrap().host();
        assert_eq!(host("http://a"), "a");
        assert_eq!(host("http://a:8080"), "a:8080");
        assert_eq!(host("http://[::1]:81"), "[::1]:81");
        assert_eq!(host("unix:/a"), "localhost");
        assert_eq!(host("https://a"), "a");
        assert_eq!(host("https://a:80"), "a:80");
        assert_eq!(host("http://a:443"), "a:443");
    }
}
