//! The order to upgrade, and why it is refused.

use std::path::PathBuf;

use crate::control::{Asker, Reloaded};

/// An order to start a new program that takes over.
pub(crate) struct UpgradeOrder {
    /// The program. `None`: the path of the running program.
    pub(crate) program: Option<PathBuf>,
    /// The client that waits for the outcome. `None`: the order was a signal.
    pub(crate) asker: Option<Asker>,
}

/// Why an upgrade did not happen. The old process serves on.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The exit code of the command.
    pub(super) code: u8,
    pub(super) text: String,
}

impl From<Refusal> for Reloaded {
    fn from(Refusal { code, text }: Refusal) -> Self {
        Self { code, text: format!("not upgraded, process {} still serves:\n{text}\n", std::process::id()) }
    }
}

impl Refusal {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }
}
