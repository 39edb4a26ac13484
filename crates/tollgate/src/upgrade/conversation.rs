//! The old process starts a new program, and leads the conversation until the new process serves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::VARIABLE;
use super::channel::{Channel, DESCRIPTORS_MAX, ReceiveError};
use super::message::{Message, VERSIONS};
use super::offer::Offer;
use super::order::Refusal;
use super::program::RUNNING;

/// Time within which a new process says that it runs.
const STARTED_MAX: Duration = Duration::from_secs(20);
/// Time within which a new process checks its configuration and compiles its scripts.
const CHECKED_MAX: Duration = Duration::from_mins(3);
/// Time within which a new process recovers the logs of dead processes, and serves.
const SERVING_MAX: Duration = Duration::from_mins(5);
/// Time within which a process that closed its socket ends.
const END_MAX: Duration = Duration::from_secs(2);
const END_PAUSE: Duration = Duration::from_millis(10);

/// The step that an upgrade has reached, until the new process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Starting,
    Checking,
    HandingOver,
}

impl Step {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starts",
            Self::Checking => "checks its configuration",
            Self::HandingOver => "takes the sockets over",
        }
    }
}

/// The new process, as the threads of the old one share it.
pub(super) struct NewProcess {
    state: Mutex<State>,
}

struct State {
    child: Option<Child>,
    step: Step,
    is_aborted: bool,
}

impl NewProcess {
    pub(super) const fn new() -> Self {
        Self { state: Mutex::new(State { child: None, step: Step::Starting, is_aborted: false }) }
    }

    pub(super) fn step(&self) -> Step {
        self.lock().step
    }

    fn reach(&self, step: Step) {
        self.lock().step = step;
    }

    /// Returns the process id, or zero before the start.
    pub(super) fn id(&self) -> u32 {
        self.lock().child.as_ref().map_or(0, Child::id)
    }

    /// Kills the process, also if it is started later.
    pub(super) fn abort(&self) {
        self.lock().is_aborted = true;
        self.kill();
    }

    fn kill(&self) {
        if let Some(child) = &mut self.lock().child {
            // A process that has ended needs no signal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until the process that closed its socket ends, and kills it otherwise. Returns its end as text.
    fn end(&self) -> String {
        let until = Instant::now() + END_MAX;
        while Instant::now() < until {
            if let Some(Ok(Some(status))) = self.lock().child.as_mut().map(Child::try_wait) {
                return status.to_string();
            }
            thread::sleep(END_PAUSE);
        }
        self.kill();
        "it was killed".to_owned()
    }

    fn start(&self, command: &mut Command) -> io::Result<()> {
        let mut state = self.lock();
        if state.is_aborted {
            return Err(io::Error::other("the server stops"));
        }
        state.child = Some(command.spawn()?);
        Ok(())
    }

    /// Locks the state, also after a panic of another thread. The state is consistent after every statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new process that serves.
pub(super) struct Serving {
    pub(super) channel: Channel,
    /// The version of the new program.
    pub(super) program: String,
    /// The addresses whose sockets the new process has.
    pub(super) listens: Vec<String>,
}

/// Starts a program and hands everything over to it. If this fails, the new process is dead.
///
/// # Errors
/// The text says why. Nothing changed in this process.
pub(super) fn converse(program: &Path, offer: &Offer, new: &NewProcess) -> Result<Serving, Refusal> {
    let conversation = Conversation::begin(program, offer, new)?;
    let serving = conversation.lead();
    if serving.is_err() {
        new.kill();
    }
    serving
}

struct Conversation<'a> {
    channel: Channel,
    offer: &'a Offer,
    new: &'a NewProcess,
}

impl<'a> Conversation<'a> {
    fn begin(program: &Path, offer: &'a Offer, new: &'a NewProcess) -> Result<Self, Refusal> {
        let failed = |error: io::Error| Refusal::new(format!("cannot start {}: {error}", program.display()));
        let (channel, theirs) = Channel::pair().map_err(failed)?;
        channel.send(&Message::Hello(offer.hello.clone()), &[]).map_err(failed)?;
        let mut command = Command::new(program);
        // The supervisor watches this process now, and the new one later.
        let mut arguments = std::env::args_os();
        if let Some(name) = arguments.next().filter(|_| program == Path::new(RUNNING)) {
            command.arg0(name);
        }
        command.args(arguments).env(VARIABLE, "stdin").env_remove("WATCHDOG_PID");
        new.start(command.stdin(Stdio::from(theirs))).map_err(failed)?;
        Ok(Self { channel, offer, new })
    }

    fn lead(self) -> Result<Serving, Refusal> {
        let program = self.wait_started()?;
        self.new.reach(Step::Checking);
        let Message::Checked { listens, wants_admin } = self.next("checked", CHECKED_MAX)? else {
            return Err(self.unexpected("checked"));
        };
        self.new.reach(Step::HandingOver);
        self.hand_over(&listens, wants_admin)
            .map_err(|error| Refusal::new(format!("cannot hand the sockets over: {error}")))?;
        match self.next("serving", SERVING_MAX)? {
            Message::Serving => Ok(Serving { channel: self.channel, program, listens }),
            _ => Err(self.unexpected("serving")),
        }
    }

    fn wait_started(&self) -> Result<String, Refusal> {
        match self.next("started", STARTED_MAX)? {
            Message::Started { version, program } if (VERSIONS.0..=VERSIONS.1).contains(&version) => {
                Ok(program)
            }
            Message::Started { version, program } => Err(Refusal::new(format!(
                "the new program {program} uses version {version} of the upgrade protocol, this one knows {} \
                 to {}: restart instead",
                VERSIONS.0, VERSIONS.1
            ))),
            _ => Err(self.unexpected("started")),
        }
    }

    /// Waits for the next message.
    fn next(&self, wanted: &str, within: Duration) -> Result<Message, Refusal> {
        match self.channel.receive(within) {
            Ok((Message::Refused { code, text }, _)) => {
                self.new.end();
                Err(Refusal { code, text })
            }
            Ok((message, _)) => Ok(message),
            Err(ReceiveError::Ended) if wanted == "started" => Err(Refusal::new(format!(
                "the new program ended before it began to upgrade, {}: it is no Tollgate, or its version has \
                 no upgrade (then restart instead)",
                self.new.end()
            ))),
            Err(ReceiveError::Ended) => Err(Refusal::new(format!(
                "the new process ended before it was {wanted}, {}: its log lines say why",
                self.new.end()
            ))),
            Err(error) => Err(Refusal::new(format!("{error}, expected was {wanted}: it was killed"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> Refusal {
        Refusal::new(format!("the new process sent an unexpected message, expected was {wanted}"))
    }

    fn hand_over(&self, listens: &[String], wants_admin: bool) -> io::Result<()> {
        for listen in self.offer.listens.iter().filter(|listen| listens.contains(&listen.name)) {
            let sockets: Vec<BorrowedFd<'_>> = listen.sockets.iter().map(AsFd::as_fd).collect();
            for (part, sockets) in (0..).zip(sockets.chunks(DESCRIPTORS_MAX)) {
                self.channel.send(&Message::Listen { name: listen.name.clone(), part }, sockets)?;
            }
        }
        if let Some(admin) = self.offer.admin.as_ref().filter(|_| wants_admin) {
            self.channel.send(&Message::Admin, &[admin.as_fd()])?;
        }
        self.channel.send(&Message::Lock, &[self.offer.lock.as_fd()])?;
        self.channel.send(&Message::Go, &[])
    }
}
