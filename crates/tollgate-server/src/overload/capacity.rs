//! Counts the connections of a server by worker and by client, and the memory that they hold.
//!
//! The counters change when a connection opens, closes, or waits with much memory. A small request changes no
//! counter.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::options::{CapacityLimits, share_of_peers};
use crate::trust::client_key;

/// Difference in the number of connections from which on a worker hands a new connection to the emptiest
/// worker.
const IMBALANCE_MAX: usize = 8;
/// Size up to which the memory of a connection is not counted, in bytes. More memory is counted in steps of
/// this size.
const GRAIN_BYTES: u64 = 4 << 10;

/// State about connections that all workers share.
pub(crate) struct Capacity {
    limits: Limits,
    connections: AtomicUsize,
    workers: Box<[WorkerConnections]>,
    clients: Mutex<HashMap<IpAddr, u32>>,
    held_bytes: AtomicU64,
    /// Whether a log line has named a proxy that is not trusted.
    untrusted_proxy_reported: AtomicBool,
    /// The part of `held_bytes` that handlers hold that may wait for memory.
    handlers_bytes: AtomicU64,
}

/// The current limits.
struct Limits {
    connections_max: AtomicUsize,
    /// Maximum number of connections of one client. [`u32::MAX`] if there is no limit.
    connections_per_client_max: AtomicU32,
    in_flight_bytes_max: AtomicU64,
}

impl Limits {
    fn of(limits: &CapacityLimits) -> Self {
        Self {
            connections_max: limits.connections_max.into(),
            connections_per_client_max: limits.connections_per_client_max.unwrap_or(u32::MAX).into(),
            in_flight_bytes_max: limits.in_flight_bytes_max.into(),
        }
    }

    fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    fn connections_per_client_max(&self) -> u32 {
        self.connections_per_client_max.load(Ordering::Relaxed)
    }

    fn in_flight_bytes_max(&self) -> u64 {
        self.in_flight_bytes_max.load(Ordering::Relaxed)
    }
}

/// Number of connections of a worker, on a separate cache line.
#[repr(align(128))]
struct WorkerConnections {
    connections: AtomicUsize,
}

impl Capacity {
    pub(crate) fn new(limits: &CapacityLimits, workers: usize) -> Arc<Self> {
        Arc::new(Self {
            limits: Limits::of(limits),
            connections: AtomicUsize::new(0),
            workers: (0..workers).map(|_| WorkerConnections { connections: AtomicUsize::new(0) }).collect(),
            clients: Mutex::default(),
            held_bytes: AtomicU64::new(0),
            untrusted_proxy_reported: AtomicBool::new(false),
            handlers_bytes: AtomicU64::new(0),
        })
    }

    /// Logs a peer that names clients and is no trusted proxy, once in the life of the server.
    pub(crate) fn note_untrusted_proxy(&self, peer: Option<IpAddr>) {
        if !self.untrusted_proxy_reported.swap(true, Ordering::Relaxed) {
            let peer = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
            tracing::warn!(
                peer,
                "a peer outside trusted_proxies names clients in X-Forwarded-For or Forwarded, and the \
                 server ignores these names: if the peer is your proxy, add it to trusted_proxies in [server]"
            );
        }
    }

    /// Sets new limits. Existing connections and memory stay counted. Connections that opened while clients
    /// were not counted count for no client.
    pub(crate) fn limit(&self, limits: &CapacityLimits) {
        let Limits { connections_max, connections_per_client_max, in_flight_bytes_max } = &self.limits;
        connections_max.store(limits.connections_max, Ordering::Relaxed);
        let per_client = limits.connections_per_client_max.unwrap_or(u32::MAX);
        connections_per_client_max.store(per_client, Ordering::Relaxed);
        in_flight_bytes_max.store(limits.in_flight_bytes_max, Ordering::Relaxed);
    }

