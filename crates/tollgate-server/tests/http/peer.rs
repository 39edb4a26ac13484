//! A client for tests. The client can send single bytes, and reads replies strictly.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// Deadline of each wait. A test that waits for this time has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Peer {
    stream: TcpStream,
    came: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) content: String,
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    /// Connects from the address `source`.
    pub(crate) fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, came: Vec::new() }
    }

    /// Returns a second handle of the same connection, for another thread. Each handle keeps the bytes that
    /// it reads.
    pub(crate) fn clone(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap(), came: Vec::new() }
    }

    /// Sends bytes. A server that has already closed the connection is not an error, because its reply can
    /// still be read.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self.stream.write_all(bytes.as_ref()) {
            Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                panic!("{error}")
            }
            _ => {}
        }
    }

    /// Sends bytes to a server that must accept them.
    pub(crate) fn send_all(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes what is sent");
    }

    /// Sends `bytes` repeatedly until the system accepts no more, even after `turns` gave the server time.
    /// Returns the number of pieces that were begun. A thread sends the remaining bytes of the last piece
    /// when there is space.
    pub(crate) fn fill(&mut self, bytes: &[u8], turns: impl Fn()) -> usize {
        let mut sent = 0;
        let mut refused = 0;
        self.stream.set_nonblocking(true).unwrap();
        while refused < 3 {
            match SockRef::from(&self.stream).send(&bytes[sent % bytes.len()..]) {
                Ok(taken) => (sent, refused) = (sent + taken, 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    refused += 1;
                    turns();
                }
                Err(error) => panic!("{error}"),
            }
            assert!(sent < 256 << 20, "the server reads on and on");
        }
        self.stream.set_nonblocking(false).unwrap();
        let rest = &bytes[sent % bytes.len()..];
        if rest.len() < bytes.len() {
            let (mut stream, rest) = (self.stream.try_clone().unwrap(), rest.to_vec());
            thread::spawn(move || stream.write_all(&rest));
        }
        sent.div_ceil(bytes.len())
    }

    /// Resets the connection, so that the server notices the end at once.
    pub(crate) fn reset(self) {
        Socket::from(self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Ends the sending half of the connection.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads the head of one reply.
    pub(crate) fn head(&mut self) -> Reply {
        let end = self.read_until(|came| find(came, b"\r\n\r\n")) + 4;
        let head = String::from_utf8(self.came.drain(..end).collect()).unwrap();
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a status line");
        Reply { status: status.parse().unwrap(), head, content: String::new() }
    }

    /// Reads one reply. A reply to HEAD has no content.
    pub(crate) fn reply(&mut self, is_head: bool) -> Reply {
        let mut reply = self.head();
        if !is_head && let Some(length) = reply.field("content-length") {
            let length: usize = length.parse().unwrap();
            self.read_until(|came| (came.len() >= length).then_some(length));
            reply.content = String::from_utf8(self.came.drain(..length).collect()).unwrap();
        }
        reply
    }

    /// Reads one reply, and checks its status and the end of its content.
    pub(crate) fn expect(&mut self, status: &str, content: &str) -> Reply {
        let reply = self.reply(false);
        let found = (reply.status.to_string(), reply.content.as_str());
        assert_eq!(found, (status.to_owned(), content), "{reply:?}");
        reply
    }

    /// Reads one reply whose content is not text.
    pub(crate) fn binary_reply(&mut self) -> (Reply, Vec<u8>) {
        let head = self.head();
        let length: usize = head.field("content-length").map_or(0, |length| length.parse().unwrap());
        self.read_until(|came| (came.len() >= length).then_some(length));
        let content = self.came.drain(..length).collect();
        (head, content)
    }

    /// Reads as many bytes, and checks that they are equal to `bytes`.
    pub(crate) fn expect_bytes(&mut self, bytes: &[u8]) {
        self.read_until(|came| (came.len() >= bytes.len()).then_some(0));
        let found: Vec<_> = self.came.drain(..bytes.len()).collect();
        assert_eq!(found.escape_ascii().to_string(), bytes.escape_ascii().to_string());
    }

    /// Checks that the server sends nothing more and closes the connection.
    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => {}
        }
        self.came.extend(rest);
        assert_eq!(self.came.escape_ascii().to_string(), "");
    }

    /// Reads to the end of the connection.
    pub(crate) fn rest(&mut self) -> String {
        self.stream.read_to_end(&mut self.came).unwrap();
        String::from_utf8(std::mem::take(&mut self.came)).unwrap()
    }

    /// Reads to the end of the connection, or until it is reset.
    pub(crate) fn rest_or_reset(&mut self) -> String {
        match self.stream.read_to_end(&mut self.came) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => {}
        }
        String::from_utf8(std::mem::take(&mut self.came)).unwrap()
    }

    /// Reads until the connection is reset. Returns the bytes before the reset.
    pub(crate) fn until_reset(&mut self) -> Vec<u8> {
        let ended = self.stream.read_to_end(&mut self.came);
        assert_eq!(ended.expect_err("the connection is reset").kind(), ErrorKind::ConnectionReset);
        std::mem::take(&mut self.came)
    }

    /// Reads until these bytes have arrived, and returns everything up to their end.
    pub(crate) fn through(&mut self, what: &[u8]) -> String {
        let end = self.read_until(|came| find(came, what)) + what.len();
        String::from_utf8(self.came.drain(..end).collect()).unwrap()
    }

    /// Returns the number of bytes that have arrived and were not used yet.
    pub(crate) fn left(&self) -> usize {
        self.came.len()
    }

    /// Checks that the connection is reset. Bytes before the reset are dropped.
    pub(crate) fn expect_reset(&mut self) {
        let ended = self.stream.read_to_end(&mut Vec::new());
        assert_eq!(ended.expect_err("the connection is reset").kind(), ErrorKind::ConnectionReset);
    }

    /// Reads slowly, in parts of `bytes`, until the connection ends or no more bytes arrive. Returns the
    /// number of bytes read.
    pub(crate) fn sip(&mut self, bytes: usize, pause: Duration) -> usize {
        let mut buffer = vec![0; bytes];
        let mut came = 0;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return came,
                Ok(bytes) => came += bytes,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return came,
                // After a read timeout, the server keeps the connection open but has no more bytes to send.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return came,
                Err(error) => panic!("{error}"),
            }
            thread::sleep(pause);
        }
    }

    /// Returns whether all bytes that the server has sent so far were read.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let mut byte = [0];
        let peeked = self.stream.peek(&mut byte);
        self.stream.set_nonblocking(false).unwrap();
        self.came.is_empty() && peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads up to these bytes, or to the end of the connection. Returns whether these bytes arrived.
    pub(crate) fn until_end_or(&mut self, what: &[u8]) -> bool {
        self.read_or_end(|came| came.ends_with(what))
    }

    /// Reads this many bytes, or to the end of the connection. Returns whether all of them arrived.
    pub(crate) fn has_content_of(&mut self, bytes: usize) -> bool {
        self.read_or_end(|came| came.len() >= bytes)
    }

    fn read_or_end(&mut self, is_there: impl Fn(&[u8]) -> bool) -> bool {
        let mut buffer = [0; 16 << 10];
        while !is_there(&self.came) {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
                read => self.came.extend_from_slice(&buffer[..read.expect("the server goes on in time")]),
            }
        }
        true
    }

    fn read_until(&mut self, is_there: impl Fn(&[u8]) -> Option<usize>) -> usize {
        loop {
            if let Some(at) = is_there(&self.came) {
                return at;
            }
            let mut buffer = [0; 16 << 10];
            let bytes = self.stream.read(&mut buffer).expect("the server answers in time");
            let so_far = self.came.escape_ascii();
            assert!(bytes > 0, "the server closed after: {so_far}");
            self.came.extend_from_slice(&buffer[..bytes]);
        }
    }
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
