//! Connections to a store: addresses, the proxy, TLS.
//!
//! Plain HTTP is for loopback and for the metadata services of clouds, which have link-local addresses. The
//! resolved address is checked, so that no name and no redirect sends a key over an open network.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::InvalidUri;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_tls::{RootsError, Trust, Verifier};

/// Longest time to connect to a metadata service. A machine outside of a cloud has no such service, so the
/// wait must be short.
const METADATA_CONNECT_MAX: Duration = Duration::from_secs(1);
/// Maximum bytes of the reply of a proxy to `CONNECT`.
const PROXY_REPLY_BYTES_MAX: usize = 8 << 10;
/// Metadata services of AWS that have no link-local address.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)];

/// The bytes of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection.
pub(super) struct Dialed {
    pub(super) stream: Box<dyn Stream>,
    /// A second descriptor of the connection's socket.
    pub(super) socket: OwnedFd,
}

/// The server end of a connection: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) is_tls: bool,
    /// The name or the address. An IPv6 address has no brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// Parses scheme, host and port of an address.
    ///
    /// # Errors
    /// The scheme is neither `http` nor `https`, or the host is missing.
    pub(super) fn of(uri: &Uri) -> io::Result<Self> {
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("the address begins neither with http:// nor with https://")),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(invalid("the address has no host"));
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Self { is_tls, host: host.to_owned(), port })
    }

    /// Returns whether the host is `localhost` or a loopback address.
    pub(super) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// Returns `HOST:PORT`, as a URL writes it.
    fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Why the address of a service cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressFault {
    /// The text is no address.
    #[error("it is no address: {0}")]
    NoAddress(String),
    /// The address has a name or a password, which this error does not show.
    #[error("the address has a name or a password, allowed is https://HOST:PORT/PATH")]
    User,
    /// The address has a query.
    #[error("the address has a query, allowed is https://HOST:PORT/PATH")]
    Query,
    /// Secrets would go over a network in plain text.
    #[error("the address is plain HTTP, which is allowed to loopback only, use https://")]
    PlainHttp,
}

/// Checks the address of a service.
///
/// # Errors
/// The operator has to change the address.
pub fn check_web_address(address: &str) -> Result<(), AddressFault> {
    let no_address = |reason: String| AddressFault::NoAddress(reason);
    let uri: Uri = address.parse().map_err(|error: InvalidUri| no_address(error.to_string()))?;
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(AddressFault::User);
    }
    if uri.query().is_some() {
        return Err(AddressFault::Query);
    }
    let target = Target::of(&uri).map_err(|error| no_address(error.to_string()))?;
    if !target.is_tls && !target.is_loopback() {
        return Err(AddressFault::PlainHttp);
    }
    Ok(())
}

/// Why no connection can be opened.
pub(super) enum DialerError {
    /// The trusted authorities are unknown.
    Roots(RootsError),
    /// The text of the proxy is not a valid address.
    Proxy { proxy: String },
}

/// Opens connections.
pub(super) struct Dialer {
    tls: TlsConnector,
    proxy: Option<Target>,
    timeout: Duration,
}

