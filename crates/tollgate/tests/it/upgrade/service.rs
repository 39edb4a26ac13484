//! A service whose process changes with each upgrade.

use std::fs;
use std::net::SocketAddr;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Client;
use crate::program::{App, Running, eventually, printed};

/// A service that a first process began. Later processes are no children of this test, but they write to the
/// same pipes. Dropping this value kills the present process.
pub(crate) struct Service<'a> {
    app: &'a App,
    first: Option<Running>,
    address: SocketAddr,
    process: u32,
}

impl<'a> Service<'a> {
    pub(crate) fn start(app: &'a App) -> Self {
        Self::of(app, app.start())
    }

    pub(crate) fn of(app: &'a App, first: Running) -> Self {
        let (address, process) = (first.address(), first.id());
        Self { app, first: Some(first), address, process }
    }

    /// Returns the id of the process that serves.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Runs a command that upgrades. Returns what it printed.
    pub(crate) fn upgrade(&mut self, command: &[&str]) -> String {
        let output = self.app.run(command);
        let text = printed(&output);
        assert!(output.status.success(), "{text}\n{}", self.logged());
        let id = text.strip_prefix("upgraded: process ").and_then(|rest| rest.split(' ').next());
        self.process = id.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
        text
    }

    /// Sends SIGUSR2, and waits until the new process serves.
    pub(crate) fn upgrade_by_signal(&mut self) {
        let before = self.logged().matches(SERVES).count();
        self.signal(Signal::USR2);
        let line = eventually("the new process serves", || {
            self.logged().lines().filter(|line| line.contains(SERVES)).nth(before).map(str::to_owned)
        });
        let line: serde_json::Value = line.parse().unwrap();
        self.process = line["process"].as_u64().unwrap().try_into().unwrap();
    }

    /// Notes the process that serves now.
    pub(crate) fn follow(&mut self, process: u32) {
        self.process = process;
    }

    /// Waits for a log line with this message. Its process serves now.
    pub(crate) fn follow_the_log(&mut self, message: &str) {
        let line = eventually(message, || {
            self.logged().lines().find(|line| line.contains(message)).map(str::to_owned)
        });
        let line: serde_json::Value = line.parse().unwrap();
        self.process = line["process"].as_u64().unwrap().try_into().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.process, signal);
    }

    pub(crate) fn wait_for_end_of(&self, process: u32) {
        eventually("a process ends", || has_ended(process).then_some(()));
    }

    /// Waits until the present process knows that the one before has ended. Then it may be upgraded.
    pub(crate) fn wait_until_it_knows_the_end_of(&self, process: u32) {
        let is_told = |line: &str| {
            line.contains("the old process has ended") && line.contains(&format!("\"process\":{process},"))
        };
        eventually("the end of a process is known", || self.logged().lines().any(is_told).then_some(()));
    }

    /// Returns the log lines of all processes so far.
    pub(crate) fn logged(&self) -> String {
        self.first.as_ref().map(Running::logged).unwrap_or_default()
    }

    /// Sends SIGTERM to the present process. Returns the log lines of all processes after their ends.
    pub(crate) fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        self.end()
    }

    /// Waits until all processes have ended. Returns their log lines.
    fn end(&mut self) -> String {
        let first = self.first.take().unwrap();
        let is_first = first.id() == self.process;
        let (status, log) = first.wait();
        assert!(!is_first || status.success(), "{log}");
        log
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        if self.first.is_some() {
            send(self.process, Signal::KILL);
        }
    }
}

const SERVES: &str = "upgraded: the new process serves";

pub(crate) fn send(process: u32, signal: Signal) {
    // A process that has just ended needs no signal.
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal);
}

/// Returns whether a process has ended, also if no process waited for it.
pub(crate) fn has_ended(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z') || rest.starts_with('X'))
}