    /// Counts a new connection for a worker. Returns `None` if the maximum is reached.
    pub(crate) fn enter(self: &Arc<Self>, worker: usize) -> Option<ConnectionPermit> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.limits.connections_max() {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.workers[worker].connections.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionPermit { capacity: self.clone(), worker })
    }

    /// Returns the worker that should get a new connection instead of `worker`, if there is one.
    pub(crate) fn emptier_than(&self, worker: usize) -> Option<usize> {
        let count = |one: &WorkerConnections| one.connections.load(Ordering::Relaxed);
        let (index, emptiest) = self.workers.iter().enumerate().min_by_key(|(_, one)| count(one))?;
        (count(&self.workers[worker]) >= count(emptiest) + IMBALANCE_MAX).then_some(index)
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of connections.
    pub(crate) fn connections_max(&self) -> usize {
        self.limits.connections_max()
    }

    /// Returns the number of connections of a worker.
    pub(crate) fn connections_of(&self, worker: usize) -> usize {
        self.workers[worker].connections.load(Ordering::Relaxed)
    }

    /// Returns the memory that all connections hold, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the maximum of held memory, in bytes.
    pub(crate) fn in_flight_bytes_max(&self) -> u64 {
        self.limits.in_flight_bytes_max()
    }

    /// Returns whether more than four fifths of the allowed connections are open.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.connections.load(Ordering::Relaxed) > self.limits.connections_max() / 5 * 4
    }

    /// Returns whether connections are counted by client.
    pub(crate) fn counts_clients(&self) -> bool {
        self.limits.connections_per_client_max() != u32::MAX
    }

    /// Counts a connection of a client. Returns `None` if the client has reached its maximum.
    pub(crate) fn admit_client(self: &Arc<Self>, client: IpAddr) -> Option<ClientPermit> {
        let max = self.limits.connections_per_client_max();
        let client = client_key(client);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(ClientPermit { capacity: self.clone(), client })
    }

    /// Returns whether the connections hold more than `in_flight_bytes_max`, so that no new request is
    /// admitted. Peers alone cannot exceed this limit, because their share ends at three quarters. Replies
    /// that wait for the log can cause this excess.
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes() > self.limits.in_flight_bytes_max()
    }

    /// Returns whether the connections hold more than the share of peers, which is three quarters of
    /// `in_flight_bytes_max`.
    pub(crate) fn is_full_for_peers(&self) -> bool {
        !self.is_share_of_peers(self.held_bytes())
    }

    /// Returns whether the connections hold more than three quarters of `in_flight_bytes_max`. Memory of
    /// handlers that may wait for memory is not counted.
    ///
    /// In this state a handler that has begun waits, because the log and the peers free memory without it. A
    /// handler must not wait for memory that waiting handlers hold.
    pub(crate) fn is_full_without_handlers(&self) -> bool {
        !self.is_share_of_peers(self.held_bytes().saturating_sub(self.handlers_bytes()))
    }

    /// Returns whether handlers that may wait for memory hold more than a quarter of `in_flight_bytes_max`.
    ///
    /// In this state all handlers except the first of each connection wait, because their replies are held
    /// until the first handler returns. The two parts together are therefore at most `in_flight_bytes_max`,
    /// plus two replies for each worker.
    pub(crate) fn is_full_for_handlers_behind(&self) -> bool {
        self.handlers_bytes() > self.limits.in_flight_bytes_max() / 4
    }

    fn handlers_bytes(&self) -> u64 {
        self.handlers_bytes.load(Ordering::Relaxed)
    }

    fn is_share_of_peers(&self, held_bytes: u64) -> bool {
        held_bytes <= share_of_peers(self.limits.in_flight_bytes_max())
    }
}

/// Permit that counts one connection for its worker, until the permit is dropped.
pub(crate) struct ConnectionPermit {
    capacity: Arc<Capacity>,
    worker: usize,
}

