//! What the main thread of a server waits for.

use std::sync::mpsc::Sender;

use crate::control::Asker;
use crate::watch::Watched;

/// Why the server stops.
pub(crate) enum Stop {
    /// A person or a supervisor asked for it.
    Signal(i32),
    /// The log failed: nothing more can be recorded.
    LogFailed(String),
}

/// What the main thread hears of.
pub(crate) enum Event {
    Stop(Stop),
    /// The configuration is to be read anew. The asker, if there is one, waits for the answer.
    Reload(Option<Asker>),
    /// A file changed. The watcher waits for the files to watch now.
    Changed(Sender<Watched>),
}
