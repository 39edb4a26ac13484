//! A proxy between loader and PostgreSQL that cuts connections when a commit of a table is answered.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The answer to a statement that changed the row of a table.
const CHANGED: &[u8] = b"UPDATE 1\0";

/// A proxy that loses answers.
pub(crate) struct Cut {
    pub(crate) port: u16,
    /// Number of lost answers.
    pub(crate) lost: Arc<AtomicU64>,
}

impl Cut {
    /// Starts a proxy that loses every second answer to a commit of a table, up to `most`.
    pub(crate) fn start(server: u16, most: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let lost = Arc::new(AtomicU64::new(0));
        let (shared, answers) = (lost.clone(), Arc::new(AtomicU64::new(0)));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
                let (lost, answers) = (shared.clone(), answers.clone());
                thread::spawn(move || back(server, client, &lost, &answers, most));
            }
        });
        Self { port, lost }
    }
}

fn back(mut server: TcpStream, mut client: TcpStream, lost: &AtomicU64, answers: &AtomicU64, most: u64) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = server.read(&mut buffer).unwrap_or(0);
        let bytes = &buffer[..count];
        let is_commit = bytes.windows(CHANGED.len()).any(|part| part == CHANGED);
        let is_lost = is_commit
            && answers.fetch_add(1, Ordering::SeqCst).is_multiple_of(2)
            && lost.load(Ordering::SeqCst) < most;
        if is_lost {
            lost.fetch_add(1, Ordering::SeqCst);
        }
        if count == 0 || is_lost || client.write_all(bytes).is_err() {
            drop(client.shutdown(Shutdown::Both));
            drop(server.shutdown(Shutdown::Both));
            return;
        }
    }
}
