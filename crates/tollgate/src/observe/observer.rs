//! The observer gathers the state of the server from cells and locks each time that a reader asks for it.

use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_acme::AcmeWatch;
use tollgate_load::LoadWatch;
use tollgate_log::{LogId, LogWatch};
use tollgate_server::{AccessQueue, ServerTls, ServerWatch};

use super::damage::NotedDamage;
use super::fetching::LoadSource;
use super::history::History;
use super::process::Process;
use super::reloads::Reloads;
use super::route_failures::RouteFailures;
use super::samples::Samples;
use super::seen::{OldProcess, Phase, Seen};
use crate::board::Board;
use crate::certificates::Certificates;
use crate::config::Config;
use crate::ships::TargetWatch;
use crate::tracing_lines;
use crate::wall;

/// Time that an old process of an upgrade needs after its drain: for its log and its loaders, on a busy
/// machine.
const OLD_PROCESS_TIME: Duration = Duration::from_secs(45);

/// Reads the state of an old process.
type OldProcessLook = Box<dyn Fn() -> Option<OldProcess> + Send + Sync>;

/// Gathers the state of the server. Clones share it.
#[derive(Clone)]
pub(crate) struct Observer(pub(super) Arc<Inner>);

pub(super) struct Inner {
    /// The configuration, absolute: the asker of a status may be in another folder.
    pub(super) source: PathBuf,
    begun: Instant,
    pub(super) worker_stall_max: Duration,
    pub(super) lag_max: Duration,
    pub(super) segment_age_max: Duration,
    phase: Mutex<Phase>,
    old_process: OnceLock<OldProcessLook>,
    /// Longest time that an old process of an upgrade drains.
    pub(super) old_process_age_max: Duration,
    upgrades_refused: AtomicU64,
    log: OnceLock<LogWatch>,
    server: OnceLock<ServerWatch>,
    board: OnceLock<Board>,
    ships: Mutex<Vec<TargetWatch>>,
    acme: Mutex<Option<AcmeWatch>>,
    /// What a process that only loads reads.
    load_source: OnceLock<LoadSource>,
    /// Whether a route records. If so, a full disk makes the server fail.
    records: AtomicBool,
    /// The certificates of the present configuration.
    tls: Mutex<Option<Arc<ServerTls>>>,
    log_dir: PathBuf,
    damage: Mutex<NotedDamage>,
    reloads: Mutex<Reloads>,
    pub(super) samples: Mutex<Samples>,
    pub(super) history: Mutex<History>,
    pub(super) route_failures: Mutex<RouteFailures>,
    process: Process,
    access_queue: Arc<AccessQueue>,
    span_queue: Arc<AccessQueue>,
}

impl Observer {
    /// Makes the observer of a server that is about to start.
    pub(crate) fn new(config: &Config) -> Self {
        let observer = Self(Arc::new(Inner {
            source: absolute(&config.source).unwrap_or_else(|_| config.source.clone()),
            begun: Instant::now(),
            worker_stall_max: config.admin.worker_stall_max,
            lag_max: config.load.lag_max,
            segment_age_max: config.log.segment_age_max,
            phase: Mutex::new(Phase::Starting),
            old_process: OnceLock::new(),
            old_process_age_max: config.server.drain_timeout + OLD_PROCESS_TIME,
            upgrades_refused: AtomicU64::new(0),
            log: OnceLock::new(),
            server: OnceLock::new(),
            board: OnceLock::new(),
            ships: Mutex::default(),
            acme: Mutex::default(),
            load_source: OnceLock::new(),
            records: AtomicBool::new(false),
            tls: Mutex::default(),
            log_dir: config.log.dir.clone(),
            damage: Mutex::default(),
            reloads: Mutex::new(Reloads::new()),
            samples: Mutex::default(),
            history: Mutex::new(History::new()),
            route_failures: Mutex::default(),
            process: Process::new(),
            access_queue: Arc::clone(&config.server.access_queue),
            span_queue: Arc::clone(&config.server.span_queue),
        }));
        observer.take(config);
        observer
    }

    /// Sets the values that depend on the present configuration.
    pub(crate) fn take(&self, config: &Config) {
        let records = config.server.routes.iter().any(|route| route.stream.is_some());
        self.0.records.store(records, Ordering::Relaxed);
        locked(&self.0.tls).clone_from(&config.server.tls);
    }

    /// Returns the certificates of the present configuration.
    pub(crate) fn tls(&self) -> Option<Arc<ServerTls>> {
        locked(&self.0.tls).clone()
    }

    /// Notes that the log is open.
    pub(crate) fn see_log(&self, log: LogWatch, board: Board) {
        // Each cell is set only once, so `set` cannot fail.
        let _ = self.0.log.set(log);
        let _ = self.0.board.set(board);
    }

