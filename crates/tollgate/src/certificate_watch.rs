//! The thread that loads the files of certificates again when they change.
//!
//! The kernel reports changes in the folders of the files, and of the files at the end of symbolic links.
//! A change that the kernel does not report, such as one on a network file system, is found within a minute.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ::notify::event::{AccessKind, AccessMode};
use ::notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher, recommended_watcher};
use anyhow::Context;
use tollgate_server::ServerTls;

use crate::observe::Observer;

/// Interval of the looks at the files.
const PERIOD: Duration = Duration::from_mins(1);
/// Interval of the check whether a reload brought other files.
const TICK: Duration = Duration::from_secs(1);
/// Quiet time before a change is read, because a pair is usually written in several steps.
const QUIET: Duration = Duration::from_millis(50);
/// Longest time until a change is read, even if further changes follow.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of changes that may wait to be received. More say nothing new.
const CHANGES_MAX: usize = 16;

enum Wake {
    Changed,
    Stop,
}

/// Watches until it is dropped.
pub(crate) struct CertificateWatch {
    waker: SyncSender<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl CertificateWatch {
    /// Begins to watch the files of the present configuration and of later ones.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(observer: &Observer) -> anyhow::Result<Self> {
        let (waker, wakes) = sync_channel(CHANGES_MAX);
        let watching = Watching::new(observer.clone(), waker.clone());
        let thread = thread::Builder::new().name("certificates".to_owned());
        let thread = thread.spawn(move || watching.run(&wakes));
        let thread = Some(thread.context("cannot start the thread that watches certificates")?);
        Ok(Self { waker, thread })
    }
}

impl Drop for CertificateWatch {
    fn drop(&mut self) {
        // If the thread is gone, the order is dropped.
        let _ = self.waker.send(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already ended the process.
            let _ = thread.join();
        }
    }
}

struct Watching {
    observer: Observer,
    /// `None`: the kernel reports no changes.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    /// The certificates whose folders are watched.
    tls: Option<Arc<ServerTls>>,
    looked_at: Instant,
}

impl Watching {
    fn new(observer: Observer, waker: SyncSender<Wake>) -> Self {
        let on_event = move |event: ::notify::Result<Event>| {
            if event.is_ok_and(|event| !is_change(&event)) {
                return;
            }
            // If the channel is full, a change is already waiting to be read.
            let _ = waker.try_send(Wake::Changed);
        };
        let watcher = recommended_watcher(on_event).inspect_err(|error| warn(Path::new(""), error)).ok();
        Self { observer, watcher, folders: BTreeSet::new(), tls: None, looked_at: Instant::now() }
    }

    fn run(mut self, wakes: &Receiver<Wake>) {
        loop {
            let is_other = self.take();
            if is_other || self.looked_at.elapsed() >= PERIOD {
                self.look();
            }
            match wakes.recv_timeout(TICK) {
                Ok(Wake::Changed) if wait_for_quiet(wakes) => self.look(),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes the present certificates of the server. Returns whether they are other ones than before.
    fn take(&mut self) -> bool {
        let now = self.observer.tls();
        let is_same = match (&self.tls, &now) {
            (Some(known), Some(now)) => Arc::ptr_eq(known, now),
            (None, None) => true,
            _ => false,
        };
        self.tls = now;
        if !is_same {
            self.follow();
        }
        !is_same
    }

    fn look(&mut self) {
        self.looked_at = Instant::now();
        let Some(tls) = &self.tls else { return };
        if tls.look() {
            tracing::info!(
                certificates = tls.certificates().len(),
                "certificates changed: new handshakes use them"
            );
        }
        // A symbolic link may lead to another folder now.
        self.follow();
    }

    /// Watches the folders of the files, and no other folders.
    fn follow(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let folders = self.tls.as_deref().map(folders).unwrap_or_default();
        for folder in self.folders.difference(&folders) {
            // An error means that the folder no longer exists, so the system has removed the watch already.
            let _ = watcher.unwatch(folder);
        }
        for folder in folders.difference(&self.folders) {
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                warn(folder, &error);
            }
        }
        self.folders = folders;
    }
}

fn warn(folder: &Path, error: &::notify::Error) {
    let folder = folder.display();
    tracing::warn!(%folder, %error, "cannot watch certificates: changes are seen within a minute");
}

/// Returns the folders of all files, and of the files at the end of symbolic links.
fn folders(tls: &ServerTls) -> BTreeSet<PathBuf> {
    let paths = tls.options().paths().flat_map(|path| [Some(path.to_owned()), path.canonicalize().ok()]);
    paths.flatten().filter_map(|path| Some(path.parent()?.to_owned())).collect()
}

/// Waits until no change follows for `QUIET`. Returns false for an order to stop.
fn wait_for_quiet(wakes: &Receiver<Wake>) -> bool {
    let first = Instant::now();
    while first.elapsed() < PATIENCE {
        match wakes.recv_timeout(QUIET) {
            Ok(Wake::Changed) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

/// Returns whether an event may change a file. Reads of the files are events too.
fn is_change(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
}
