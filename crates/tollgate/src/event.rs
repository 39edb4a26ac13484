//! The events that the main thread of a server waits for.

use std::sync::mpsc::Sender;

use crate::control::Asker;
use crate::upgrade::{Refusal, Successor, UpgradeOrder};
use crate::watch::Watched;

/// Why the server stops.
pub(crate) enum Stop {
    /// A person or a supervisor sent a signal.
    Signal(i32),
    /// The log failed, so nothing more can be recorded.
    LogFailed(String),
    /// Another process serves.
    Replaced(Successor),
}

/// An event for the main thread.
pub(crate) enum Event {
    Stop(Stop),
    /// An order to read the configuration again. The asker, if there is one, waits for the answer.
    Reload(Option<Asker>),
    /// An order to renew the certificate of a name, or all certificates.
    Renew(Option<String>, Asker),
    Upgrade(UpgradeOrder),
    /// The new process of an upgrade serves, or the upgrade is refused.
    Upgraded(Result<Successor, Refusal>),
    /// A watched file changed. The watcher waits for the new list of files to watch.
    Changed(Sender<Watched>),
}
