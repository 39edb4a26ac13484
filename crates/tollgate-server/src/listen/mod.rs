//! The listening sockets, which are a part of step 1 of a transaction.
//!
//! A TCP address has one socket for each worker. These sockets share the address by SO_REUSEPORT, and the
//! kernel distributes connections among them. A Unix socket or a socket from systemd is one socket from which
//! all workers accept. [`proxy_header`] reads the header that a proxy sends before the client's first byte.

mod acceptance;
mod inherited;
pub(crate) mod proxy_header;
mod tune;
mod unix;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

pub(crate) use acceptance::Acceptance;
use inherited::Inherited;
use tune::tune_tcp;
pub(crate) use unix::SocketFile;

use crate::error::StartError;
use crate::options::{BoundAddress, ListenAddress, ListenSpec, ServerOptions};

/// Listening sockets: for each worker, one for each address.
pub struct Listeners {
    pub(crate) by_worker: Vec<Vec<Listener>>,
    pub(crate) files: Vec<SocketFile>,
    addresses: Vec<BoundAddress>,
}

/// One listening socket of one worker.
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) family: SocketFamily,
    pub(crate) proxy_protocol: bool,
    pub(crate) acceptance: Acceptance,
    pub(crate) tls: bool,
    pub(crate) redirect_to_https: bool,
    /// Whether the socket stays open after the server ends, so that connections in its queue are not lost.
    pub(crate) outlives_us: bool,
}

/// The kind of a stream socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketFamily {
    Tcp,
    Unix,
}

impl Listeners {
    /// Binds the addresses for all workers. From now on connections queue up.
    ///
    /// Each address is first bound without sharing. A second server therefore fails, and does not take a part
    /// of the connections.
    ///
    /// # Errors
    /// `Listen` names the address. `Inherited` names the socket that systemd did not pass.
    pub fn bind(options: &ServerOptions) -> Result<Self, StartError> {
        let by_worker = (0..options.workers).map(|_| Vec::new()).collect();
        let mut listeners = Self { by_worker, files: Vec::new(), addresses: Vec::new() };
        let mut inherited = Inherited::from_environment()?;
        for spec in &options.listen {
            let fail = |source| StartError::Listen { address: spec.address.to_string(), source };
            match &spec.address {
                ListenAddress::Tcp(address) => {
                    listeners.bind_tcp(*address, options.backlog, spec).map_err(fail)?;
                }
                ListenAddress::Unix { path, mode } => {
                    let (socket, file) = unix::bind(path, *mode, backlog(options.backlog)).map_err(fail)?;
                    listeners.files.push(file);
                    listeners.share(&socket, spec, false).map_err(fail)?;
                }
                ListenAddress::Systemd(name) => {
                    for socket in inherited.take(name.as_deref())? {
                        listeners.share(&socket, spec, true).map_err(fail)?;
                    }
                }
            }
        }
        inherited.warn_of_the_rest();
        Ok(listeners)
    }

    /// Returns the addresses in the order of the options. Port 0 is replaced by the actual port.
    pub fn addresses(&self) -> &[BoundAddress] {
        &self.addresses
    }

    fn bind_tcp(&mut self, address: SocketAddr, queue: u32, spec: &ListenSpec) -> io::Result<()> {
        if address.port() != 0 {
            drop(bind_tcp(address, Sharing::Alone)?);
        }
        let mut bound = address;
        for listeners in &mut self.by_worker {
            let socket = bind_tcp(bound, Sharing::AmongWorkers)?;
            socket.listen(backlog(queue))?;
            let acceptance = Acceptance::set(socket.as_fd(), spec.deferred)?;
            bound = socket.local_addr()?.as_socket().unwrap_or(bound);
            listeners.push(Listener {
                socket: socket.into(),
                family: SocketFamily::Tcp,
                proxy_protocol: spec.proxy_protocol,
                acceptance,
                tls: spec.tls,
                redirect_to_https: spec.redirect_to_https,
                outlives_us: false,
            });
        }
        self.addresses.push(if spec.tls { BoundAddress::Tls(bound) } else { BoundAddress::Tcp(bound) });
        Ok(())
    }

