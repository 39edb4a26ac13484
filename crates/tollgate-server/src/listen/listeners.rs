//! The listening sockets of all workers.

use super::listener::Listener;
use super::point::ListenPoint;
use crate::error::StartError;
use crate::options::BoundAddress;

/// Listening sockets: for each worker, one for each address.
pub struct Listeners {
    pub(crate) by_worker: Vec<Vec<Listener>>,
    pub(crate) points: Vec<ListenPoint>,
    addresses: Vec<BoundAddress>,
}

impl Listeners {
    /// Returns the addresses in the order of the options. Port 0 is replaced by the actual port.
    pub fn addresses(&self) -> &[BoundAddress] {
        &self.addresses
    }

    /// Deals the sockets of all addresses among the workers.
    pub(super) fn of(mut points: Vec<ListenPoint>, workers: usize, backlog: i32) -> Result<Self, StartError> {
        let mut by_worker: Vec<_> = (0..workers).map(|_| Vec::new()).collect();
        for point in &mut points {
            let address = point.name();
            point.deal(&mut by_worker, backlog).map_err(|source| StartError::Listen { address, source })?;
        }
        let addresses = points.iter().map(|point| point.bound.clone()).collect();
        Ok(Self { by_worker, points, addresses })
    }
}
