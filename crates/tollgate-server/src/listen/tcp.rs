//! Binds TCP sockets.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use super::tune::tune_tcp;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    AmongWorkers,
}

/// Binds an address once for each worker, and listens. Port 0 is one free port for all workers.
pub(super) fn bind_for_workers(address: SocketAddr, workers: usize, backlog: i32) -> io::Result<Vec<Socket>> {
    if address.port() != 0 {
        drop(bind(address, Sharing::Alone)?);
    }
    let mut bound = address;
    let mut sockets = Vec::with_capacity(workers);
    for _ in 0..workers {
        let socket = bind_among_workers(bound)?;
        socket.listen(backlog)?;
        bound = socket.local_addr()?.as_socket().unwrap_or(bound);
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Binds an address that other sockets of this user share by SO_REUSEPORT.
pub(super) fn bind_among_workers(address: SocketAddr) -> io::Result<Socket> {
    bind(address, Sharing::AmongWorkers)
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
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
