//! `tollgate load --from`: loads the segments that other machines shipped to a store.
//!
//! A fetcher copies undamaged segments into a folder of this machine. One loader for each sink reads this
//! folder. Any number of machines may load from one store, because the position in the database decides which
//! of them commits a record. Leases in the database give each log to one of them.
//!
//! A volume is a folder whose files one host takes over: `volume` opens it, and the answers stay on it.

mod volume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tollgate_load::{
    DeclaredStreams, LeaseKeeper, LoadOptions, LoadState, LoadStatus, LoadWatch, Loader, RefusedLogs,
    SinkOptions,
};
use tollgate_log::DiskStorage;
use tollgate_ship::{
    FetchOptions, FetchState, FetchStatus, FetchTuning, Fetcher, LogFetch, ReadPositions, Spool, StoreRetain,
};

use crate::cli::LoadCommand;
use crate::config::{Config, SinkConfig};
use crate::leases::{LeasedLogs, Sharing, start_leases};
use crate::load_end::{LeftLogs, OnceEnd, print_end};
use crate::loader::{self, Runs};
use crate::observe::Fetching;
use crate::print::{note, problem};
use crate::store::{SEGMENT_BYTES_MAX, open_store};
use volume::FromVolume;

/// Time between two checks whether all records are loaded.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Time between two checks of the store, for a command that ends by itself.
const POLL_ONCE: Duration = Duration::from_millis(500);
/// Maximum bytes of fetched segments that are not loaded yet.
const SPOOL_BYTES_MAX: u64 = 4 << 30;
/// Name of the folder of fetched segments, which is next to the log folder.
const SPOOL: &str = "fetched";
/// Time for which faulty logs are tried again when nothing else is left to load.
const FAULTY_PATIENCE: Duration = Duration::from_secs(5);

/// A fetcher, and the loaders that read its folder.
pub(crate) struct LoadFrom {
    /// The loaders, dropped before the fetcher. The fetcher writes the last positions when it is dropped.
    loaders: Vec<Loader>,
    fetcher: Fetcher,
    /// The leases end after the last positions are in the store.
    leases: LeaseKeeper,
    spool: Spool,
    /// `None`: the store is no volume.
    volume: Option<FromVolume>,
}

