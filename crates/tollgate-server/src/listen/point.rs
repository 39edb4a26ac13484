//! One bound address with all its sockets, and the listeners that workers get of it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use socket2::{SockAddr, Socket};

use super::acceptance::Acceptance;
use super::listener::{Listener, OutlivesUs, SocketFamily};
use super::tcp::{bind_among_workers, bind_for_workers};
use super::tune::tune_tcp;
use super::unix::{self, SocketFile};
use crate::options::{BoundAddress, ListenAddress, ListenSpec};

/// The sockets of a bound address.
enum Sockets {
    /// TCP sockets that share the address by SO_REUSEPORT. Each has a queue of its own.
    Group(Vec<Socket>),
    /// One socket from which all workers accept.
    One(Socket),
}

/// A bound address. It has copies of the sockets that its listeners have, for a successor.
pub(crate) struct ListenPoint {
    spec: ListenSpec,
    pub(super) bound: BoundAddress,
    sockets: Sockets,
    outlives_us: OutlivesUs,
    /// The file of a Unix socket.
    _file: Option<SocketFile>,
}

impl ListenPoint {
    /// Binds a TCP address for all workers. The address is first bound without sharing, so a second server
    /// fails, and does not take a part of the connections.
    pub(super) fn tcp(
        spec: &ListenSpec,
        address: SocketAddr,
        workers: usize,
        backlog: i32,
    ) -> io::Result<Self> {
        let sockets = bind_for_workers(address, workers, backlog)?;
        Self::group(spec, sockets, OutlivesUs::default())
    }

    fn group(spec: &ListenSpec, sockets: Vec<Socket>, outlives_us: OutlivesUs) -> io::Result<Self> {
        let bound = match sockets.first() {
            Some(socket) => bound_address(&socket.local_addr()?, spec.tls),
            None => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Self { spec: spec.clone(), bound, sockets: Sockets::Group(sockets), outlives_us, _file: None })
    }

    /// Binds a Unix socket.
    pub(super) fn unix(spec: &ListenSpec, path: &Path, mode: u32, backlog: i32) -> io::Result<Self> {
        let outlives_us = OutlivesUs::default();
        let (socket, file) = unix::bind(path, mode, backlog, outlives_us.clone())?;
        Self::one(spec, socket, outlives_us, Some(file))
    }

    /// Makes an address of one socket from systemd, which keeps the socket.
    pub(super) fn inherited(spec: &ListenSpec, socket: Socket) -> io::Result<Self> {
        Self::one(spec, socket, OutlivesUs::new(true), None)
    }

    fn one(
        spec: &ListenSpec,
        socket: Socket,
        outlives_us: OutlivesUs,
        file: Option<SocketFile>,
    ) -> io::Result<Self> {
        let bound = bound_address(&socket.local_addr()?, spec.tls);
        let sockets = Sockets::One(socket);
        Ok(Self { spec: spec.clone(), bound, sockets, outlives_us, _file: file })
    }

    /// Makes the addresses of a configured address from the sockets of a predecessor. Until [`Self::own`],
    /// the sockets and their file belong to the predecessor.
    pub(super) fn handed(spec: &ListenSpec, sockets: Vec<OwnedFd>) -> io::Result<Vec<Self>> {
        let sockets: Vec<_> = sockets.into_iter().map(Socket::from).collect();
        match &spec.address {
            ListenAddress::Tcp(_) => Ok(vec![Self::group(spec, sockets, OutlivesUs::new(true))?]),
            ListenAddress::Unix { path, mode } => {
                let adopt = |socket| {
                    let outlives_us = OutlivesUs::new(true);
                    let file = SocketFile::adopt(path, *mode, outlives_us.clone())?;
                    Self::one(spec, socket, outlives_us, file)
                };
                sockets.into_iter().map(adopt).collect()
            }
            ListenAddress::Systemd(_) => {
                sockets.into_iter().map(|socket| Self::inherited(spec, socket)).collect()
            }
        }
    }

    /// Returns the address as it is configured.
    pub(crate) fn name(&self) -> String {
        self.spec.address.to_string()
    }

    /// Makes this server the owner of the sockets and of their file.
    pub(crate) fn own(&self) {
        if !matches!(self.spec.address, ListenAddress::Systemd(_)) {
            self.outlives_us.set(false);
        }
    }

    /// Leaves the sockets and their file to a successor, which has them.
    pub(crate) fn leave(&self) {
        self.outlives_us.set(true);
    }

    /// Returns copies of the sockets.
    pub(crate) fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        let copy = |socket: &Socket| socket.try_clone().map(OwnedFd::from);
        match &self.sockets {
            Sockets::Group(sockets) => sockets.iter().map(copy).collect(),
            Sockets::One(socket) => Ok(vec![copy(socket)?]),
        }
    }

    /// Closes the sockets of this value. The file is deleted later, when no worker serves its socket.
    pub(crate) fn close_copies(&mut self) {
        self.sockets = Sockets::Group(Vec::new());
    }

    /// Adds the sockets to the listeners of the workers.
    ///
    /// A predecessor may have had more or fewer workers. Surplus sockets of a group are dealt among the
    /// workers, so each queue is served. A worker without a socket gets a new one.
    pub(super) fn deal(&mut self, by_worker: &mut [Vec<Listener>], backlog: i32) -> io::Result<()> {
        let bound = self.bound.tcp();
        if let (Sockets::Group(sockets), Some(bound)) = (&mut self.sockets, bound) {
            while sockets.len() < by_worker.len() {
                let socket = bind_among_workers(bound)?;
                socket.listen(backlog)?;
                sockets.push(socket);
            }
        }
        match &self.sockets {
            Sockets::Group(sockets) => {
                for (index, socket) in sockets.iter().enumerate() {
                    by_worker[index % by_worker.len()].push(self.listener(socket)?);
                }
            }
            Sockets::One(socket) => {
                for listeners in by_worker {
                    listeners.push(self.listener(socket)?);
                }
            }
        }
        Ok(())
    }

    fn listener(&self, socket: &Socket) -> io::Result<Listener> {
        let family = match self.bound {
            BoundAddress::Tcp(_) | BoundAddress::Tls(_) => {
                tune_tcp(socket)?;
                SocketFamily::Tcp
            }
            BoundAddress::Unix(_) => SocketFamily::Unix,
        };
        let acceptance = Acceptance::set(socket.as_fd(), self.spec.deferred)?;
        let ListenSpec { proxy_protocol, tls, redirect_to_https, .. } = self.spec;
        let socket = socket.try_clone()?.into();
        let outlives_us = self.outlives_us.clone();
        Ok(Listener { socket, family, proxy_protocol, acceptance, tls, redirect_to_https, outlives_us })
    }
}

fn bound_address(address: &SockAddr, tls: bool) -> BoundAddress {
    match address.as_socket() {
        Some(address) if tls => BoundAddress::Tls(address),
        Some(address) => BoundAddress::Tcp(address),
        None => BoundAddress::Unix(address.as_pathname().map(PathBuf::from).unwrap_or_default()),
    }
}
