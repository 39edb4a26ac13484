//! The thread that checks the server once a second: it takes samples, logs findings, reports to systemd, and
//! trims free memory.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::health::{Code, Health, Severity};
use super::history::Sample;
use super::memory::Sum;
use super::observer::{Inner, Observer, locked};
use super::seen::Seen;
use super::trimmer::Trimmer;
use crate::notify::Notifier;

const PERIOD: Duration = Duration::from_secs(1);
/// Interval at which systemd gets a status line while no finding changes.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// Watches until it is dropped.
pub(crate) struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to watch.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(observer: &Observer, notifier: &Notifier) -> anyhow::Result<Self> {
        let (stop, stopped) = channel();
        let (observer, notifier) = (observer.clone(), notifier.clone());
        let watch = move || Watching::new(observer, notifier).run(&stopped);
        let thread = thread::Builder::new().name("watcher".to_owned()).spawn(watch);
        let thread = thread.context("cannot start the thread of the watcher")?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already ended the process.
            let _ = thread.join();
        }
    }
}

struct Watching {
    observer: Observer,
    notifier: Notifier,
    period: Duration,
    /// The findings of the last check.
    known: Vec<Code>,
    status_sent_at: Option<Instant>,
    trimmer: Trimmer,
}

impl Watching {
    fn new(observer: Observer, notifier: Notifier) -> Self {
        let period = notifier.watchdog().map_or(PERIOD, |patience| PERIOD.min(patience / 2));
        Self {
            observer,
            notifier,
            period,
            known: Vec::new(),
            status_sent_at: None,
            trimmer: Trimmer::default(),
        }
    }

    fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            self.look();
            match stopped.recv_timeout(self.period) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
        }
    }

    fn look(&mut self) {
        let seen = self.observer.look();
        if let Some(server) = &seen.server {
            locked(&self.observer.0.route_failures).note(Instant::now(), &server.routes);
        }
        let health = self.observer.health(&seen);
        self.note(&seen, &health);
        self.trimmer.look(Instant::now(), Sum::of(&seen));
        if is_alive(&health) {
            self.notifier.watchdog_alive();
        }
        let is_new = self.log_changes(&health);
        if is_new || self.status_sent_at.is_none_or(|at| at.elapsed() >= STATUS_PERIOD) {
            self.status_sent_at = Some(Instant::now());
            self.notifier.status(&self.line(&seen, &health));
        }
    }

    /// Takes a sample of the state.
    fn note(&self, seen: &Seen, health: &Health) {
        let (now, Inner { samples, history, .. }) = (Instant::now(), &*self.observer.0);
        let counts = locked(samples).note(now, seen);
        locked(history).note(now, &Sample::of(seen, counts, health));
    }

    /// Logs the findings that began or ended since the last check. Returns whether any finding began or
    /// ended.
    fn log_changes(&mut self, health: &Health) -> bool {
        let mut codes: Vec<_> = health.0.iter().map(|finding| finding.code).collect();
        codes.dedup();
        for finding in health.0.iter().filter(|finding| !self.known.contains(&finding.code)) {
            let (code, advice) = (finding.code.name(), finding.code.advice());
            if is_logged_elsewhere(finding.code) {
                continue;
            }
            match finding.code.severity() {
                Severity::Reason => tracing::error!(code, advice, "not ready: {}", finding.text),
                Severity::Warning => tracing::warn!(code, advice, "{}", finding.text),
            }
        }
        for code in self.known.iter().filter(|code| !codes.contains(code) && !is_logged_elsewhere(**code)) {
            tracing::info!(code = code.name(), "the finding has ended");
        }
        let is_new = codes != self.known;
        self.known = codes;
        is_new
    }

    /// Returns the state in a line.
    fn line(&self, seen: &Seen, health: &Health) -> String {
        if let Some(finding) = health.0.first() {
            return finding.text.clone();
        }
        let document = self.observer.document(seen, health);
        if seen.only_loads() {
            let rate = document["rates"]["rows"].as_f64().unwrap_or_default();
            return format!("{}: {rate:.0} rows/s", seen.phase.name());
        }
        let rate = document["rates"]["requests"].as_f64().unwrap_or_default();
        let connections = seen.server.as_ref().map_or(0, |server| server.connections);
        format!("{}: {rate:.0} requests/s, {connections} connections", seen.phase.name())
    }
}

/// Returns whether the process works. A hung worker makes this false.
pub(crate) fn is_alive(health: &Health) -> bool {
    !health.has(Code::WorkerStalled)
}

/// Returns whether the code that detects this fault logs it itself.
fn is_logged_elsewhere(code: Code) -> bool {
    !matches!(
        code,
        Code::WorkerStalled
            | Code::LogStalled
            | Code::LogGone
            | Code::MemoryFull
            | Code::MemoryShort
            | Code::DiskTight
            | Code::DescriptorsShort
            | Code::SinkUnattended
            | Code::SinkWaiting
            | Code::SinkRejecting
            | Code::TableMissing
            | Code::TopicCopiesFew
            | Code::RouteFailing
            | Code::ShipStalled
            | Code::ShipBehind
            | Code::CertificateUnusable
            | Code::CertificateExpires
    )
}
