//! A proxy between loader and server that breaks the connection at the worst moment: while a COMMIT is sent
//! or answered.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Outcome of the first COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server receives and executes the COMMIT. The answer is lost.
    Arrives,
    /// The COMMIT is lost.
    Lost,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// Whether the connection was broken.
    pub(crate) broke: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy that forwards all bytes to a port, except the first COMMIT after a COPY.
    pub(crate) fn start(server: u16, fate: Fate) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let broke = Arc::new(AtomicBool::new(false));
        let shared = broke.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (answers, answered) = channel();
                let broke = shared.clone();
                let muted = Arc::new(AtomicBool::new(false));
                let mute = muted.clone();
                thread::spawn(move || backward(back.0, back.1, &muted, &answers));
                thread::spawn(move || forward(client, server, fate, &broke, &mute, &answered));
            }
        });
        Self { port, broke }
    }
}

/// Message of a COMMIT: `Q`, the length 11, and the text.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
/// Last bytes of the server's answer to a COMMIT.
const DONE: &[u8] = b"COMMIT\0";
/// First bytes of the data of a binary COPY.
const COPY: &[u8] = b"PGCOPY";

fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    fate: Fate,
    broke: &AtomicBool,
    mute: &AtomicBool,
    answered: &Receiver<()>,
) {
    let (mut buffer, mut has_copied) = ([0; 64 << 10], false);
    while let Ok(bytes @ 1..) = client.read(&mut buffer) {
        let data = &buffer[..bytes];
        has_copied |= holds(data, COPY);
        if has_copied && data.ends_with(COMMIT) && !broke.swap(true, Ordering::SeqCst) {
            if fate == Fate::Arrives {
                mute.store(true, Ordering::SeqCst);
                server.write_all(data).unwrap();
                answered.recv().unwrap();
            }
            server.shutdown(Shutdown::Both).unwrap();
            client.shutdown(Shutdown::Both).unwrap();
            return;
        }
        if server.write_all(data).is_err() {
            return;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn holds(data: &[u8], what: &[u8]) -> bool {
    data.windows(what.len()).any(|window| window == what)
}

fn backward(mut server: TcpStream, mut client: TcpStream, muted: &AtomicBool, answers: &Sender<()>) {
    let mut buffer = [0; 64 << 10];
    while let Ok(bytes @ 1..) = server.read(&mut buffer) {
        if muted.load(Ordering::SeqCst) {
            if holds(&buffer[..bytes], DONE) {
                let _ = answers.send(());
            }
        } else if client.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}