    /// Notes that this process only loads.
    pub(crate) fn see_loading(&self, source: LoadSource, loaders: Vec<LoadWatch>) {
        let board = Board::default();
        board.show(loaders);
        let _ = self.0.board.set(board);
        let _ = self.0.load_source.set(source);
        self.enter(Phase::Loading);
    }

    /// Replaces the loaders of this process.
    pub(crate) fn show(&self, loaders: Vec<LoadWatch>) {
        self.board().show(loaders);
    }

    /// Replaces the ship targets.
    pub(crate) fn show_ships(&self, ships: Vec<TargetWatch>) {
        *locked(&self.0.ships) = ships;
    }

    /// Replaces the orders of certificates. `None`: the server orders none.
    pub(crate) fn show_acme(&self, acme: Option<AcmeWatch>) {
        *locked(&self.0.acme) = acme;
    }

    /// Returns the reports of the ship targets.
    fn ships(&self) -> Vec<Value> {
        locked(&self.0.ships).iter().map(TargetWatch::report).collect()
    }

    /// Returns the reports of the sinks. There are none before the log is open.
    pub(crate) fn board(&self) -> Board {
        self.0.board.get().cloned().unwrap_or_default()
    }

    /// Returns the whole state as a line of JSON.
    pub(crate) fn status_line(&self) -> String {
        let seen = self.look();
        self.document(&seen, &self.health(&seen)).to_string()
    }

    /// Returns the cells of the history that end after `since`, in seconds since 1970, as JSON.
    pub(crate) fn history(&self, since: Option<f64>) -> String {
        let wall = wall::now().as_microsecond() as f64 / 1e6;
        locked(&self.0.history).json(Instant::now(), wall, since)
    }

    /// Notes that the server serves.
    pub(crate) fn see_server(&self, server: ServerWatch) {
        let _ = self.0.server.set(server);
        // Loaders could not connect before this moment, so `LOADER_PATIENCE` begins now.
        self.board().forget_absences();
        self.enter(Phase::Serving);
    }

    /// Notes the old process of an upgrade. `look` returns its state while it drains.
    pub(crate) fn see_old_process(&self, look: impl Fn() -> Option<OldProcess> + Send + Sync + 'static) {
        let _ = self.0.old_process.set(Box::new(look));
    }

    /// Counts an upgrade that was refused.
    pub(crate) fn note_refused_upgrade(&self) {
        self.0.upgrades_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *locked(&self.0.phase) = phase;
    }

    /// Notes a damaged segment. Returns whether it was not noted yet.
    pub(crate) fn note_damaged(&self, log: LogId, file: &Path) -> bool {
        locked(&self.0.damage).note(&self.0.log_dir, log, file)
    }

    /// Replaces the list of logs that the start could not repair and left unchanged.
    pub(crate) fn note_unmended(&self, logs: Vec<(LogId, String)>) {
        locked(&self.0.damage).note_unmended(logs);
    }

    /// Notes a reload or its refusal.
    pub(crate) fn note_reload(&self, change: impl FnOnce(&mut Reloads)) {
        change(&mut locked(&self.0.reloads));
    }

    /// Reads the whole state.
    pub(crate) fn look(&self) -> Seen {
        let Self(inner) = self;
        let tls = inner.server.get().and_then(|_| self.tls());
        Seen {
            certificates: tls.as_deref().map(Certificates::of).unwrap_or_default(),
            phase: *locked(&inner.phase),
            old_process: inner.old_process.get().and_then(|look| look()),
            upgrades_refused: inner.upgrades_refused.load(Ordering::Relaxed),
            log: inner.log.get().map(LogWatch::status),
            server: inner.server.get().map(ServerWatch::status),
            sinks: inner.board.get().map(Board::reports).unwrap_or_default(),
            ships: self.ships(),
            acme: locked(&inner.acme).as_ref().map(AcmeWatch::status),
            fetch: inner.load_source.get().and_then(LoadSource::fetch_report),
            brokers: inner.load_source.get().and_then(LoadSource::brokers).map(str::to_owned),
            records: inner.records.load(Ordering::Relaxed),
            damaged: locked(&inner.damage).seen(&inner.log_dir),
            clock: wall::fault(),
            reloads: locked(&inner.reloads).clone(),
            process: inner.process.usage(),
            lines_left_out: tracing_lines::left_out(),
            access_log: inner.access_queue.report(),
            spans: inner.span_queue.report(),
            span_failure: inner.span_queue.failure(),
            uptime: inner.begun.elapsed(),
        }
    }
}

/// Locks a value, also after a panic of another thread. Each value here is consistent after every statement.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
