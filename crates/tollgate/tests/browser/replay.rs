//! A stand-in for the admin listener: the page of a real server, with a status and a history that the test
//! makes up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::program::App;

/// Listens until the test process ends.
pub(crate) struct Replay {
    pub(crate) address: SocketAddr,
}

impl Replay {
    /// Serves this page, and the status and the history of the moment.
    pub(crate) fn serve(
        page: Vec<u8>,
        status: impl FnMut() -> Value + Send + 'static,
        history: Value,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (page, history, status) = (Arc::new(page), Arc::new(history), Arc::new(Mutex::new(status)));
        let accept = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (page, history, status) = (page.clone(), history.clone(), status.clone());
                thread::spawn(move || {
                    let answer = |path: &str| match path {
                        "/" => page.to_vec(),
                        "/status" => json_reply(&(status.lock().unwrap())()),
                        _ => json_reply(&history),
                    };
                    // A browser may open a connection that it never uses.
                    let _ = answer_one(stream, answer);
                });
            }
        };
        thread::spawn(accept);
        Self { address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

fn answer_one(mut stream: TcpStream, answer: impl Fn(&str) -> Vec<u8>) -> std::io::Result<()> {
    let head = BufReader::new(stream.try_clone()?).lines().map_while(Result::ok);
    let lines: Vec<_> = head.take_while(|line| !line.is_empty()).collect();
    let target = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    stream.write_all(&answer(target.split('?').next().unwrap_or_default()))
}

fn json_reply(value: &Value) -> Vec<u8> {
    let content = value.to_string();
    let length = content.len();
    let head =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: no-store\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {length}\r\n\r\n{content}").into_bytes()
}

/// Returns the whole reply of the admin socket of a running server.
pub(crate) fn reply_of(app: &App, path: &str) -> Vec<u8> {
    exchange(UnixStream::connect(app.log_dir().join("admin.sock")).unwrap(), path)
}

/// Returns the content of `/status` of a running server.
pub(crate) fn status_of(app: &App) -> Value {
    content_of(reply_of(app, "/status"))
}

/// Returns the content of `/status` of a server whose admin listener has this address.
pub(crate) fn status_at(address: SocketAddr) -> Value {
    content_of(exchange(TcpStream::connect(address).unwrap(), "/status"))
}

fn exchange(mut stream: impl Read + Write, path: &str) -> Vec<u8> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    reply
}

fn content_of(reply: Vec<u8>) -> Value {
    String::from_utf8(reply).unwrap().split_once("\r\n\r\n").unwrap().1.parse().unwrap()
}
