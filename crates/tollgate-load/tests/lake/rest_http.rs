//! The connections of the REST catalog of the tests: requests, answers, and faults between both.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use serde_json::Value as Json;

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and the query, as they came.
    pub(crate) target: String,
    /// Names in small letters, and values.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

impl Request {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.content).unwrap()
    }
}

/// What the client gets.
#[derive(Debug)]
pub(crate) enum Reply {
    Json(u16, Json),
    /// The connection ends without an answer.
    Cut,
    /// The connection stays open without an answer.
    Silence,
}

/// Serves each connection on a thread of its own, until the process ends.
pub(crate) fn serve(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reply = Arc::new(reply);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let reply = reply.clone();
            thread::spawn(move || drop(converse(client, &*reply)));
        }
    });
    address
}

fn converse(mut client: TcpStream, reply: &dyn Fn(&Request) -> Reply) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    while let Some(request) = read(&mut reader)? {
        match reply(&request) {
            Reply::Cut => return Ok(()),
            Reply::Silence => return io::copy(&mut reader, &mut io::sink()).map(drop),
            Reply::Json(status, json) => {
                let content = if json.is_null() { String::new() } else { json.to_string() };
                let head = format!(
                    "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    content.len()
                );
                client.write_all(format!("{head}{content}").as_bytes())?;
            }
        }
    }
    Ok(())
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        fields.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, target, fields, content: Vec::new() };
    let length = request.field("content-length").map_or(0, |length| length.parse().unwrap());
    request.content = vec![0; length];
    reader.read_exact(&mut request.content)?;
    Ok(Some(request))
}

/// Sends a request without content, and returns the JSON of the answer.
pub(crate) fn get(address: &str, path: &str) -> Json {
    let host = address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut content = vec![0; length];
    reader.read_exact(&mut content).unwrap();
    serde_json::from_slice(&content).unwrap_or_default()
}
