//! Carries connections without TLS over TLS to a server, so that a test without TLS tests a listener with
//! TLS.
//!
//! The end of each side stays what it is: a half-close becomes a `close_notify` and a half-close, and a reset
//! becomes a reset. An end of the server without `close_notify` becomes a reset too, because the client of
//! TLS cannot rely on the content before it (RFC 8446 section 6.1).

use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

use crate::tls_client::receive;

/// Bytes of one read from a socket.
const READ_BYTES: usize = 16 << 10;

/// The thread that carries all connections. It runs until the process ends, because a connection may last
/// longer than its site.
static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// An address whose connections are carried to a server. No more are accepted after the value is dropped.
pub(crate) struct Pump {
    pub(crate) address: SocketAddr,
    accepting: AbortHandle,
}

impl Pump {
    pub(crate) fn start(server: SocketAddr, client: Arc<ClientConfig>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = RUNTIME.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((plain, peer)) = listener.accept().await {
                tokio::spawn(carry(plain, peer, server, client.clone()));
            }
        });
        Self { address, accepting: accepting.abort_handle() }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Carries one connection. The server sees the IP address of the client.
async fn carry(plain: TcpStream, peer: SocketAddr, server: SocketAddr, client: Arc<ClientConfig>) {
    let carried = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((peer.ip(), 0)))?;
        let tls = socket.connect(server).await?;
        plain.set_nodelay(true)?;
        tls.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let session = ClientConnection::new(client, name).map_err(io::Error::other)?;
        let mut carried = Carried::new(&plain, &tls, session);
        let ended = carried.run().await;
        if ended.is_err() {
            SockRef::from(&tls).set_linger(Some(Duration::ZERO))?;
        }
        ended
    };
    if carried.await.is_err() {
        let _ = SockRef::from(&plain).set_linger(Some(Duration::ZERO));
    }
}

/// State of the direction from the client to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Up {
    Open,
    /// The client has sent its end. The end has not left to the server.
    Ending,
    Ended,
    /// The server accepts no more bytes. Its earlier bytes may still arrive.
    Broken,
}

/// A connection, and the bytes between its two sockets. Each direction reads only after its earlier bytes
/// left, so the bytes are few.
struct Carried<'a> {
    plain: &'a TcpStream,
    tls: &'a TcpStream,
    session: ClientConnection,
    up: Up,
    /// Whether the client has the end of the server.
    is_down_ended: bool,
    /// Content for the client.
    content: Vec<u8>,
    buffer: Box<[u8]>,
}

impl<'a> Carried<'a> {
    fn new(plain: &'a TcpStream, tls: &'a TcpStream, session: ClientConnection) -> Self {
        let (content, buffer) = (Vec::new(), vec![0; READ_BYTES].into());
        Self { plain, tls, session, up: Up::Open, is_down_ended: false, content, buffer }
    }

    /// Carries both directions to their ends. An error means that both sides are reset.
    async fn run(&mut self) -> io::Result<()> {
        while !self.is_down_ended || matches!(self.up, Up::Open | Up::Ending) {
            let has_moved = self.send_up() | self.send_down()? | self.read_up()? | self.read_down()?;
            if !has_moved {
                self.wait().await?;
            }
        }
        if self.up == Up::Broken { Err(ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }

    /// Sends records or the end to the server. Returns whether one left, or whether none can leave any more.
    fn send_up(&mut self) -> bool {
        if self.up == Up::Broken {
            return false;
        }
        if self.session.wants_write() {
            let sent = at_once(self.session.write_tls(&mut Wire(self.tls)));
            if sent.is_err() {
                self.up = Up::Broken;
            }
            return !matches!(sent, Ok(None));
        }
        if self.up != Up::Ending {
            return false;
        }
        let is_shut = SockRef::from(self.tls).shutdown(Shutdown::Write).is_ok();
        self.up = if is_shut { Up::Ended } else { Up::Broken };
        true
    }

    /// Returns whether the next bytes of the client may be read.
    fn can_read_up(&self) -> bool {
        self.up == Up::Open && !self.session.is_handshaking() && !self.session.wants_write()
    }

    fn read_up(&mut self) -> io::Result<bool> {
        if !self.can_read_up() {
            return Ok(false);
        }
        let Some(bytes) = at_once(self.plain.try_read(&mut self.buffer))? else { return Ok(false) };
        if bytes == 0 {
            self.session.send_close_notify();
            self.up = Up::Ending;
        }
        self.session.writer().write_all(&self.buffer[..bytes])?;
        Ok(true)
    }

    /// Returns whether the next bytes of the server may be read.
    fn can_read_down(&self) -> bool {
        !self.is_down_ended && self.content.is_empty()
    }

    fn read_down(&mut self) -> io::Result<bool> {
        if !self.can_read_down() {
            return Ok(false);
        }
        let Some(bytes) = at_once(self.tls.try_read(&mut self.buffer))? else { return Ok(false) };
        if bytes > 0 {
            receive(&mut self.session, &self.buffer[..bytes], &mut self.content)?;
        } else if self.session.process_new_packets().is_ok_and(|state| state.peer_has_closed()) {
            SockRef::from(self.plain).shutdown(Shutdown::Write)?;
            self.is_down_ended = true;
        } else {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(true)
    }

    fn send_down(&mut self) -> io::Result<bool> {
        if self.content.is_empty() {
            return Ok(false);
        }
        let sent = at_once(self.plain.try_write(&self.content))?;
        self.content.drain(..sent.unwrap_or(0));
        Ok(sent.is_some())
    }

    /// Waits until a socket can continue. A reset is noticed also while nothing is read from its socket.
    async fn wait(&mut self) -> io::Result<()> {
        let add = |interest: Interest, other, is_wanted| if is_wanted { interest | other } else { interest };
        let plain = add(Interest::ERROR, Interest::READABLE, self.can_read_up());
        let plain = add(plain, Interest::WRITABLE, !self.content.is_empty());
        let tls = add(Interest::ERROR, Interest::READABLE, self.can_read_down());
        let tls = add(tls, Interest::WRITABLE, self.up != Up::Broken && self.session.wants_write());
        tokio::select! {
            ready = self.plain.ready(plain) => {
                if ready?.is_error() {
                    return Err(ErrorKind::ConnectionReset.into());
                }
            }
            ready = self.tls.ready(tls), if self.up != Up::Broken || self.can_read_down() => {
                if ready?.is_error() {
                    self.up = Up::Broken;
                }
            }
        }
        Ok(())
    }
}

/// Returns `None` if a call would have to wait.
fn at_once<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        done => done.map(Some),
    }
}

/// The writing half of a socket, as rustls expects it.
struct Wire<'a>(&'a TcpStream);

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
