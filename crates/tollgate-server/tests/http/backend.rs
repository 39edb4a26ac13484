//! A backend that a test controls, connection by connection and byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use tollgate_server::{BackendOptions, HandlerSpec, ProxySpec};

use crate::peer::PATIENCE;
use crate::site::{Running, Site};

pub(crate) struct FakeBackend {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Receiver<String>,
}

/// A connection that the backend accepted.
pub(crate) struct Taken {
    /// Index of the connection, counted from 0.
    pub(crate) number: usize,
    stream: TcpStream,
    came: Vec<u8>,
    requests: std::sync::mpsc::Sender<String>,
}

impl FakeBackend {
    /// Starts a backend that serves each connection in a separate thread.
    pub(crate) fn start(serve: impl Fn(&mut Taken) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (connections.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let mut taken = Taken { number, stream, came: Vec::new(), requests: sender.clone() };
                let serve = serve.clone();
                thread::spawn(move || serve(&mut taken));
            }
        });
        Self { address, connections, requests }
    }

    /// Starts a backend that answers every request with the same bytes.
    pub(crate) fn replying(reply: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::start(move |taken| {
            while taken.request().is_some() {
                taken.send(reply.as_ref());
            }
        })
    }

    /// Starts a backend that answers every connection with a reply without an end. The backend sends `0` to
    /// the test when the server accepts no more bytes. `framing` is the field that announces the content.
    pub(crate) fn endless(framing: &'static str) -> Self {
        Self::start(move |taken| {
            taken.request();
            taken.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
            let chunk = format!("4000\r\n{}\r\n", "x".repeat(16 << 10));
            while taken.fill_once(chunk.as_bytes()) {}
            taken.requests_done(0);
        })
    }

    /// Returns the next request that arrived, as text.
    pub(crate) fn request(&self) -> String {
        self.requests.recv_timeout(PATIENCE).expect("the backend is asked")
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn options(&self) -> BackendOptions {
        BackendOptions::new("app", vec![format!("http://{}", self.address).parse().unwrap()])
    }
}

impl Taken {
    /// Reads one request with its content. Returns `None` if the connection ends.
    pub(crate) fn request(&mut self) -> Option<String> {
        let head_end = loop {
            if let Some(end) = self.came.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.read()?;
        };
        let head = String::from_utf8(self.came.drain(..head_end).collect()).unwrap();
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        while self.came.len() < length {
            self.read()?;
        }
        let content: Vec<u8> = self.came.drain(..length).collect();
        let request = head + &String::from_utf8_lossy(&content);
        // The test that started the backend may have ended.
        let _ = self.requests.send(request.clone());
        Some(request)
    }

    /// Returns the address at which the connection arrived.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Reads only the head of a request.
    pub(crate) fn head(&mut self) {
        while !self.came.windows(4).any(|window| window == b"\r\n\r\n") {
            self.read().expect("a head comes");
        }
    }

    /// Returns whether the request begins with this method.
    pub(crate) fn came_with(&self, method: &str) -> bool {
        self.came.starts_with(method.as_bytes())
    }

    /// Waits until this many bytes of a request have arrived. Returns `false` if the connection ends before
    /// that.
    pub(crate) fn has(&mut self, bytes: usize) -> bool {
        while self.came.len() < bytes {
            if self.read().is_none() {
                return false;
            }
        }
        true
    }

    /// Reads one chunked request, and returns its content. Returns `None` if the connection ends.
    pub(crate) fn chunked_request(&mut self) -> Option<String> {
        while !self.came.ends_with(b"\r\n0\r\n\r\n") {
            self.read()?;
        }
        let request = String::from_utf8(std::mem::take(&mut self.came)).unwrap();
        let (head, mut rest) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(field(head, "transfer-encoding"), Some("chunked"));
        assert!(field(head, "content-length").is_none() && field(head, "expect").is_none());
        let mut content = String::new();
        loop {
            let (size, data) = rest.split_once("\r\n").unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                return Some(content);
            }
            content.push_str(&data[..size]);
            rest = data[size..].strip_prefix("\r\n").unwrap();
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut buffer = [0; 16 << 10];
        let bytes = self.stream.read(&mut buffer).ok().filter(|bytes| *bytes > 0)?;
        self.came.extend_from_slice(&buffer[..bytes]);
        Some(())
    }

    /// Returns whether the head that has come announces chunks.
    pub(crate) fn came_chunked(&self) -> bool {
        String::from_utf8_lossy(&self.came).contains("chunked")
    }

    /// Reads a request with a length, and drops its content. Returns the length of the content.
    pub(crate) fn drain(&mut self) -> usize {
        self.head();
        let head = String::from_utf8_lossy(&self.came).into_owned();
        let length = field(&head, "content-length").unwrap().parse().unwrap();
        let mut came = self.came.len() - head.find("\r\n\r\n").unwrap() - 4;
        while came < length {
            self.came.clear();
            self.read().expect("the content comes");
            came += self.came.len();
        }
        came
    }

    /// Sends a text to the test, which receives it instead of a request.
    pub(crate) fn report(&self, text: String) {
        let _ = self.requests.send(text);
    }

    /// Sends bytes. A closed connection is not an error.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Ends the connection by a reset.
    pub(crate) fn reset(&mut self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Waits until the server closes the connection.
    pub(crate) fn wait_for_end(&mut self) {
        while self.read().is_some() {}
    }

    /// Sends the same bytes repeatedly until the server accepts no more. Returns the number of accepted
    /// bytes.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        loop {
            match SockRef::from(&self.stream).send(bytes) {
                Ok(taken) if taken > 0 => sent += taken,
                _ => return sent,
            }
        }
    }

    /// Sends the bytes once. Returns `false` if the server accepts no more bytes.
    pub(crate) fn fill_once(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a number to the test, which receives it instead of a request.
    pub(crate) fn requests_done(&self, number: usize) {
        let _ = self.requests.send(number.to_string());
    }

    pub(crate) fn set_write_timeout(&self, timeout: Duration) {
        self.stream.set_write_timeout(Some(timeout)).unwrap();
    }
}

pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.split("\r\n\r\n").next().unwrap_or_default().split("\r\n").skip(1);
    let mut fields = lines.filter_map(|line| line.split_once(": "));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

impl Running {
    /// Waits until no backend has a request in flight.
    pub(crate) fn await_idle_backends(&self) {
        while self.backends().iter().any(|backend| backend.in_flight > 0) {
            thread::yield_now();
        }
    }
}

impl Site {
    /// Adds a backend, and a route that forwards to it.
    pub(crate) fn proxy(
        mut self,
        path: &str,
        options: BackendOptions,
        tune: impl FnOnce(&mut ProxySpec),
    ) -> Self {
        let mut spec = ProxySpec::new(self.options.backends.len());
        tune(&mut spec);
        self.options.backends.push(options);
        let stream = (!self.options.streams.is_empty()).then_some(0);
        self.route(path, HandlerSpec::Proxy(Box::new(spec)), stream)
    }
}