impl Dialer {
    /// Reads the trusted authorities.
    ///
    /// # Errors
    /// There are no authorities, the file has an invalid one, or the text of the proxy is no address.
    pub(super) fn new(
        ca: Option<&Path>,
        proxy: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, DialerError> {
        let proxy = proxy.map(proxy_of).transpose()?;
        let verifier = Verifier::new(ca, Trust::Host).map_err(DialerError::Roots)?;
        let config = Arc::new(verifier).client().map_err(DialerError::Roots)?.with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), proxy, timeout })
    }

    /// Connects, with TLS for `https`. Resolution, TCP, proxy and TLS each have their own timeout.
    ///
    /// # Errors
    /// The host does not answer in time, or its certificate is not trusted.
    pub(super) async fn dial(&self, target: &Target) -> io::Result<Dialed> {
        if !target.is_tls {
            let stream = self.tcp(target, may_be_plain).await?;
            let socket = stream.as_fd().try_clone_to_owned()?;
            return Ok(Dialed { stream: Box::new(stream), socket });
        }
        let stream = match &self.proxy {
            Some(proxy) => self.through(proxy, target).await?,
            None => self.tcp(target, |_| true).await?,
        };
        let socket = stream.as_fd().try_clone_to_owned()?;
        let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
        let stream = self.within("TLS", self.tls.connect(name, stream)).await?;
        Ok(Dialed { stream: Box::new(stream), socket })
    }

    /// Connects to the first address that accepts.
    async fn tcp(&self, target: &Target, is_allowed: fn(IpAddr) -> bool) -> io::Result<TcpStream> {
        let lookup = tokio::net::lookup_host((target.host.as_str(), target.port));
        let found: Vec<_> = self.within("name resolution", lookup).await?.collect();
        let mut last = if found.is_empty() {
            io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", target.host))
        } else {
            invalid("plain HTTP is allowed to loopback only, use https://")
        };
        for address in found.into_iter().filter(|address| is_allowed(address.ip())) {
            match self.tcp_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn tcp_to(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let is_metadata = may_be_plain(address.ip()) && !address.ip().is_loopback();
        let time = if is_metadata { self.timeout.min(METADATA_CONNECT_MAX) } else { self.timeout };
        let stream = timeout(time, TcpStream::connect(address)).await.map_err(|_| late("connection"))??;
        // Each write is a whole piece, so a wait for more bytes would save no packet.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Connects through a proxy (RFC 9110 section 9.3.6).
    async fn through(&self, proxy: &Target, target: &Target) -> io::Result<TcpStream> {
        let mut stream = self.tcp(proxy, |_| true).await?;
        let authority = target.authority();
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        self.within("proxy", stream.write_all(request.as_bytes())).await?;
        let reply = self.within("proxy", read_head(&mut stream)).await?;
        let line = reply.lines().next().unwrap_or_default();
        let status = line.split(' ').nth(1).unwrap_or_default();
        if line.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
            return Ok(stream);
        }
        Err(io::Error::other(format!("the proxy refuses to connect: {}", line.escape_debug())))
    }

    async fn within<T>(
        &self,
        part: &'static str,
        call: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        timeout(self.timeout, call).await.map_err(|_| late(part))?
    }
}

/// Reads the reply of the proxy up to the empty line. No byte follows this line, because the server sends
/// only after the client has sent.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_REPLY_BYTES_MAX {
            return Err(invalid("the reply of the proxy has more than 8192 bytes"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns whether bytes to an address stay on this machine or go to a metadata service.
fn may_be_plain(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unicast_link_local() || METADATA_V6.contains(&address)
        }
    }
}

fn proxy_of(text: &str) -> Result<Target, DialerError> {
    let uri = text.parse::<Uri>().ok().filter(|uri| {
        let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        !has_user && matches!(uri.path(), "" | "/") && uri.query().is_none()
    });
    let target = uri.and_then(|uri| Target::of(&uri).ok()).filter(|target| !target.is_tls);
    let shown = text.rsplit('@').next().unwrap_or_default();
    target.ok_or_else(|| DialerError::Proxy { proxy: shown.to_owned() })
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn late(part: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{part} timed out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str) -> io::Result<Target> {
        Target::of(&uri.parse().unwrap())
    }

    #[test]
    fn a_target_is_scheme_host_and_port() {
        for (uri, is_tls, host, port) in [
            ("https://s3.example/bucket?x", true, "s3.example", 443),
            ("http://127.0.0.1:7070/", false, "127.0.0.1", 7070),
            ("http://[::1]/", false, "::1", 80),
        ] {
            assert_eq!(target(uri).unwrap(), Target { is_tls, host: host.to_owned(), port });
        }
        assert_eq!(target("http://[::1]/").unwrap().authority(), "[::1]:80");
        assert!(target("ftp://x/").is_err() && target("/x").is_err());
    }

    #[test]
    fn plain_bytes_stay_on_the_machine_or_go_to_its_metadata_service() {
        for (address, is_allowed) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("169.254.169.254", true),
            ("fd00:ec2::254", true),
            ("10.0.0.1", false),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(may_be_plain(address.parse().unwrap()), is_allowed, "{address}");
        }
    }
}
