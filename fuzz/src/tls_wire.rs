//! The wire between a client and a server of TLS, in memory. The input decides how many bytes each call
//! passes, and whether bytes are changed.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes that wait in one direction, like the buffer of a socket.
pub const WIRE_BYTES_MAX: usize = 16 << 10;

/// End of the bytes of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    Reset,
}

/// A change of the bytes of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The byte at this place has other bits.
    Flipped {
        at: usize,
        bits: u8,
    },
    /// No byte from this place on arrives, and the connection ends.
    Cut {
        at: usize,
        end: End,
    },
}

/// A kind of call. Each kind takes the steps in its own turns, so that none waits for ever.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    ServerRead,
    ServerWrite,
    ClientRead,
    ClientWrite,
}

/// Both directions of a connection.
#[derive(Debug)]
pub struct Wire {
    up: Vec<u8>,
    /// Bytes that the client has sent.
    sent: usize,
    /// Bytes that the server has read.
    pub read: usize,
    fault: Fault,
    pub end: Option<End>,
    pub down: Vec<u8>,
    /// Whether the server has closed its socket.
    pub is_dropped: bool,
    /// Numbers of bytes for the calls, in turns.
    steps: Vec<usize>,
    turns: [usize; 4],
    /// Whether a call of the server waits. A task that waits for no call would never be woken.
    pub is_watched: bool,
}

impl Wire {
    /// Each byte of `steps` is one call. After them a call passes all it can, so that each turn has progress.
    pub fn new(steps: &[u8], fault: Fault) -> Self {
        let step = |&byte: &u8| if byte & 15 == 0 { 0 } else { 1 << (byte & 15) >> 1 };
        let steps = steps.iter().map(step).chain([WIRE_BYTES_MAX]).collect();
        Self {
            up: Vec::new(),
            sent: 0,
            read: 0,
            fault,
            end: None,
            down: Vec::new(),
            is_dropped: false,
            steps,
            turns: [0; 4],
            is_watched: false,
        }
    }

    /// Returns the maximum bytes of this call. 0 means that the call has to wait.
    pub fn step(&mut self, call: Call) -> usize {
        let turn = &mut self.turns[call as usize];
        *turn += 1;
        self.steps[*turn % self.steps.len()]
    }

    /// Returns whether the client may send more.
    pub fn has_space(&self) -> bool {
        self.up.len() < WIRE_BYTES_MAX && self.end.is_none()
    }

    /// Sends bytes of the client.
    pub fn send(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.fault {
                _ if self.end.is_some() => return,
                Fault::Cut { at, end } if at == self.sent => self.end = Some(end),
                Fault::Flipped { at, bits } if at == self.sent => self.up.push(byte ^ bits),
                _ => self.up.push(byte),
            }
            self.sent += 1;
        }
    }
}

/// The socket of the server.
pub struct Socket(pub Rc<RefCell<Wire>>);

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.borrow_mut();
        let bytes = wire.step(Call::ServerRead).min(wire.up.len()).min(out.remaining());
        match wire.end {
            Some(End::Reset) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(End::Closed) if wire.up.is_empty() => return Poll::Ready(Ok(())),
            _ if bytes == 0 => {
                wire.is_watched = true;
                return Poll::Pending;
            }
            _ => {}
        }
        out.put_slice(&wire.up[..bytes]);
        wire.up.drain(..bytes);
        wire.read += bytes;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.borrow_mut();
        if wire.end == Some(End::Reset) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let taken = wire.step(Call::ServerWrite).min(WIRE_BYTES_MAX - wire.down.len()).min(bytes.len());
        if taken == 0 {
            wire.is_watched = true;
            return Poll::Pending;
        }
        wire.down.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.borrow_mut().is_dropped = true;
    }
}
