//! Lookups of the names of backends. Each name has its own thread. Therefore no worker waits for a lookup,
//! and no lookup waits for another.
//!
//! Found addresses replace the earlier addresses. If a lookup fails, the name keeps its earlier addresses.
//! The threads end when their backend is dropped.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::target::TargetAddress;
use crate::{Address, BackendOptions};

/// Maximum number of addresses that are used for a name.
const ADDRESSES_MAX: usize = 16;
/// Maximum time between two lookups of a missing name.
const MISSING_REFRESH_MAX: Duration = Duration::from_secs(1);

/// Function that finds the addresses of a name.
pub(crate) type Lookup = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Looks up a name with the resolver of the system.
pub(crate) fn system(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (name, port).to_socket_addrs().map(Iterator::collect)
}

/// Sender that the thread of each name holds until the first result. The start of the backends waits until
/// all senders are dropped.
pub(crate) type FirstLookup = SyncSender<Infallible>;

/// Ends the lookup threads when it is dropped.
#[derive(Debug)]
pub(crate) struct Resolver {
    _alive: Vec<SyncSender<Infallible>>,
}

/// The lookups of one name, before the thread for them starts.
pub(crate) struct NameLookup {
    /// Name of the backend, for the log.
    backend: String,
    /// Index of the name among the addresses of the backend.
    place: usize,
    name: String,
    port: u16,
    refresh: Duration,
    lookup: Lookup,
    ended: Receiver<Infallible>,
}

impl Resolver {
    /// Creates a `NameLookup` for each name. The caller starts the lookups.
    pub(crate) fn new(options: &BackendOptions, lookup: Lookup) -> (Self, Vec<NameLookup>) {
        let one = |(place, address): (usize, &Address)| {
            let Address::Name { name, port, .. } = address else { return None };
            let (alive, ended) = sync_channel(0);
            let (backend, name) = (options.name.clone(), name.clone());
            let refresh = options.dns_refresh;
            Some((alive, NameLookup { backend, place, name, port: *port, refresh, lookup, ended }))
        };
        let (alive, lookups) = options.addresses.iter().enumerate().filter_map(one).unzip();
        (Self { _alive: alive }, lookups)
    }
}

impl NameLookup {
    /// Starts the thread. The thread drops `first` after its first lookup.
    ///
    /// `learn` gets the index of the name, the name, and the found addresses. `learn` returns whether the
    /// backend still exists.
    pub(crate) fn start(
        self,
        first: FirstLookup,
        learn: impl Fn(usize, &str, io::Result<Vec<SocketAddr>>) -> bool + Send + 'static,
    ) {
        let name = self.backend.clone();
        let run = move || self.run(first, learn);
        if let Err(error) = thread::Builder::new().name("resolve".to_owned()).spawn(run) {
            tracing::error!(backend = name, %error, "cannot start the thread that resolves names");
        }
    }

    fn run(self, first: FirstLookup, learn: impl Fn(usize, &str, io::Result<Vec<SocketAddr>>) -> bool) {
        let mut first = Some(first);
        loop {
            let found = (self.lookup)(&self.name, self.port);
            let pause = if found.is_ok() { self.refresh } else { self.refresh.min(MISSING_REFRESH_MAX) };
            let is_alive = learn(self.place, &self.name, found);
            drop(first.take());
            if !is_alive || !matches!(self.ended.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                return;
            }
        }
    }
}

/// The known addresses of a name.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownAddresses {
    sockets: Vec<SocketAddr>,
    /// Whether the last lookup failed. The earlier addresses stay in use.
    pub(crate) is_missing: bool,
}

impl KnownAddresses {
    /// Records the result of a lookup. Logs when the name is lost, and when it is found again.
    pub(crate) fn learn(&mut self, backend: &str, name: &str, found: io::Result<Vec<SocketAddr>>) {
        let was_missing = self.is_missing;
        self.is_missing = found.is_err();
        match found {
            Ok(mut sockets) => {
                // The system shuffles the addresses, so their order has no meaning.
                sockets.sort();
                sockets.truncate(ADDRESSES_MAX);
                self.sockets = sockets;
                if was_missing {
                    tracing::info!(backend, "name {name:?} is found again");
                }
            }
            Err(error) if !was_missing => tracing::warn!(backend, "name {name:?} is not found: {error}"),
            Err(_) => {}
        }
    }
}

