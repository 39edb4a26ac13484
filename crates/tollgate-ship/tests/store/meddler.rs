//! A proxy between client and server that loses, cuts and invents answers.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Treatment of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meddling {
    /// The proxy forwards the request and its answer. The answer announces the end of the connection.
    Pass,
    /// The proxy forwards the request and its answer. The answer does not announce the end of the connection.
    PassAndClose,
    /// The request is carried out, and its answer is lost.
    LoseAnswer,
    /// The request is carried out, and the answer says that the server is busy.
    BusyAfter,
    /// The request is not carried out, and the answer has this status.
    Refuse(u16),
    /// The request is not carried out, and the answer has this body.
    Say(&'static str),
    /// One bit of the request's body is changed on the way to the server.
    Damage,
    /// The answer ends after this many bytes of its body.
    Cut(usize),
    /// The request is carried out, and the answer says that the object is stored.
    AlwaysStored,
    /// The client gets no byte of an answer.
    Silence,
}

type Plan = Box<dyn FnMut(&str) -> Meddling + Send>;

struct Shared {
    server: SocketAddr,
    /// Function that gets the request line and returns the treatment.
    plan: Mutex<Plan>,
    /// All request lines that the proxy received.
    seen: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

/// The running proxy. Each connection carries one request.
pub(crate) struct Meddler {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Meddler {
    /// Starts a proxy. `plan` gets each request line, and returns the treatment of the request.
    pub(crate) fn start(server: SocketAddr, plan: impl FnMut(&str) -> Meddling + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (plan, seen): (Plan, _) = (Box::new(plan), Mutex::default());
        let plan = Mutex::new(plan);
        let shared = Arc::new(Shared { server, plan, seen, is_over: AtomicBool::new(false) });
        let thread = thread::spawn({
            let shared = shared.clone();
            move || {
                for client in listener.incoming() {
                    if shared.is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let (shared, client) = (shared.clone(), client.unwrap());
                    thread::spawn(move || drop(serve(&shared, client)));
                }
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// Returns all request lines that the proxy received.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Returns whether a connection is still open on the client's side, as the kernel reports it.
    pub(crate) fn has_established(&self) -> bool {
        let server = format!("0100007F:{:04X}", self.address.port());
        let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
        let is_established = |line: &str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields[2] == server && fields[3] == "01"
        };
        sockets.lines().any(is_established)
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn serve(shared: &Shared, mut client: TcpStream) -> io::Result<()> {
    let (head, mut body) = read_message(&mut client)?;
    let line = head.lines().next().unwrap_or_default().to_owned();
    let meddling = (shared.plan.lock().unwrap())(&line);
    shared.seen.lock().unwrap().push(line);
    match meddling {
        Meddling::Refuse(status) => return client.write_all(refusal(status).as_bytes()),
        Meddling::Say(body) => {
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            return client.write_all(format!("{head}{body}").as_bytes());
        }
        Meddling::Silence => {
            // Waits until the client gives up and closes the connection.
            return io::copy(&mut client, &mut io::sink()).map(drop);
        }
        Meddling::Damage => {
            if let Some(byte) = body.last_mut() {
                *byte ^= 1;
            }
        }
        _ => {}
    }
    let answer = ask(shared.server, &head, &body)?;
    match meddling {
        Meddling::LoseAnswer => Ok(()),
        Meddling::BusyAfter => client.write_all(refusal(503).as_bytes()),
        Meddling::AlwaysStored => client
            .write_all(b"HTTP/1.1 200 OK\r\nETag: \"any\"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
        Meddling::Cut(bytes) => {
            let body_at = head_bytes(&answer).unwrap_or(answer.len());
            client.write_all(&answer[..(body_at + bytes).min(answer.len())])
        }
        Meddling::PassAndClose => client.write_all(&without_connection(&answer)),
        _ => client.write_all(&answer),
    }
}

fn refusal(status: u16) -> String {
    let body = "<Error><Code>SlowDown</Code></Error>";
    format!("HTTP/1.1 {status} Refused\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Sends a request to the server and reads its answer up to the end of the connection.
fn ask(server: SocketAddr, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    let head = head.strip_suffix("\r\n").unwrap_or(head);
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Returns an answer without its fields about the connection.
fn without_connection(answer: &[u8]) -> Vec<u8> {
    let (head, body) = answer.split_at(head_bytes(answer).unwrap_or(0));
    let head = String::from_utf8_lossy(head);
    let is_other = |line: &&str| !line.to_lowercase().starts_with("connection:");
    let kept: String = head.split_inclusive("\r\n").filter(is_other).collect();
    [kept.as_bytes(), body].concat()
}

/// Reads the head and the body of a request.
pub(crate) fn read_message(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        if let Some(at) = head_bytes(&bytes) {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            if bytes.len() - at >= content_length(&head) {
                return Ok((head, bytes.split_off(at)));
            }
        }
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Returns the bytes of a head with its empty line.
fn head_bytes(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn content_length(head: &str) -> usize {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    };
    head.lines().find_map(value).unwrap_or(0)
}
