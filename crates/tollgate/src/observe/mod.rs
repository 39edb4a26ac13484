//! How the server does, gathered for whoever asks: the admin listener, `tollgate status`, systemd.
//!
//! Everything is read from cells and locks that nobody holds over a call of the disk, so the answer comes also while a
//! worker does not turn, the disk hangs or a database is away. [`health`] says what is wrong and what to do about it,
//! [`metrics`] tells Prometheus, [`document`] everybody else; [`history`] knows how it was a minute ago.

mod document;
pub(crate) mod health;
mod history;
mod memory;
pub(crate) mod metrics;
mod process;
mod reloads;
mod trimmer;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tollgate_load::LoadWatch;
use tollgate_log::{LogId, LogStatus, LogWatch};
use tollgate_server::{ServerStatus, ServerWatch};

use crate::board::Board;
use crate::config::Config;
use crate::tracing_lines;
use crate::wall::{self, ClockFault};
use history::History;
use process::Process;
pub(crate) use reloads::Reloads;
pub(crate) use watcher::{Watcher, is_alive};

/// Where the server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not serve yet.
    Starting,
    Serving,
    /// It was told to stop, and ends what it began.
    Draining,
}

impl Phase {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Draining => "draining",
        }
    }
}

/// How the server does.
#[derive(Clone)]
pub(crate) struct Observer(Arc<Inner>);

struct Inner {
    source: PathBuf,
    begun: Instant,
    worker_stall_max: Duration,
    lag_max: Duration,
    phase: Mutex<Phase>,
    log: OnceLock<LogWatch>,
    server: OnceLock<ServerWatch>,
    board: OnceLock<Board>,
    /// Some route records, so that a full disk is its end.
    records: AtomicBool,
    damaged: Mutex<Damaged>,
    reloads: Mutex<Reloads>,
    history: Mutex<History>,
    process: Process,
}

/// What a start found of earlier runs that does not hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Damaged {
    /// How many segments are damaged.
    pub(crate) segments: u64,
    /// The first of them.
    pub(crate) first: Option<PathBuf>,
    /// Logs that cannot be mended, and why.
    pub(crate) unmended: Vec<(LogId, String)>,
}

/// What is known at a moment.
pub(crate) struct Seen {
    pub(crate) phase: Phase,
    pub(crate) log: Option<LogStatus>,
    pub(crate) server: Option<ServerStatus>,
    /// A report for each sink.
    pub(crate) sinks: Vec<serde_json::Value>,
    pub(crate) records: bool,
    pub(crate) damaged: Damaged,
    pub(crate) clock: Option<ClockFault>,
    pub(crate) reloads: Reloads,
    pub(crate) process: process::Usage,
    /// Log lines that were left out.
    pub(crate) lines_left_out: u64,
    pub(crate) uptime: Duration,
}

impl Observer {
    /// Of a server that is about to start.
    pub(crate) fn new(config: &Config) -> Self {
        let observer = Self(Arc::new(Inner {
            source: config.source.clone(),
            begun: Instant::now(),
            worker_stall_max: config.admin.worker_stall_max,
            lag_max: config.load.lag_max,
            phase: Mutex::new(Phase::Starting),
            log: OnceLock::new(),
            server: OnceLock::new(),
            board: OnceLock::new(),
            records: AtomicBool::new(false),
            damaged: Mutex::default(),
            reloads: Mutex::new(Reloads::new()),
            history: Mutex::default(),
            process: Process::new(),
        }));
        observer.take(config);
        observer
    }

    /// Takes what depends on the configuration that serves.
    pub(crate) fn take(&self, config: &Config) {
        let records = config.server.routes.iter().any(|route| route.stream.is_some());
        self.0.records.store(records, Ordering::Relaxed);
    }

    /// The log is there.
    pub(crate) fn see_log(&self, log: LogWatch, board: Board) {
        // Both are set once.
        let _ = self.0.log.set(log);
        let _ = self.0.board.set(board);
    }

    /// Loaders of this process are these from now on.
    pub(crate) fn show(&self, loaders: Vec<LoadWatch>) {
        self.board().show(loaders);
    }

    /// How the sinks do; nobody tells of any before the log is there.
    pub(crate) fn board(&self) -> Board {
        self.0.board.get().cloned().unwrap_or_default()
    }

    /// Everything that is known, in a line of JSON.
    pub(crate) fn status_line(&self) -> String {
        let seen = self.look();
        self.document(&seen, &self.health(&seen)).to_string()
    }

    /// The server serves.
    pub(crate) fn see_server(&self, server: ServerWatch) {
        let _ = self.0.server.set(server);
        // Loaders could not come before. They have the time of `LOADER_PATIENCE` from now on.
        self.board().forget_absences();
        self.enter(Phase::Serving);
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *locked(&self.0.phase) = phase;
    }

    /// A segment was found damaged.
    pub(crate) fn note_damaged(&self, file: &Path) {
        let mut damaged = locked(&self.0.damaged);
        damaged.segments += 1;
        damaged.first.get_or_insert_with(|| file.to_owned());
    }

    /// The start left these logs as they are, because they cannot be mended. Those of an earlier look are forgotten.
    pub(crate) fn note_unmended(&self, logs: Vec<(LogId, String)>) {
        locked(&self.0.damaged).unmended = logs;
    }

    /// The configuration was read anew, or was not taken.
    pub(crate) fn note_reload(&self, change: impl FnOnce(&mut Reloads)) {
        change(&mut locked(&self.0.reloads));
    }

    /// Looks at everything.
    pub(crate) fn look(&self) -> Seen {
        let Self(inner) = self;
        Seen {
            phase: *locked(&inner.phase),
            log: inner.log.get().map(LogWatch::status),
            server: inner.server.get().map(ServerWatch::status),
            sinks: inner.board.get().map(Board::reports).unwrap_or_default(),
            records: inner.records.load(Ordering::Relaxed),
            damaged: locked(&inner.damaged).clone(),
            clock: wall::fault(),
            reloads: locked(&inner.reloads).clone(),
            process: inner.process.usage(),
            lines_left_out: tracing_lines::left_out(),
            uptime: inner.begun.elapsed(),
        }
    }
}

/// What is behind a lock here is whole after every statement.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