impl ConnectionPermit {
    /// Counts the connection for another worker. Returns the worker that had it before.
    pub(crate) fn move_to(&mut self, worker: usize) -> usize {
        self.worker().connections.fetch_sub(1, Ordering::Relaxed);
        let from = std::mem::replace(&mut self.worker, worker);
        self.worker().connections.fetch_add(1, Ordering::Relaxed);
        from
    }

    fn worker(&self) -> &WorkerConnections {
        &self.capacity.workers[self.worker]
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.worker().connections.fetch_sub(1, Ordering::Relaxed);
        self.capacity.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Permit that counts one connection for its client, until the permit is dropped.
pub(crate) struct ClientPermit {
    capacity: Arc<Capacity>,
    client: IpAddr,
}

impl ClientPermit {
    /// Returns whether the permit belongs to `client`.
    pub(crate) fn is_of(&self, client: Option<IpAddr>) -> bool {
        client.map(client_key) == Some(self.client)
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut clients = self.capacity.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

/// The memory that one connection holds, as a part of the memory of all connections.
///
/// The connection counts its own memory, and its queue counts the memory of the requests. The connection and
/// its queue use this value by a shared reference, because the queue runs handlers while the connection
/// sends.
pub(crate) struct HeldMemory {
    capacity: Arc<Capacity>,
    own: Cell<usize>,
    queued: Cell<QueuedMemory>,
    counted: Cell<Counted>,
}

/// Memory of the requests of a connection that have no reply yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuedMemory {
    /// Bytes of answers, and of a first handler that holds much. These bytes wait for the log or the peer,
    /// and not for memory.
    pub(crate) waiting_bytes: usize,
    /// Bytes of handlers that may wait for memory, and of requests that have not begun.
    pub(crate) handlers_bytes: usize,
}

impl QueuedMemory {
    /// Returns the memory of one handler.
    pub(crate) fn of_handler(bytes: usize) -> Self {
        Self { waiting_bytes: 0, handlers_bytes: bytes }
    }
}

#[derive(Default, Clone, Copy)]
struct Counted {
    bytes: u64,
    handlers_bytes: u64,
}

impl HeldMemory {
    pub(crate) fn new(capacity: &Arc<Capacity>) -> Self {
        Self {
            capacity: capacity.clone(),
            own: Cell::default(),
            queued: Cell::default(),
            counted: Cell::default(),
        }
    }

    /// Returns whether this connection holds memory while all connections hold more than the share of peers.
    pub(crate) fn is_too_much(&self) -> bool {
        self.counted.get().bytes > 0 && self.capacity.is_full_for_peers()
    }

    /// Counts the memory that the connection and its requests hold now.
    ///
    /// Returns false if the amount grew and all connections hold more than the share of peers.
    pub(crate) fn set_all(&self, own_bytes: usize, queued: QueuedMemory) -> bool {
        self.own.set(own_bytes);
        self.queued.set(queued);
        self.count()
    }

    /// Counts the own memory of the connection. Returns the same as [`set_all`](Self::set_all).
    #[cfg(test)]
    pub(crate) fn set(&self, bytes: usize) -> bool {
        self.set_all(bytes, self.queued.get())
    }

    /// Counts the memory of the requests. Returns the same as [`set_all`](Self::set_all).
    pub(crate) fn set_queued(&self, queued: QueuedMemory) -> bool {
        self.queued.replace(queued) == queued || self.count()
    }

    fn count(&self) -> bool {
        let QueuedMemory { waiting_bytes, handlers_bytes } = self.queued.get();
        let bytes = (self.own.get().saturating_add(waiting_bytes)).saturating_add(handlers_bytes) as u64;
        let bytes = if bytes <= GRAIN_BYTES { 0 } else { bytes.next_multiple_of(GRAIN_BYTES) };
        let after = Counted { bytes, handlers_bytes: bytes.min(handlers_bytes as u64) };
        let before = self.counted.replace(after);
        change(&self.capacity.handlers_bytes, before.handlers_bytes, after.handlers_bytes);
        let all = change(&self.capacity.held_bytes, before.bytes, after.bytes);
        after.bytes <= before.bytes || self.capacity.is_share_of_peers(all)
    }
}

/// Adds the change of a part to a sum, and returns the sum.
fn change(sum: &AtomicU64, before: u64, after: u64) -> u64 {
    match after.cmp(&before) {
        std::cmp::Ordering::Equal => sum.load(Ordering::Relaxed),
        std::cmp::Ordering::Less => {
            let less = before - after;
            sum.fetch_sub(less, Ordering::Relaxed) - less
        }
        std::cmp::Ordering::Greater => {
            let more = after - before;
            sum.fetch_add(more, Ordering::Relaxed) + more
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.own.set(0);
        self.queued.set(QueuedMemory::default());
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(connections_max: usize, per_client: Option<u32>) -> Arc<Capacity> {
        let limits = CapacityLimits {
            connections_max,
            connections_per_client_max: per_client,
            in_flight_bytes_max: 100_000,
            ..CapacityLimits::default()
        };
        Capacity::new(&limits, 3)
    }

    #[test]
    fn connections_are_as_many_as_may_be() {
        let capacity = capacity(10, None);
        let mut permits: Vec<_> = (0..10).map(|index| capacity.enter(index % 3).unwrap()).collect();
        assert!(capacity.enter(0).is_none() && capacity.is_nearly_full());
        permits.truncate(8);
        assert!(!capacity.is_nearly_full() && capacity.enter(0).is_some());
        drop(permits);
        assert_eq!(capacity.connections.load(Ordering::Relaxed), 0);
        assert!(capacity.workers.iter().all(|place| place.connections.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn the_emptiest_worker_is_named_once_another_has_eight_more() {
        let capacity = capacity(100, None);
        let _second = capacity.enter(1).unwrap();
        let mut permits: Vec<_> = (0..7).map(|_| capacity.enter(0).unwrap()).collect();
        assert_eq!(capacity.emptier_than(0), None);
        permits.push(capacity.enter(0).unwrap());
        assert_eq!(capacity.emptier_than(0), Some(2));
        assert_eq!(capacity.emptier_than(1), None);
        permits[0].move_to(2);
        assert_eq!(capacity.emptier_than(0), None);
    }

    #[test]
    fn a_client_has_its_share_and_ipv6_counts_by_network() {
        let capacity = capacity(100, Some(2));
        let permit = |address: &str| capacity.admit_client(address.parse().unwrap());
        let (first, _second) = (permit("2001:db8::1").unwrap(), permit("2001:db8::2").unwrap());
        assert!(permit("2001:db8:0:0:ffff::").is_none());
        assert!(permit("2001:db8:0:1::1").is_some() && permit("10.0.0.1").is_some());
        assert!(first.is_of(Some("2001:db8::9".parse().unwrap())));
        drop(first);
        assert!(permit("2001:db8::1").is_some());
        assert_eq!(capacity.clients.lock().unwrap().len(), 1);
    }

    #[test]
    fn memory_counts_beyond_the_first_4_kib_and_goes_with_its_connection() {
        let capacity = capacity(100, None);
        let (one, other) = (HeldMemory::new(&capacity), HeldMemory::new(&capacity));
        assert!(one.set(4096));
        assert_eq!(capacity.held_bytes.load(Ordering::Relaxed), 0);
        assert!(one.set(60_000) && !capacity.is_full() && !other.set(60_000));
        assert!(capacity.is_full() && one.set(60_000) && one.set(59_000) && other.is_too_much());
        drop(one);
        assert!(!capacity.is_full() && other.set(65_000));
        drop(other);
        assert_eq!(capacity.held_bytes.load(Ordering::Relaxed), 0);
    }
}
