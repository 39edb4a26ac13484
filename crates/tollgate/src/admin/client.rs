//! One client of the admin listener: reads a request, writes the answer, and closes the connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use rustix::event::PollFlags;
use socket2::Socket;
use tollgate_http::{HeadReader, Limits};

use super::answer::Answering;
use super::reply::AdminReply;

/// Maximum time of each of three steps: the request arrives, the answer is sent, and bytes after the request
/// are read and dropped.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum bytes of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
const READ_BYTES: usize = 4 << 10;

pub(super) struct AdminClient {
    socket: Socket,
    state: State,
    deadline: Instant,
}

enum State {
    Asking {
        input: BytesMut,
        reader: Box<HeadReader>,
    },
    Answering {
        answer: Vec<u8>,
        sent: usize,
    },
    /// Reads and drops the bytes that the peer still sends. If the listener closed the connection now, the
    /// peer's system would drop the answer (RFC 9112 section 9.6).
    Lingering,
    Over,
}

impl AdminClient {
    pub(super) fn new(socket: Socket) -> Self {
        let state = State::Asking { input: BytesMut::new(), reader: Box::default() };
        Self { socket, state, deadline: Instant::now() + REQUEST_TIMEOUT }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the events that the client waits for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.state {
            State::Answering { .. } => PollFlags::OUT,
            State::Asking { .. } | State::Lingering | State::Over => PollFlags::IN,
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        matches!(self.state, State::Over) || now >= self.deadline
    }

    /// Reads or writes until the socket would block.
    pub(super) fn go_on(&mut self, answers: &impl Answering) {
        let went = match &self.state {
            State::Asking { .. } => self.read(answers),
            State::Answering { .. } => self.write(),
            State::Lingering => self.throw_away(),
            State::Over => Ok(()),
        };
        match went {
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::Interrupted => {
            }
            Err(_) => self.state = State::Over,
            Ok(()) => {}
        }
    }

    fn read(&mut self, answers: &impl Answering) -> io::Result<()> {
        let State::Asking { input, reader } = &mut self.state else { return Ok(()) };
        let mut part = [0; READ_BYTES];
        match self.socket.read(&mut part)? {
            0 => {
                self.state = State::Over;
                return Ok(());
            }
            bytes => input.extend_from_slice(&part[..bytes]),
        }
        let limits =
            Limits { head_bytes_max: HEAD_BYTES_MAX, target_bytes_max: HEAD_BYTES_MAX, ..Limits::default() };
        let answer = match reader.read(input, &limits) {
            Ok(None) => return Ok(()),
            Ok(Some(head)) => answers.answer(&head),
            Err(error) => AdminReply::refusal(&error, input),
        };
        self.state = State::Answering { answer, sent: 0 };
        self.deadline = Instant::now() + ANSWER_TIMEOUT;
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let State::Answering { answer, sent } = &mut self.state else { return Ok(()) };
        while *sent < answer.len() {
            let mut left = &answer[*sent..];
            let before = left.len();
            write_some(&self.socket, &mut left)?;
            *sent += before - left.len();
        }
        self.socket.shutdown(Shutdown::Write)?;
        self.state = State::Lingering;
        self.deadline = Instant::now() + LINGER_TIMEOUT;
        self.throw_away()
    }

    fn throw_away(&mut self) -> io::Result<()> {
        let mut part = [0; READ_BYTES];
        if self.socket.read(&mut part)? == 0 {
            self.state = State::Over;
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "what is not taken is written when the socket takes more")]
fn write_some(mut socket: &Socket, left: &mut &[u8]) -> io::Result<()> {
    let taken = socket.write(left)?;
    *left = &left[taken..];
    Ok(())
}

impl AsFd for AdminClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
