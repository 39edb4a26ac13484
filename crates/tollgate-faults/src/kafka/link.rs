//! The link between clients and a broker: passes bytes on, or loses them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::markers;

/// What the link does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Bytes pass in both directions.
    Open,
    /// Bytes wait at the link, in both directions.
    Frozen,
    /// The link answers requests that end transactions in their partitions, so the broker does not get them.
    /// Other bytes pass. The coordinator of a broker sends these requests through the link, also to its own
    /// broker.
    WithoutMarkers,
    /// Connections end, and new ones end at once.
    Cut,
}

/// Maximum wait for a request.
const PATIENCE: Duration = Duration::from_secs(120);

struct Inner {
    flow: Flow,
    /// Number of requests that the link answered.
    answered: u64,
    /// Address of the broker.
    broker: Option<SocketAddr>,
    /// Both sides of all connections.
    streams: Vec<TcpStream>,
}

struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
}

/// A link on a port of its own. Its threads end with the process.
#[derive(Clone)]
pub struct Link {
    address: SocketAddr,
    state: Arc<State>,
}

impl Link {
    /// Opens a link that leads nowhere yet.
    ///
    /// # Panics
    /// No port is free.
    pub fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the link");
        let address = listener.local_addr().expect("the address of the link");
        let inner = Inner { flow: Flow::Open, answered: 0, broker: None, streams: Vec::new() };
        let state = State { inner: Mutex::new(inner), changed: Condvar::new() };
        let link = Self { address, state: Arc::new(state) };
        let accepting = link.clone();
        thread::spawn(move || listener.incoming().flatten().for_each(|client| accepting.join(client)));
        link
    }

    /// Sets the address that the link leads to.
    pub fn lead_to(&self, broker: SocketAddr) {
        self.locked().broker = Some(broker);
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the link does.
    pub fn set(&self, flow: Flow) {
        let mut state = self.locked();
        state.flow = flow;
        if flow == Flow::Cut {
            for stream in state.streams.drain(..) {
                // A connection that ended already cannot be shut down.
                drop(stream.shutdown(Shutdown::Both));
            }
        }
        drop(state);
        self.state.changed.notify_all();
    }

    /// Answers the next request that ends a transaction in its partitions. `end` causes the request.
    ///
    /// # Panics
    /// No such request comes.
    pub fn answer_markers(&self, end: impl FnOnce()) {
        let before = self.locked().answered;
        self.set(Flow::WithoutMarkers);
        end();
        let waits = |inner: &mut Inner| inner.answered == before;
        let waited = self.state.changed.wait_timeout_while(self.locked(), PATIENCE, waits);
        let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(state);
        assert!(!result.timed_out(), "no request to end a transaction came");
        self.set(Flow::Open);
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.state.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a client to the broker.
    fn join(&self, client: TcpStream) {
        let (flow, broker) = {
            let state = self.locked();
            (state.flow, state.broker)
        };
        let broker = broker.filter(|_| flow != Flow::Cut).and_then(|broker| TcpStream::connect(broker).ok());
        let Some(broker) = broker else { return };
        let (Ok(client_too), Ok(broker_too)) = (client.try_clone(), broker.try_clone()) else { return };
        let mut state = self.locked();
        state.streams.extend([&client, &broker].into_iter().filter_map(|stream| stream.try_clone().ok()));
        drop(state);
        for (from, to) in [(client, broker), (broker_too, client_too)] {
            let link = self.clone();
            thread::spawn(move || link.pass(from, to));
        }
    }

    /// Passes the bytes of one direction.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..count];
            let state = self.state.changed.wait_while(self.locked(), |state| state.flow == Flow::Frozen);
            let flow = state.unwrap_or_else(PoisonError::into_inner).flow;
            let answer = if flow == Flow::WithoutMarkers { markers::answer(bytes) } else { None };
            let is_passed = match (flow, &answer) {
                (Flow::Cut, _) => false,
                (_, None) => to.write_all(bytes).is_ok(),
                (_, Some(answer)) => from.write_all(answer).is_ok(),
            };
            if answer.is_some() {
                self.locked().answered += 1;
                self.state.changed.notify_all();
            }
            if !is_passed {
                break;
            }
        }
        for stream in [from, to] {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}
