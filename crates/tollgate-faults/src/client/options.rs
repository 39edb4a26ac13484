//! The options of clients that misbehave.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::fault::ClientFault;

/// The kind and number of the clients, and their target.
#[derive(Clone, Debug)]
pub struct FaultyClientsOptions {
    /// The fault of each client.
    pub fault: ClientFault,
    /// The server.
    pub to: SocketAddr,
    /// Clients at the same time.
    pub count: usize,
    /// The path of their requests.
    pub path: String,
    /// Their source address, if it matters. On this machine 127.0.0.2 works like 127.0.0.1.
    pub from: Option<IpAddr>,
    /// Pause before a client connects again after its end. `None`: it does not.
    pub again_after: Option<Duration>,
    /// Whether the server may be on another machine.
    pub reach: TargetReach,
}

/// The machines that clients may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetReach {
    /// Only this machine.
    Loopback,
    /// Any machine. Use it only against your own servers.
    Anywhere,
}

impl FaultyClientsOptions {
    /// Returns the options of `count` clients that ask for `/` once.
    pub fn new(fault: ClientFault, to: SocketAddr, count: usize) -> Self {
        let path = "/".to_owned();
        Self { fault, to, count, path, from: None, again_after: None, reach: TargetReach::Loopback }
    }
}
