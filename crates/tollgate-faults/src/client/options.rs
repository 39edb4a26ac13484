//! The options of clients that misbehave.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::fault::ClientFault;

/// The kind and number of the clients, and their target.
#[derive(Clone, Debug)]
pub struct FaultyClientsOptions {
    /// The fault of each client.
    pub fault: ClientFault,
    /// Address of the server.
    pub to: SocketAddr,
    /// Number of clients at the same time.
    pub count: usize,
    /// Path that the clients request.
    pub path: String,
    /// Source address of the clients. `None`: the system chooses the address. On loopback, any address of
    /// 127.0.0.0/8 can be used, such as 127.0.0.2.
    pub from: Option<IpAddr>,
    /// Pause between the end of a client and its next connection. `None`: it connects only once.
    pub again_after: Option<Duration>,
    /// Whether the server may be on another machine.
    pub reach: TargetReach,
}

/// The machines that clients may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetReach {
    /// Only this machine.
    Loopback,
    /// Any machine. Use this only against your own servers.
    Anywhere,
}

impl FaultyClientsOptions {
    /// Returns the options of `count` clients that connect once and request `/`.
    pub fn new(fault: ClientFault, to: SocketAddr, count: usize) -> Self {
        let path = "/".to_owned();
        Self { fault, to, count, path, from: None, again_after: None, reach: TargetReach::Loopback }
    }
}
