//! Step 1: the listening sockets, one per worker and address, sharing the address by SO_REUSEPORT.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::StartError;
use crate::options::ServerOptions;

/// Sockets that listen, for each worker one per address.
pub struct Listeners {
    pub(crate) by_worker: Vec<Vec<TcpListener>>,
    addresses: Vec<SocketAddr>,
}

impl Listeners {
    /// Binds the addresses for all workers. Connections queue up from now on.
    ///
    /// Each address is first bound alone, so that a second server fails instead of taking every other connection.
    ///
    /// # Errors
    /// `Listen` names the address.
    pub fn bind(options: &ServerOptions) -> Result<Self, StartError> {
        let mut by_worker: Vec<_> = (0..options.workers).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for &address in &options.listen {
            let fail = |source| StartError::Listen { address, source };
            if address.port() != 0 {
                drop(bind(address, Sharing::Alone).map_err(fail)?);
            }
            let mut bound = address;
            for listeners in &mut by_worker {
                let socket = bind(bound, Sharing::AmongWorkers).map_err(fail)?;
                socket.listen(backlog(options.backlog)).map_err(fail)?;
                let listener = TcpListener::from(socket);
                bound = listener.local_addr().map_err(fail)?;
                listeners.push(listener);
            }
            addresses.push(bound);
        }
        Ok(Self { by_worker, addresses })
    }

    /// The addresses, in the order of the options, with the ports that were found for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    AmongWorkers,
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Lets a restart bind while connections of the run before are in TIME-WAIT; never beside a listener.
    socket.set_reuse_address(true)?;
    if sharing == Sharing::AmongWorkers {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    // A reply is one write: waiting for more to send would only delay it. Connections inherit this (Linux).
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::options;

    #[test]
    fn workers_share_an_address_and_a_second_server_does_not() {
        let mut options = options();
        options.workers = 3;
        let listeners = Listeners::bind(&options).unwrap();
        let address = listeners.addresses()[0];
        assert_ne!(address.port(), 0);
        assert_eq!(listeners.by_worker.len(), 3);
        let _peer = std::net::TcpStream::connect(address).unwrap();
        let accepted = listeners.by_worker.iter().flatten().find_map(|listener| listener.accept().ok());
        assert!(accepted.unwrap().0.nodelay().unwrap());
        options.listen = vec![address];
        let Err(StartError::Listen { address: named, source }) = Listeners::bind(&options) else { panic!() };
        assert_eq!((named, source.kind()), (address, io::ErrorKind::AddrInUse));
        drop(listeners);
        assert!(Listeners::bind(&options).is_ok());
    }
}
