//! Operations on sockets that the types of tokio do not have.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Interval between two checks of a connection that is not read.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Binds a socket that does not listen. The socket reserves the port, and the kernel refuses connections.
pub(crate) fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // With this option, a second socket of this process can listen on the port, also after an earlier socket
    // was closed.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Listens on an address. The kernel queues up to `backlog` connections that are not accepted, and one more.
pub(crate) fn listening(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = bind(address)?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Ends the sending half of the connection.
pub(crate) fn finish(stream: &TcpStream) {
    // This call fails only if the peer has ended the connection already.
    let _ = SockRef::from(stream).shutdown(Shutdown::Write);
}

/// Ends the connection by RST.
pub(crate) fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(stream);
}

/// Reads and drops bytes until the peer ends the connection.
pub(crate) async fn drain(stream: &TcpStream) {
    let mut buffer = [0; 16 << 10];
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Waits until the peer ends the connection, without reading the received bytes.
pub(crate) async fn gone(stream: &TcpStream) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Sends all bytes.
pub(crate) async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
