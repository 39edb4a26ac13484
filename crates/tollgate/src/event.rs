//! The events that the main thread of a server waits for.

use std::sync::mpsc::Sender;

use crate::control::Asker;
use crate::watch::Watched;

/// Why the server stops.
pub(crate) enum Stop {
    /// A person or a supervisor sent a signal.
    Signal(i32),
    /// The log failed, so nothing more can be recorded.
    LogFailed(String),
}

/// An event for the main thread.
pub(crate) enum Event {
    Stop(Stop),
    /// The configuration is to be read again. The asker, if there is one, waits for the answer.
    Reload(Option<Asker>),
    /// A file changed. The watcher waits for the list of files to watch from now on.
    Changed(Sender<Watched>),
}
