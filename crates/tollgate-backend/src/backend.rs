//! The state of one backend that the workers of a process share.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::budget::RetryBudget;
use crate::limit::Limit;
use crate::resolver::{FirstLookup, KnownAddresses, Lookup, Resolver, places, system};
use crate::target::{Target, TargetAddress};
use crate::{Address, AddressSnapshot, BackendOptions, BackendSnapshot, BreakerState, HandshakeFault};

/// Maximum time for which a start waits for the first lookups of all names. Later results are used when they
/// arrive.
const FIRST_LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// A backend: a service with one or more addresses.
#[derive(Debug)]
pub struct Backend {
    pub(crate) options: BackendOptions,
    pub(crate) limit: Limit,
    pub(crate) budget: RetryBudget,
    pub(crate) counters: Counters,
    targets: RwLock<Arc<[Arc<Target>]>>,
    /// Number that changes with the targets, so that a worker notices new targets without a comparison of the
    /// lists.
    version: AtomicU64,
    /// Known addresses of each configured address that is a name.
    known: Mutex<Vec<KnownAddresses>>,
    begun: Instant,
    _resolver: Resolver,
}

/// Counters since the backend was created.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) resends: AtomicU64,
    pub(crate) connects: AtomicU64,
    /// Failed handshakes by cause, in the order of [`HandshakeFault::ALL`].
    handshakes: [AtomicU64; HandshakeFault::ALL.len()],
}

impl Counters {
    /// Returns the counter of handshakes that failed with this fault.
    pub(crate) fn of_handshakes(&self, fault: HandshakeFault) -> &AtomicU64 {
        &self.handshakes[fault as usize]
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Backend {
    /// Creates a backend. Threads of the backend look up its names, and repeat the lookups.
    ///
    /// A name that is not found at once adds no addresses until it is found.
    pub fn new(options: BackendOptions) -> Arc<Self> {
        Self::all(&[options], &[]).swap_remove(0)
    }

    /// Creates the backends of a configuration. A backend of `before` whose options are unchanged is reused,
    /// with its breakers and counters.
    pub fn all(options: &[BackendOptions], before: &[Arc<Self>]) -> Vec<Arc<Self>> {
        Self::all_by(options, before, system)
    }

    pub(crate) fn all_by(options: &[BackendOptions], before: &[Arc<Self>], lookup: Lookup) -> Vec<Arc<Self>> {
        let (first, all_done) = sync_channel(0);
        let one = |options: &BackendOptions| {
            let same = before.iter().find(|backend| backend.options == *options);
            same.map_or_else(|| Self::begin(options.clone(), lookup, &first), Arc::clone)
        };
        let backends = options.iter().map(one).collect();
        drop(first);
        // The channel closes when each name had its first lookup. A request before that would fail, because
        // the addresses of the name are not known yet.
        let _ = all_done.recv_timeout(FIRST_LOOK_TIMEOUT);
        backends
    }

    fn begin(options: BackendOptions, lookup: Lookup, first: &FirstLookup) -> Arc<Self> {
        let known = vec![KnownAddresses::default(); options.addresses.len()];
        let targets = places(&options, &known).into_iter();
        let targets: Vec<_> = targets.map(|place| Arc::new(Target::new(place, &options.breaker))).collect();
        let (resolver, lookups) = Resolver::new(&options, lookup);
        let backend = Arc::new(Self {
            limit: Limit::new(&options),
            budget: RetryBudget::new(options.retries.percent),
            counters: Counters::default(),
            targets: RwLock::new(targets.into()),
            version: AtomicU64::new(0),
            known: Mutex::new(known),
            begun: Instant::now(),
            options,
            _resolver: resolver,
        });
        for lookup in lookups {
            let weak = Arc::downgrade(&backend);
            lookup.start(first.clone(), move |place, name, found| {
                weak.upgrade().map(|backend| backend.learn(place, name, found)).is_some()
            });
        }
        backend
    }

    /// Returns the configuration.
    pub fn options(&self) -> &BackendOptions {
        &self.options
    }

    /// Returns the milliseconds since the backend was created.
    pub(crate) fn ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn targets(&self) -> Arc<[Arc<Target>]> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the result of a lookup for the configured address at index `place`.
    pub(crate) fn learn(&self, place: usize, name: &str, found: io::Result<Vec<SocketAddr>>) {
        // The lock is held until the addresses are set, because another lookup may end at the same time.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(place) {
            known.learn(&self.options.name, name, found);
        }
        self.set_places(places(&self.options, &known));
    }

    /// Returns the names whose last lookup failed, without duplicates.
    fn missing_names(&self) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.options.addresses.iter().zip(known.iter());
        let mut names: Vec<_> = all
            .filter_map(|(address, known)| match address {
                Address::Name { name, .. } if known.is_missing => Some(name.clone()),
                _ => None,
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Sets the current addresses. Addresses that stay keep their breakers.
    fn set_places(&self, places: Vec<TargetAddress>) {
        let present = self.targets();
        let one = |place: TargetAddress| {
            let same = present.iter().find(|target| target.place == place);
            same.map_or_else(|| Arc::new(Target::new(place, &self.options.breaker)), Arc::clone)
        };
        let targets: Arc<[_]> = places.into_iter().map(one).collect();
        let is_same = targets.len() == present.len()
            && targets.iter().zip(present.iter()).all(|(one, other)| Arc::ptr_eq(one, other));
        if is_same {
            return;
        }
        let names: Vec<_> = targets.iter().map(|target| target.place.to_string()).collect();
        tracing::info!(backend = self.options.name, addresses = names.join(", "), "addresses of the backend");
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the current state, for metrics and people.
    pub fn snapshot(&self) -> BackendSnapshot {
        let now_ms = self.ms(Instant::now());
        let addresses: Vec<_> = self
            .targets()
            .iter()
            .map(|target| AddressSnapshot {
                address: target.place.to_string(),
                breaker: target.breaker.state(now_ms),
                is_lost: target.reach.is_known_lost(now_ms),
                outstanding: target.outstanding(),
                idle: target.idle.load(Ordering::Relaxed),
            })
            .collect();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BackendSnapshot {
            name: self.options.name.clone(),
            // The state of the backend is the best state of its addresses, because one usable address
            // suffices.
            breaker: addresses.iter().map(|address| address.breaker).min().unwrap_or(BreakerState::Closed),
            in_flight: self.limit.in_flight(),
            queued: self.limit.queued(),
            requests: read(&self.counters.requests),
            failures: read(&self.counters.failures),
            refusals: read(&self.counters.refusals),
            retries: read(&self.counters.retries),
            resends: read(&self.counters.resends),
            connects: read(&self.counters.connects),
            handshake_failures: HandshakeFault::ALL
                .map(|fault| (fault.name(), read(self.counters.of_handshakes(fault)))),
            addresses,
            missing_names: self.missing_names(),
        }
    }
}
