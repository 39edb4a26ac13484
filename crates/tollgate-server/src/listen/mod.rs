//! The listening sockets, which are a part of step 1 of a transaction.
//!
//! A TCP address has one socket for each worker. These sockets share the address by SO_REUSEPORT, and the
//! kernel distributes connections among them. A Unix socket or a socket from systemd is one socket from which
//! all workers accept. [`proxy_header`] reads the header that a proxy sends before the client's first byte.

mod acceptance;
mod handed;
mod inherited;
mod listener;
mod listeners;
mod point;
pub(crate) mod proxy_header;
mod tcp;
mod tune;
mod unix;

pub(crate) use acceptance::Acceptance;
pub use handed::{AwaitedListeners, HandedListen};
pub(crate) use listener::{Listener, OutlivesUs, SocketFamily};
pub use listeners::Listeners;
pub(crate) use point::ListenPoint;

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::os::fd::OwnedFd;

    use socket2::Socket;

    use super::tune::UNSENT_BYTES;
    use super::*;
    use crate::error::StartError;
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
