//! The thread of the clients. The thread connects, plays the steps, reads, and counts how each connection
//! ended.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::fault::{After, Reading};
use super::options::FaultyClientsOptions;
use super::tally::SharedTally;
use crate::play::{Then, play};
use crate::socket;
use crate::step::Step;

const CONNECT_MAX: Duration = Duration::from_secs(30);
/// How long a client that has ended its connection waits for the server to end it too.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// Bytes of the receive buffer of a slow reader. The buffer is small, so that unread bytes block the server
/// soon.
const SMALL_BUFFER_BYTES: u32 = 4096;
/// Number of clients that start before other tasks may run.
const CONNECTING_MAX: usize = 64;
/// Bytes of `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

/// Runs all clients until each has ended.
pub(super) async fn run(options: FaultyClientsOptions, shared: Arc<SharedTally>) {
    let options = Arc::new(options);
    let mut clients = JoinSet::new();
    for number in 0..options.count {
        clients.spawn(be_client(options.clone(), shared.clone(), number as u64));
        if number % CONNECTING_MAX == CONNECTING_MAX - 1 {
            tokio::task::yield_now().await;
        }
    }
    clients.join_all().await;
}

async fn be_client(options: Arc<FaultyClientsOptions>, shared: Arc<SharedTally>, number: u64) {
    loop {
        visit(&options, &shared, number).await;
        match options.again_after {
            Some(pause) => sleep(pause).await,
            None => return,
        }
    }
}

/// How a connection ended.
enum End {
    Closed,
    Reset,
    Left,
}

async fn visit(options: &FaultyClientsOptions, shared: &SharedTally, number: u64) {
    let Ok(Ok(stream)) = timeout(CONNECT_MAX, connect(options)).await else {
        return shared.note(|tally| tally.unconnected += 1);
    };
    let mut open = Open::new(shared);
    let mut heard = Heard { shared, came: Vec::new() };
    open.end = Some(converse(options, stream, &mut heard, number).await);
}

/// An open connection. If it is dropped without an end, the thread of the clients was stopped.
struct Open<'a> {
    shared: &'a SharedTally,
    begun: Instant,
    end: Option<End>,
}

impl<'a> Open<'a> {
    fn new(shared: &'a SharedTally) -> Self {
        shared.note(|tally| {
            tally.connected += 1;
            tally.open += 1;
        });
        Self { shared, begun: Instant::now(), end: None }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.shared.note(|tally| {
            tally.open -= 1;
            tally.open_for_max = tally.open_for_max.max(self.begun.elapsed());
            match self.end {
                Some(End::Closed) => tally.closed += 1,
                Some(End::Reset) => tally.reset += 1,
                Some(End::Left) | None => tally.left += 1,
            }
        });
    }
}

async fn connect(options: &FaultyClientsOptions) -> io::Result<TcpStream> {
    let socket = if options.to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if options.fault.reading() != Reading::All {
        socket.set_recv_buffer_size(SMALL_BUFFER_BYTES)?;
    }
    if let Some(from) = options.from {
        socket.bind((from, 0).into())?;
    }
    let stream = socket.connect(options.to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Plays the steps and reads at the same time, until the client or the server ends the connection.
async fn converse(
    options: &FaultyClientsOptions,
    stream: TcpStream,
    heard: &mut Heard<'_>,
    number: u64,
) -> End {
    let steps = options.fault.steps(&options.path, number);
    match play_and_read(options, &stream, &steps, heard).await {
        Over::ByServer(end) => return end,
        Over::ByClient(Then::Reset) => socket::reset(stream),
        Over::ByClient(_) => leave(&stream).await,
    }
    End::Left
}

/// The side that ended a connection.
enum Over {
    ByServer(End),
    ByClient(Then),
}

async fn play_and_read(
    options: &FaultyClientsOptions,
    stream: &TcpStream,
    steps: &[Step],
    heard: &mut Heard<'_>,
) -> Over {
    let mut reading = pin!(read(stream, options.fault.reading(), options.fault.after(), heard));
    let played = tokio::select! {
        end = &mut reading => return Over::ByServer(end),
        played = play(stream, steps) => played,
    };
    match played {
        Ok(Then::Continue) => Over::ByServer(reading.await),
        Ok(then) => Over::ByClient(then),
        Err(error) => {
            let end = reading.await;
            // The system reports a reset only once, either to the sender or to the reader.
            Over::ByServer(if error.kind() == ErrorKind::ConnectionReset { End::Reset } else { end })
        }
    }
}

async fn leave(stream: &TcpStream) {
    socket::finish(stream);
    let _ = timeout(LEAVE_MAX, socket::drain(stream)).await;
}

/// The received bytes of a connection: their number, and the beginning of the first reply.
struct Heard<'a> {
    shared: &'a SharedTally,
    came: Vec<u8>,
}

impl Heard<'_> {
    /// Adds the next bytes. Returns whether they complete the status of the first reply.
    fn take(&mut self, part: &[u8]) -> bool {
        let was_known = self.came.len() == STATUS_BYTES;
        let more = part.len().min(STATUS_BYTES - self.came.len());
        self.came.extend_from_slice(&part[..more]);
        let is_known = self.came.len() == STATUS_BYTES;
        self.shared.note(|tally| {
            tally.bytes += part.len() as u64;
            if is_known
                && !was_known
                && let Some(status) = status(&self.came)
            {
                *tally.statuses.entry(status).or_default() += 1;
            }
        });
        is_known
    }
}

fn status(came: &[u8]) -> Option<u16> {
    std::str::from_utf8(came.strip_prefix(b"HTTP/1.1 ")?).ok()?.parse().ok()
}

/// Reads until the server ends the connection.
async fn read(stream: &TcpStream, reading: Reading, after: After, heard: &mut Heard<'_>) -> End {
    let mut buffer = match reading {
        Reading::All => vec![0; 16 << 10],
        Reading::Slowly(_) => vec![0; 1],
        Reading::Nothing => {
            socket::gone(stream).await;
            return End::Closed;
        }
    };
    loop {
        if let Err(error) = stream.readable().await {
            return ended(&error);
        }
        match stream.try_read(&mut buffer) {
            Ok(0) => return End::Closed,
            Ok(came) => {
                if heard.take(&buffer[..came]) && after == After::LeaveWithReply {
                    leave(stream).await;
                    return End::Left;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return ended(&error),
        }
        if let Reading::Slowly(pause) = reading {
            sleep(pause).await;
        }
    }
}

fn ended(error: &io::Error) -> End {
    if error.kind() == ErrorKind::ConnectionReset { End::Reset } else { End::Closed }
}