/// Returns the addresses of a backend, with the known addresses of its names. Each address appears once.
pub(crate) fn places(options: &BackendOptions, known: &[KnownAddresses]) -> Vec<TargetAddress> {
    let mut places = Vec::new();
    let mut push = |place: TargetAddress| {
        if !places.contains(&place) {
            places.push(place);
        }
    };
    for (address, known) in options.addresses.iter().zip(known) {
        match address {
            Address::Socket { scheme, socket } => push(TargetAddress::at(*socket, *scheme, address, options)),
            Address::Unix(path) => push(TargetAddress::Unix(path.clone())),
            Address::Name { scheme, .. } => {
                known.sockets.iter().for_each(|one| push(TargetAddress::at(*one, *scheme, address, options)));
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::Backend;

    fn options(addresses: &[&str]) -> BackendOptions {
        BackendOptions::new("a", addresses.iter().map(|one| one.parse().unwrap()).collect())
    }

    fn addresses(backend: &Backend) -> Vec<String> {
        backend.targets().iter().map(|target| target.place.to_string()).collect()
    }

    #[test]
    fn names_become_addresses_and_one_that_is_missing_keeps_no_other_from_being_used() {
        let urls = ["http://127.0.0.1:1", "http://missing.invalid:1", "http://localhost:1"];
        let backend = Backend::new(options(&urls));
        let found = addresses(&backend);
        assert_eq!(found.iter().filter(|address| *address == "127.0.0.1:1").count(), 1, "{found:?}");
        assert_eq!(backend.snapshot().missing_names, ["missing.invalid"]);
        let alone = Backend::new(options(&urls[1..]));
        assert!(addresses(&alone).contains(&"127.0.0.1:1".to_owned()));
    }

    #[test]
    fn a_name_that_is_lost_keeps_its_addresses_and_others_move() {
        let backend = Backend::new(options(&["http://a.invalid:1", "http://b.invalid:1"]));
        let found = |text: &str| Ok(vec![text.parse().unwrap()]);
        let lost = || Err(io::Error::other("lost"));
        backend.learn(0, "a.invalid", found("127.0.0.2:1"));
        backend.learn(1, "b.invalid", found("127.0.0.3:1"));
        assert_eq!(addresses(&backend), ["127.0.0.2:1", "127.0.0.3:1"]);
        backend.learn(1, "b.invalid", lost());
        backend.learn(0, "a.invalid", found("127.0.0.9:1"));
        assert_eq!(addresses(&backend), ["127.0.0.9:1", "127.0.0.3:1"]);
        assert_eq!(backend.snapshot().missing_names, ["b.invalid"]);
    }

    #[test]
    fn names_that_take_long_hold_up_a_start_once_and_no_other_name() {
        let slow: Lookup = |name, port| {
            if name != "fast.invalid" {
                thread::sleep(Duration::from_secs(4));
            }
            Ok(vec![([127, 0, 0, 1], port).into()])
        };
        let names = ["http://slow.invalid:1", "http://fast.invalid:2"];
        let begun = Instant::now();
        let backends = Backend::all_by(&[options(&names), options(&names[..1]), options(&names)], &[], slow);
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        let found: Vec<_> = backends.iter().map(|backend| addresses(backend)).collect();
        assert_eq!(found, [vec!["127.0.0.1:2"], vec![], vec!["127.0.0.1:2"]]);
    }

    #[test]
    fn a_backend_whose_name_is_missing_has_no_address_and_ends_with_its_thread() {
        let backend = Backend::new(BackendOptions {
            dns_refresh: Duration::from_millis(1),
            ..options(&["http://missing.invalid:1"])
        });
        assert_eq!(backend.targets().len(), 0);
        let weak = Arc::downgrade(&backend);
        drop(backend);
        while weak.upgrade().is_some() {
            thread::yield_now();
        }
    }
}
