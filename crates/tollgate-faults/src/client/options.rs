//! The options of clients that misbehave.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::fault::ClientFault;

/// Who comes, how many, and where to.
#[derive(Clone, Debug)]
pub struct FaultyClientsOptions {
    /// What each does.
    pub fault: ClientFault,
    /// The server.
    pub to: SocketAddr,
    /// How many are there at once.
    pub count: usize,
    /// What they ask for.
    pub path: String,
    /// Where they come from, if it matters: 127.0.0.2 is as good as 127.0.0.1.
    pub from: Option<IpAddr>,
    /// How long after its end each comes again. None: not at all.
    pub again_after: Option<Duration>,
    /// Whether the server may be on another machine.
    pub reach: TargetReach,
}

/// How far clients may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetReach {
    /// To this machine alone.
    Loopback,
    /// To any: only against what is your own.
    Anywhere,
}

impl FaultyClientsOptions {
    /// So many that ask for `/` once.
    pub fn new(fault: ClientFault, to: SocketAddr, count: usize) -> Self {
        let path = "/".to_owned();
        Self { fault, to, count, path, from: None, again_after: None, reach: TargetReach::Loopback }
    }
}
