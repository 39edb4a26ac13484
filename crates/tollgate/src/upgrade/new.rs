//! The new process of an upgrade: from its start until the old process has ended.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tollgate_log::{FORMAT_VERSION, LogId};
use tollgate_server::HandedListen;

use super::VARIABLE;
use super::channel::{Channel, ReceiveError};
use super::message::{Hello, Message, VERSIONS, common_version};
use super::offer::identity;
use crate::config::Config;
use crate::observe;
use crate::sys::environment;

/// Time within which the old process sends its next message.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// Time within which the kernel ends a process that was killed.
const END_MAX: Duration = Duration::from_secs(10);

/// The old process, which still serves.
pub(crate) struct Predecessor {
    channel: Channel,
    hello: Hello,
}

/// What the old process handed over. If it died, some parts are missing.
#[derive(Default)]
pub(crate) struct Handed {
    pub(crate) listens: Vec<HandedListen>,
    pub(crate) admin: Option<OwnedFd>,
    /// The lock of the folder of logs.
    pub(crate) lock: Option<File>,
}

impl Predecessor {
    /// Greets the process that started this one for an upgrade. `None`: this is a usual start.
    ///
    /// The caller has started no thread yet, because the variable of the environment is removed.
    ///
    /// # Errors
    /// Standard input is no socket of an upgrade, or the versions do not match.
    pub(crate) fn find() -> anyhow::Result<Option<Self>> {
        if environment::take(VARIABLE).is_none() {
            return Ok(None);
        }
        let channel = take_stdin().and_then(Channel::of);
        let channel = channel.with_context(|| {
            format!("{VARIABLE} is set, but standard input is no socket of an upgrade: unset it")
        })?;
        let (Message::Hello(hello), _) = channel.receive(ANSWER_MAX)? else {
            anyhow::bail!("the old process of the upgrade sent no greeting");
        };
        let predecessor = Self { channel, hello };
        let program = env!("TOLLGATE_VERSION").to_owned();
        match common_version(predecessor.hello.versions) {
            // If the old process is gone, this one starts as usual. The next call notices that.
            Some(version) => {
                let _ = predecessor.channel.send(&Message::Started { version, program }, &[]);
            }
            None => {
                let (lowest, highest) = predecessor.hello.versions;
                let text = format!(
                    "the new program {program} knows versions {} to {} of the upgrade protocol, the old \
                     program {} knows {lowest} to {highest}: restart instead",
                    VERSIONS.0, VERSIONS.1, predecessor.hello.program
                );
                predecessor.refuse(1, &text);
                anyhow::bail!(text);
            }
        }
        Ok(Some(predecessor))
    }

    /// Returns the reasons why this process cannot take over with this configuration.
    pub(crate) fn faults(&self, config: &Config) -> Vec<String> {
        let mut faults = Vec::new();
        let (found, known) = (self.hello.log_format, u64::from(FORMAT_VERSION));
        if found > known {
            faults.push(format!(
                "the log has format version {found}, the new program knows versions up to {known}: stop the \
                 server, load all records, and start the other program"
            ));
        }
        if !identity(&config.log.dir).is_ok_and(|dir| dir == self.hello.log_dir) {
            faults.push(format!(
                "dir of [log] is {}, which is another folder than that of the running server: restart \
                 instead",
                config.log.dir.display()
            ));
        }
        faults
    }

    /// Returns the configured addresses whose sockets the old process has.
    pub(crate) fn listens(&self) -> &[String] {
        &self.hello.listens
    }

    /// Returns whether the old process has the admin listener of this address.
    pub(crate) fn has_admin(&self, name: Option<&str>) -> bool {
        name.is_some() && name == self.hello.admin.as_deref()
    }

    /// Reports why the upgrade cannot happen. The old process serves on.
    pub(crate) fn refuse(&self, code: u8, text: &str) {
        // If the old process is gone, the reason is not needed.
        let _ = self.channel.send(&Message::Refused { code, text: text.to_owned() }, &[]);
    }