    /// Adds the socket to the listeners of each worker, with a separate descriptor for each.
    fn share(&mut self, socket: &Socket, spec: &ListenSpec, outlives_us: bool) -> io::Result<()> {
        let bound = bound_address(&socket.local_addr()?, spec.tls);
        let family = match bound {
            BoundAddress::Tcp(_) | BoundAddress::Tls(_) => {
                tune_tcp(socket)?;
                SocketFamily::Tcp
            }
            BoundAddress::Unix(_) => SocketFamily::Unix,
        };
        let acceptance = Acceptance::set(socket.as_fd(), spec.deferred)?;
        let ListenSpec { proxy_protocol, tls, redirect_to_https, .. } = *spec;
        for listeners in &mut self.by_worker {
            let socket = socket.try_clone()?.into();
            listeners.push(Listener {
                socket,
                family,
                proxy_protocol,
                acceptance,
                tls,
                redirect_to_https,
                outlives_us,
            });
        }
        self.addresses.push(bound);
        Ok(())
    }
}

fn bound_address(address: &SockAddr, tls: bool) -> BoundAddress {
    match address.as_socket() {
        Some(address) if tls => BoundAddress::Tls(address),
        Some(address) => BoundAddress::Tcp(address),
        None => BoundAddress::Unix(address.as_pathname().map(PathBuf::from).unwrap_or_default()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    AmongWorkers,
}

fn bind_tcp(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart can bind while connections of the previous run are in TIME-WAIT. Two listeners still exclude
    // each other.
    socket.set_reuse_address(true)?;
    if sharing == Sharing::AmongWorkers {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        // An IPv6 address does not include IPv4, so that 0.0.0.0 and [::] can both be configured.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    tune_tcp(&socket)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;

    use super::tune::UNSENT_BYTES;
    use super::*;
    use crate::options::tests::options;

    /// Checks that an accepted connection inherited the options of its listener.
    pub(super) fn expect_tuned(accepted: OwnedFd) {
        let accepted = Socket::from(accepted);
        assert!(accepted.tcp_nodelay().unwrap());
        assert_eq!(accepted.tcp_notsent_lowat().unwrap(), UNSENT_BYTES);
    }

    #[test]
    fn workers_share_an_address_and_a_second_server_does_not() {
        let mut options = options();
        options.workers = 3;
        let listeners = Listeners::bind(&options).unwrap();
        let address = listeners.addresses()[0].tcp().unwrap();
        assert_ne!(address.port(), 0);
        assert_eq!(listeners.by_worker.len(), 3);
        let _peer = TcpStream::connect(address).unwrap();
        let accepted = listeners
            .by_worker
            .iter()
            .flatten()
            .find_map(|listener| rustix::net::accept(&listener.socket).ok());
        expect_tuned(accepted.unwrap());
        options.listen = vec![address.into()];
        let Err(StartError::Listen { address: named, source }) = Listeners::bind(&options) else { panic!() };
        assert_eq!((named, source.kind()), (address.to_string(), io::ErrorKind::AddrInUse));
        drop(listeners);
        assert!(Listeners::bind(&options).is_ok());
    }

    #[test]
    fn a_deferred_address_gives_a_connection_out_when_bytes_have_come() {
        let mut options = options();
        options.listen[0].deferred = true;
        let listeners = Listeners::bind(&options).unwrap();
        let accept = || {
            let mut all = listeners.by_worker.iter().flatten();
            all.find_map(|listener| rustix::net::accept(&listener.socket).ok())
        };
        let mut peer = TcpStream::connect(listeners.addresses()[0].tcp().unwrap()).unwrap();
        assert!(accept().is_none(), "it has sent nothing");
        peer.write_all(b"GET").unwrap();
        assert!(accept().is_some());
    }

    #[test]
    fn both_families_listen_on_one_port() {
        let mut options = options();
        options.listen = vec![SocketAddr::from(([0, 0, 0, 0], 0)).into()];
        let four = Listeners::bind(&options).unwrap();
        let port = four.addresses()[0].tcp().unwrap().port();
        options.listen = vec![SocketAddr::from(([0u16; 8], port)).into()];
        let six = Listeners::bind(&options).unwrap();
        for host in ["127.0.0.1", "::1"] {
            TcpStream::connect((host, port)).unwrap();
        }
        drop(four);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        drop(six);
    }
}
