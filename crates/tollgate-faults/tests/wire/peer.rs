//! The other end of a connection with a faulty backend or client: a plain socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Longest wait of a test. No step of these tests lasts this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) const GET: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
pub(crate) const LAST: &str = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
}

pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        Self::new(stream)
    }

    /// Connects, and sends a request. `None`: the connection was reset before the request was sent.
    pub(crate) fn asking(address: SocketAddr, request: &str) -> Option<Self> {
        let asked = TcpStream::connect_timeout(&address, PATIENCE).and_then(|mut stream| {
            stream.write_all(request.as_bytes())?;
            Ok(stream)
        });
        match asked {
            Ok(stream) => Some(Self::new(stream)),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => None,
            Err(error) => panic!("not asked: {error}"),
        }
    }

    /// Accepts the next connection.
    pub(crate) fn accept(listener: &TcpListener) -> Self {
        Self::new(listener.accept().unwrap().0)
    }

    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Reads this number of bytes.
    pub(crate) fn read(&mut self, bytes: usize) -> String {
        let mut came = vec![0; bytes];
        self.stream.read_exact(&mut came).unwrap();
        String::from_utf8_lossy(&came).into_owned()
    }

    /// Reads until the received bytes contain `end`. Returns the text up to the end of `end`.
    pub(crate) fn read_until(&mut self, end: &str) -> String {
        let mut came = String::new();
        while !came.ends_with(end) {
            came += &self.read(1);
        }
        came
    }

    /// Reads until the connection ends. Returns the bytes and the kind of end.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        let mut came = Vec::new();
        let mut part = [0; 65536];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return (came, End::Closed),
                Ok(bytes) => came.extend_from_slice(&part[..bytes]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return (came, End::Reset),
                Err(error) => panic!("no end: {error}"),
            }
        }
    }

    /// Returns whether the connection stays open without any received byte for `time`.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let read = self.stream.read(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        read.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}
