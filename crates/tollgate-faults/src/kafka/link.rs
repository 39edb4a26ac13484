//! The link between clients and a broker: passes bytes on, or loses them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// What the link does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Bytes pass in both directions.
    Open,
    /// Bytes wait at the link, in both directions.
    Frozen,
    /// Connections end, and new ones end at once.
    Cut,
}

struct State {
    flow: Mutex<(Flow, Option<SocketAddr>, Vec<TcpStream>)>,
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
        let state = State { flow: Mutex::new((Flow::Open, None, Vec::new())), changed: Condvar::new() };
        let link = Self { address, state: Arc::new(state) };
        let accepting = link.clone();
        thread::spawn(move || listener.incoming().flatten().for_each(|client| accepting.join(client)));
        link
    }

    /// Sets the address that the link leads to.
    pub fn lead_to(&self, broker: SocketAddr) {
        self.locked().1 = Some(broker);
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the link does.
    pub fn set(&self, flow: Flow) {
        let mut state = self.locked();
        state.0 = flow;
        if flow == Flow::Cut {
            for stream in state.2.drain(..) {
                // A connection that ended already cannot be shut down.
                drop(stream.shutdown(Shutdown::Both));
            }
        }
        drop(state);
        self.state.changed.notify_all();
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, (Flow, Option<SocketAddr>, Vec<TcpStream>)> {
        self.state.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a client to the broker.
    fn join(&self, client: TcpStream) {
        let (flow, broker) = {
            let state = self.locked();
            (state.0, state.1)
        };
        let broker = broker.filter(|_| flow != Flow::Cut).and_then(|broker| TcpStream::connect(broker).ok());
        let Some(broker) = broker else { return };
        let (Ok(client_too), Ok(broker_too)) = (client.try_clone(), broker.try_clone()) else { return };
        let mut state = self.locked();
        state.2.extend([&client, &broker].into_iter().filter_map(|stream| stream.try_clone().ok()));
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
            let state = self.locked();
            let state = self.state.changed.wait_while(state, |state| state.0 == Flow::Frozen);
            let is_open = state.unwrap_or_else(PoisonError::into_inner).0 == Flow::Open;
            if !is_open || to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        for stream in [from, to] {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}
