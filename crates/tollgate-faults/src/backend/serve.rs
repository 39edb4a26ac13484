//! The thread of a backend. The thread accepts connections, reads requests, and applies the current fault to
//! each request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::state::BackendState;
use crate::fault::{Begins, Fault};
use crate::play::{Then, play};
use crate::request::{Incoming, Request};
use crate::socket;

const BACKLOG: i32 = 4096;
/// How long the backend reads bytes after it has ended the connection. Unread bytes would turn the end into a
/// reset.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// Duration of an unfinished connect after which the queue of the kernel counts as full.
const FULL_AFTER: Duration = Duration::from_millis(100);

/// How a backend accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    Usual,
    Slow(Duration),
    QueueFull,
    Refused,
}

impl Accepting {
    fn of(fault: &Fault) -> Self {
        match fault {
            Fault::Refuse => Self::Refused,
            Fault::Unaccepted => Self::QueueFull,
            Fault::SlowAccept(pause) => Self::Slow(*pause),
            _ => Self::Usual,
        }
    }
}

/// Serves connections, and never returns. `_reservation` keeps the port while no socket listens.
pub(super) async fn run(
    _reservation: Socket,
    address: SocketAddr,
    shared: Arc<BackendState>,
    mut faults: watch::Receiver<Fault>,
) {
    let mut connections = JoinSet::new();
    let mut listening = None;
    loop {
        let accepting = Accepting::of(&faults.borrow_and_update());
        if let Err(error) = stand(&mut listening, accepting, address).await {
            shared.note(|observed| observed.failed = Some(error));
            return;
        }
        if accepting == Accepting::Refused {
            connections.shutdown().await;
        }
        shared.note(|observed| observed.changes += 1);
        tokio::select! {
            () = take(listening.as_ref(), &shared, &mut connections) => {}
            _ = faults.changed() => {}
        }
    }
}

/// A listener, how it accepts connections, and the connections that fill its queue.
struct Listening {
    accepting: Accepting,
    listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

/// Makes the backend listen in this way, unless it already does.
async fn stand(
    listening: &mut Option<Listening>,
    accepting: Accepting,
    address: SocketAddr,
) -> io::Result<()> {
    if listening.as_ref().is_some_and(|listening| listening.accepting == accepting) {
        return Ok(());
    }
    *listening = None;
    let backlog = match accepting {
        Accepting::Refused => return Ok(()),
        Accepting::Usual => BACKLOG,
        Accepting::Slow(_) | Accepting::QueueFull => 0,
    };
    let listener = TcpListener::from_std(socket::listening(address, backlog)?)?;
    let mut waiting = Vec::new();
    if accepting == Accepting::QueueFull {
        while let Ok(connected) = timeout(FULL_AFTER, TcpStream::connect(address)).await {
            waiting.push(connected?);
        }
    }
    *listening = Some(Listening { accepting, listener, _waiting: waiting });
    Ok(())
}

/// Accepts connections, and never returns.
async fn take(listening: Option<&Listening>, shared: &Arc<BackendState>, connections: &mut JoinSet<()>) {
    let Some(Listening { accepting: how @ (Accepting::Usual | Accepting::Slow(_)), listener, .. }) =
        listening
    else {
        return std::future::pending().await;
    };
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            while connections.try_join_next().is_some() {}
            connections.spawn(serve(stream, OpenConnection::new(shared)));
        }
        if let Accepting::Slow(pause) = how {
            sleep(*pause).await;
        }
    }
}

/// Counts one open connection, until it is dropped.
struct OpenConnection {
    shared: Arc<BackendState>,
    number: u64,
}

impl OpenConnection {
    fn new(shared: &Arc<BackendState>) -> Self {
        let mut number = 0;
        shared.note(|observed| {
            let seen = &mut observed.seen;
            number = seen.connections;
            seen.connections += 1;
            seen.open += 1;
            seen.open_max = seen.open_max.max(seen.open);
        });
        Self { shared: shared.clone(), number }
    }

    fn fault(&self) -> Fault {
        self.shared.change.borrow().clone()
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.note(|observed| observed.seen.open -= 1);
    }
}

/// Counts one request in flight, until it is dropped.
struct InFlight<'a> {
    shared: &'a BackendState,
    number: u64,
}

impl<'a> InFlight<'a> {
    fn new(shared: &'a BackendState) -> Self {
        let mut number = 0;
        shared.note(|observed| {
            let seen = &mut observed.seen;
            number = seen.requests;
            seen.requests += 1;
            seen.in_flight += 1;
            seen.in_flight_max = seen.in_flight_max.max(seen.in_flight);
        });
        Self { shared, number }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.shared.note(|observed| observed.seen.in_flight -= 1);
    }
}

async fn serve(stream: TcpStream, connection: OpenConnection) {
    // This call fails only if the peer has ended the connection already.
    let _ = stream.set_nodelay(true);
    match converse(&stream, &connection).await {
        Then::Reset => socket::reset(stream),
        Then::Close | Then::Continue => {
            socket::finish(&stream);
            let _ = timeout(LINGER_MAX, socket::drain(&stream)).await;
        }
    }
}

/// Exchanges requests and replies until the connection must end. Returns how it ends.
async fn converse(stream: &TcpStream, connection: &OpenConnection) -> Then {
    let fault = connection.fault();
    if fault.begins() == Begins::AtOnce {
        let then = play(stream, &fault.steps(&Request::default(), 0, 0)).await.unwrap_or(Then::Close);
        if then != Then::Continue {
            return then;
        }
    }
    let mut incoming = Incoming::default();
    let mut nth = 0;
    loop {
        let then = exchange(stream, &mut incoming, connection, nth).await;
        if then != Then::Continue {
            return then;
        }
        nth += 1;
    }
}

/// Reads a request, and applies the current fault to it.
async fn exchange(
    stream: &TcpStream,
    incoming: &mut Incoming,
    connection: &OpenConnection,
    nth: u64,
) -> Then {
    let Some(mut request) = incoming.head(stream).await else { return Then::Close };
    // The fault is read before the request is counted. A test may wait for the count, and then change the
    // fault. Because of this order, the change does not affect this request.
    let fault = connection.fault();
    let in_flight = InFlight::new(&connection.shared);
    request.connection = connection.number;
    if fault.begins() == Begins::AfterRequest && incoming.body(stream, &mut request).await.is_none() {
        return Then::Close;
    }
    connection.shared.remember(&request);
    let steps = fault.steps(&request, nth, in_flight.number);
    match play(stream, &steps).await {
        Ok(Then::Continue) if request.is_last() => Then::Close,
        Ok(then) => then,
        Err(_) => Then::Close,
    }
}
