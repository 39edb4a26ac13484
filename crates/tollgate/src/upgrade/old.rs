//! The old process of an upgrade: from the order until its own end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::channel::Channel;
use super::conversation::{NewProcess, Serving, converse};
use super::message::Message;
use super::offer::Offer;
use super::order::Refusal;
use super::program;

/// Number of further processes that the old one starts, if a new process dies while the old one drains.
const RETAKES_MAX: u32 = 3;
/// Interval at which the old process reports its connections to the new one.
const REPORT_PERIOD: Duration = Duration::from_millis(500);

/// An upgrade that has begun, as the main thread of the old process sees it.
pub(crate) struct BegunUpgrade(Arc<NewProcess>);

impl BegunUpgrade {
    /// Starts a new program on a thread, and hands everything over to it. The result goes to `report`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn begin(
        program: Option<PathBuf>,
        offer: Offer,
        report: impl FnOnce(Result<Successor, Refusal>) + Send + 'static,
    ) -> Result<Self, Refusal> {
        let program = program.map_or_else(program::path, Ok);
        let program = program.map_err(|error| Refusal::new(format!("cannot find the program: {error}")))?;
        let new = Arc::new(NewProcess::new());
        let begun = Self(new.clone());
        let lead = move || {
            tracing::info!(program = %program.display(), "upgrade: starting the new program");
            report(converse(&program, &offer, &new).map(|serving| Successor::new(serving, offer, new)));
        };
        let thread = thread::Builder::new().name("upgrade".to_owned()).spawn(lead);
        thread.map_err(|error| Refusal::new(format!("cannot start a thread: {error}")))?;
        Ok(begun)
    }

    /// Returns why another order cannot be followed now.
    pub(crate) fn describe(&self) -> String {
        format!("an upgrade runs already: process {} {}", self.0.id(), self.0.step().name())
    }

    /// Kills the new process, because this server stops.
    pub(crate) fn abort(&self) {
        self.0.abort();
    }
}

/// The new process, which serves.
pub(crate) struct Successor {
    shared: Arc<Shared>,
    program: String,
    /// The addresses whose sockets the new process has.
    listens: Vec<String>,
}

/// State that the main thread shares with the thread that watches the new process.
struct Shared {
    /// Copies of the sockets, as long as another process may need them.
    offer: Mutex<Option<Offer>>,
    new: Arc<NewProcess>,
    channel: Mutex<Arc<Channel>>,
    guard: Mutex<Guard>,
    changed: Condvar,
}

/// What the thread that watches the new process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    Watching,
    /// The new process died. The old one starts another one, because it has the sockets too.
    Retaking,
    /// The new process ended as ordered, or none can be started.
    Over(Outcome),
}

/// Whether a server remains after the old process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ordered,
    Dead,
}

impl Successor {
    fn new(Serving { channel, program, listens }: Serving, mut offer: Offer, new: Arc<NewProcess>) -> Self {
        // The sockets of removed addresses are closed when their workers have emptied the queues.
        offer.listens.retain(|listen| listens.contains(&listen.name));
        offer.hello.listens.clone_from(&listens);
        let (channel, guard) = (Mutex::new(Arc::new(channel)), Mutex::new(Guard::Watching));
        let offer = Mutex::new(Some(offer));
        let shared = Arc::new(Shared { offer, new, channel, guard, changed: Condvar::new() });
        Self { shared, program, listens }
    }

    /// Returns the process id.
    pub(crate) fn process(&self) -> u32 {
        self.shared.new.id()
    }

    /// Returns the version of the new program.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// Returns the addresses whose sockets the new process has.
    pub(crate) fn listens(&self) -> &[String] {
        &self.listens
    }

    /// Reports that this process has given its duties up, and watches the new process from now on.
    /// `connections` returns the connections that this process still has.
    pub(crate) fn yield_to(&self, connections: impl Fn() -> u64 + Send + 'static) {
        // If the new process is dead, the thread below notices that.
        let _ = self.shared.send(&Message::Yielded);
        let watched = self.shared.clone();
        let watch = move || watched.watch();
        if let Err(error) = thread::Builder::new().name("successor".to_owned()).spawn(watch) {
            tracing::warn!(%error, "the new process is not watched: this one starts no other if it dies");
            self.shared.set(Guard::Over(Outcome::Ordered));
        }
        let shared = Arc::downgrade(&self.shared);
        let report = move || {
            while let Some(shared) = shared.upgrade() {
                let _ = shared.send(&Message::Draining { connections: connections() });
                let state = shared.guard();
                drop(shared.changed.wait_timeout(state, REPORT_PERIOD));
            }
        };
        drop(thread::Builder::new().name("drain-report".to_owned()).spawn(report));
    }

    /// Waits until no other process has to be started. Returns whether a server remains, or has ended as
    /// ordered.
    pub(crate) fn is_safe(&self) -> bool {
        let mut state = self.shared.guard();
        loop {
            match *state {
                Guard::Over(outcome) => return outcome == Outcome::Ordered,
                Guard::Watching if !self.shared.channel().has_ended() => return true,
                Guard::Watching | Guard::Retaking => {
                    let waited = self.shared.changed.wait_timeout(state, REPORT_PERIOD);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

impl Shared {
    /// Waits for the end of the new process. If it dies, starts the running program again.
    fn watch(&self) {
        for _ in 0..RETAKES_MAX {
            if self.is_ended_as_ordered() {
                return self.set(Guard::Over(Outcome::Ordered));
            }
            self.set(Guard::Retaking);
            tracing::error!("the new process died: starting the program of this process again");
            match self.start_another() {
                Ok(serving) => {
                    *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(serving.channel);
                    let _ = self.send(&Message::Yielded);
                    tracing::warn!(process = self.new.id(), "the program of this process serves again");
                }
                Err(Refusal { text, .. }) => {
                    tracing::error!(reason = text, "no other process serves: the supervisor has to restart");
                    return self.set(Guard::Over(Outcome::Dead));
                }
            }
            self.set(Guard::Watching);
        }
        self.set(Guard::Over(Outcome::Dead));
    }

    fn start_another(&self) -> Result<Serving, Refusal> {
        match &*self.offer() {
            Some(offer) => converse(Path::new(program::RUNNING), offer, &self.new),
            None => Err(Refusal::new("the sockets are closed")),
        }
    }

    /// Reads messages until the new process ends. Returns whether it said so before.
    fn is_ended_as_ordered(&self) -> bool {
        let channel = self.channel();
        let mut is_ordered = false;
        while let Ok((message, _)) = channel.read() {
            is_ordered |= message == Message::Ending;
        }
        is_ordered
    }

    fn send(&self, message: &Message) -> std::io::Result<()> {
        self.channel().send(message, &[])
    }

    fn channel(&self) -> Arc<Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self) -> MutexGuard<'_, Option<Offer>> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, guard: Guard) {
        if matches!(guard, Guard::Over(_)) {
            // No process accepts any more, so the kernel has to refuse connections.
            *self.offer() = None;
        }
        *self.guard() = guard;
        self.changed.notify_all();
    }
}