impl LoadFrom {
    /// Starts to fetch from a store and to load.
    ///
    /// # Errors
    /// The store or the folder cannot be used, or a thread cannot be started.
    pub(crate) fn start(
        config: &Config,
        sinks: &[SinkConfig],
        place: &str,
        command: &LoadCommand,
    ) -> anyhow::Result<Self> {
        let volume = FromVolume::open(config, sinks, place, command)?;
        let store = match &volume {
            Some(volume) => volume.store(),
            None => open_store(place, &command.store)?,
        };
        let spool = spool_of(config, command);
        let mut tuning = if volume.is_some() { volume::tuning(command.once) } else { FetchTuning::default() };
        if command.once {
            (tuning.poll, tuning.list) = (POLL_ONCE, POLL_ONCE);
        }
        if command.once && volume.is_none() {
            tuning.gap_patience = Duration::ZERO;
        }
        let spool = Spool::take(&DiskStorage, &spool)?;
        // Only the machine that filled a volume deletes its segments.
        let age = config.load.store_retain.time().filter(|_| volume.is_none());
        let sharing = if volume.is_some() { Sharing::Alone } else { Sharing::WithOthers };
        let leases = start_leases(config, sinks, place, &spool, sharing, age.is_some())?;
        let options = FetchOptions {
            spool: spool.folder().to_owned(),
            spool_bytes_max: SPOOL_BYTES_MAX,
            segment_bytes_max: SEGMENT_BYTES_MAX,
            retain: StoreRetain { age, sinks: None },
            tuning,
        };
        // The fetcher empties the folder, so no loader may read it before.
        let leased = Box::new(LeasedLogs(leases.watch()));
        let storage = Arc::new(DiskStorage);
        let fetcher = Fetcher::start_sharing(options, storage, store, positions_of(sinks), leased)?;
        let waker = fetcher.waker();
        leases.watch().on_gain(move || waker.wake());
        let start = |sink: &SinkConfig| {
            // Streams and types are read from the segments. The streams of this configuration are ignored.
            let sink = SinkOptions { declared: DeclaredStreams::default(), ..sink.options.clone() };
            let mut options = LoadOptions::new(spool.folder(), sink);
            options.leases = Some(leases.watch());
            options.tuning = loader::tuning(config, if command.once { Runs::Once } else { Runs::On });
            options.refused = RefusedLogs::Wait;
            Loader::start_beside(options, Arc::new(DiskStorage), None)
        };
        let loaders = sinks.iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { loaders, fetcher, leases, spool, volume })
    }

    pub(crate) fn watches(&self) -> Vec<LoadWatch> {
        self.loaders.iter().map(Loader::watch).collect()
    }

    /// Returns the fetcher and the leases, for reports.
    pub(crate) fn fetching(&self, store: &str) -> Fetching {
        Fetching { store: store.to_owned(), fetch: self.fetcher.watch(), leases: self.leases.watch() }
    }

    /// Returns the folder of fetched segments.
    pub(crate) fn spool(&self) -> &Path {
        self.spool.folder()
    }

    /// Waits until every record in the store is loaded, or needs an operator before it can be loaded. Prints
    /// the result.
    pub(crate) fn finish(self, signals: &Receiver<i32>) -> OnceEnd {
        let (mut faulty_since, mut left_logs) = (None, LeftLogs::default());
        loop {
            let fetch = self.fetcher.watch().status();
            let loads: Vec<_> = self.loaders.iter().map(Loader::status).collect();
            if fetch.is_all_loaded() || loads.iter().any(is_unusable) {
                break;
            }
            let is_waiting = left_logs.look(&fetch);
            faulty_since = if !is_waiting && is_left_with_faults(&fetch, &loads) {
                faulty_since.or_else(|| Some(Instant::now()))
            } else {
                None
            };
            if faulty_since.is_some_and(|since: Instant| since.elapsed() >= FAULTY_PATIENCE) {
                break;
            }
            if signals.recv_timeout(LOOK_PAUSE) != Err(RecvTimeoutError::Timeout) {
                problem("stopped before all records were loaded: the next run continues");
                return OnceEnd::Stopped;
            }
        }
        self.print_end()
    }

    fn print_end(self) -> OnceEnd {
        let fetch = self.fetcher.watch().status();
        let loads = self.loaders.iter().map(|loader| print_end(loader.name(), &loader.status()));
        let is_loaded = loads.fold(true, |all, one| all & one);
        for (log, found) in &fetch.logs {
            let fault = found.fault.as_ref().map(ToString::to_string);
            if let Some(text) = fault.or_else(|| left_text(found)) {
                note(&format!("log {log} of {}: {text}", found.node));
            }
        }
        if let Some(error) = &fetch.last_error {
            problem(&format!("cannot fetch: {error}"));
        }
        let is_loaded = fetch.is_all_loaded() && is_loaded;
        let Self { loaders, fetcher, leases, spool, volume } = self;
        // The fetcher gives the last positions to the volume. The leases end after that.
        drop((loaders, fetcher, leases, spool));
        let is_given_back = volume.is_none_or(FromVolume::finish);
        OnceEnd::of(is_loaded && is_given_back)
    }
}

/// Returns the folder of fetched segments and of the sockets.
pub(crate) fn spool_of(config: &Config, command: &LoadCommand) -> PathBuf {
    command.spool.clone().unwrap_or_else(|| spool_beside(&config.log.dir))
}

/// Returns the default folder of fetched segments for a log folder.
pub(crate) fn spool_beside(log_dir: &Path) -> PathBuf {
    log_dir.with_file_name(SPOOL)
}

fn is_unusable(status: &LoadStatus) -> bool {
    status.is_unusable || status.state == LoadState::Stopped
}

/// Returns whether only faulty logs remain to be loaded, or the store does not answer.
fn is_left_with_faults(fetch: &FetchStatus, loads: &[LoadStatus]) -> bool {
    let is_idle = |status: &LoadStatus| {
        status.state == LoadState::CaughtUp
            || status.only_failing_since.is_some()
            || !status.stopped_logs.is_empty()
    };
    match fetch.state {
        FetchState::Retrying => true,
        FetchState::CaughtUp => loads.iter().all(is_idle),
        FetchState::Fetching | FetchState::Full | FetchState::Ended => false,
    }
}

fn left_text(log: &LogFetch) -> Option<String> {
    (!log.is_fetched_here && log.behind_since.is_some()).then(|| {
        format!("another loader has the lease of the log, and has loaded it up to record {}", log.loaded)
    })
}

fn positions_of(sinks: &[SinkConfig]) -> ReadPositions {
    let sinks: Vec<_> = sinks.iter().map(|sink| sink.options.clone()).collect();
    Box::new(move || {
        let mut all = BTreeMap::new();
        for sink in &sinks {
            all.insert(sink.name.clone(), sink.positions()?.unwrap_or_default());
        }
        Ok(all)
    })
}