    /// Reports that all checks passed, and gets the sockets of these addresses.
    ///
    /// # Errors
    /// The old process is alive, and sends something else.
    pub(crate) fn take(&self, listens: Vec<String>, wants_admin: bool) -> anyhow::Result<Handed> {
        let mut handed = Handed::default();
        // If the old process is gone, the next call notices that.
        let _ = self.channel.send(&Message::Checked { listens, wants_admin }, &[]);
        loop {
            let (message, descriptors) = match self.channel.receive(ANSWER_MAX) {
                Err(ReceiveError::Ended) => {
                    await_end(self.hello.process);
                    tracing::warn!(
                        process = self.hello.process,
                        "the old process ended before it handed all over"
                    );
                    return Ok(handed);
                }
                received => received?,
            };
            let mut one = descriptors.into_iter();
            match message {
                Message::Listen { name, part: 0 } => {
                    handed.listens.push(HandedListen { name, sockets: one.collect() });
                }
                Message::Listen { .. } => {
                    handed.listens.last_mut().into_iter().for_each(|last| last.sockets.extend(one.by_ref()));
                }
                Message::Admin => handed.admin = one.next(),
                Message::Lock => handed.lock = one.next().map(File::from),
                Message::Go => return Ok(handed),
                other => anyhow::bail!("the old process sent an unexpected message: {other:?}"),
            }
        }
    }

    /// Reports that this process accepts connections. Returns when the old one has given its duties up, or
    /// has ended.
    ///
    /// # Errors
    /// The old process is alive, and keeps its duties.
    pub(crate) fn serve(self) -> anyhow::Result<DrainingProcess> {
        let _ = self.channel.send(&Message::Serving, &[]);
        match self.channel.receive(ANSWER_MAX) {
            Ok((Message::Yielded, _)) => {}
            Err(ReceiveError::Ended) => await_end(self.hello.process),
            Ok((other, _)) => anyhow::bail!("the old process sent an unexpected message: {other:?}"),
            Err(error) => return Err(error).context("the old process does not give its duties up"),
        }
        let state = Arc::new(Mutex::new(OldState::Drains { since: Instant::now(), connections: None }));
        Ok(DrainingProcess {
            channel: Arc::new(self.channel),
            process: self.hello.process,
            log: self.hello.log,
            state,
        })
    }
}

/// The old process, which drains.
#[derive(Clone)]
pub(crate) struct DrainingProcess {
    channel: Arc<Channel>,
    process: u32,
    log: LogId,
    state: Arc<Mutex<OldState>>,
}

/// The state of an old process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OldState {
    /// It drains. The count of its connections is unknown at first.
    Drains {
        since: Instant,
        connections: Option<u64>,
    },
    Ended,
}

impl DrainingProcess {
    /// Returns the log that the process writes.
    pub(crate) fn log(&self) -> LogId {
        self.log
    }

    /// Waits for the end of the process on a thread, then calls `on_end`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn watch(&self, on_end: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
        let old = self.clone();
        let watch = move || {
            while let Ok((message, _)) = old.channel.read() {
                if let (Message::Draining { connections }, OldState::Drains { connections: known, .. }) =
                    (message, &mut *old.lock())
                {
                    *known = Some(connections);
                }
            }
            *old.lock() = OldState::Ended;
            tracing::info!(process = old.process, "upgraded: the old process has ended");
            on_end();
        };
        let thread = thread::Builder::new().name("old-process".to_owned()).spawn(watch);
        thread.context("cannot start the thread that watches the old process")?;
        Ok(())
    }

    /// Returns the state of the process while it drains. `None`: it has ended.
    pub(crate) fn drain(&self) -> Option<observe::OldProcess> {
        match *self.lock() {
            OldState::Drains { since, connections } => {
                Some(observe::OldProcess { process: self.process, age: since.elapsed(), connections })
            }
            OldState::Ended => None,
        }
    }

    /// Reports that this process ends as ordered. The old process then starts no other one.
    pub(crate) fn note_ending(&self) {
        // If the old process is gone, the message is not needed.
        let _ = self.channel.send(&Message::Ending, &[]);
    }

    fn lock(&self) -> MutexGuard<'_, OldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the kernel has closed all descriptors of a process that closed its socket, for at most
/// [`END_MAX`]. The kernel closes them one after another, so a listener may be open for a moment longer.
fn await_end(process: u32) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    // A process that cannot be opened is gone.
    let Some(Ok(process)) = id.map(|id| pidfd_open(id, PidfdFlags::empty())) else { return };
    let until = Instant::now() + END_MAX;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref()) {
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

/// Takes the socket at standard input, which becomes /dev/null. So no child of this process gets the socket.
fn take_stdin() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_end_of_a_process_is_awaited_and_a_process_that_is_gone_is_not() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = child.id();
        let killer = thread::spawn(move || {
            child.kill().unwrap();
            child
        });
        await_end(id);
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        assert!(stat.contains(") Z"), "{stat}");
        killer.join().unwrap().wait().unwrap();
        await_end(id);
    }
}
