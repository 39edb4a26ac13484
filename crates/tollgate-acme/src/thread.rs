//! The thread `acme`, from its start to its end, and the commands to it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;
use tollgate_tls::Certificate;

use crate::dns::{Dns, OpenDns};
use crate::options::AcmeOptions;
use crate::report::AcmeWatch;
use crate::worker::Worker;

/// Pause between two looks at the folder and at the clock.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause after a panic, so that a fault that repeats sends few orders.
const PAUSE_AFTER_PANIC: Duration = Duration::from_mins(10);
/// Maximum number of commands that wait.
const COMMANDS_MAX: usize = 16;

/// A command to the thread.
enum Command {
    /// Look now, because a person asked for orders.
    Look,
    /// Use other options.
    Change(Box<AcmeOptions>, Option<OpenDns>),
}

/// The thread that orders certificates. Dropping this value ends the thread after its present request.
pub struct Acme {
    commands: Option<Sender<Command>>,
    watch: AcmeWatch,
    thread: Option<JoinHandle<()>>,
}

/// The certificates before the thread starts. A name without a certificate has a self-signed one.
pub struct Prepared {
    worker: Worker,
}

impl Prepared {
    /// Reads the folder. A folder that cannot be used is no error: then all names have self-signed
    /// certificates, and the thread tries again.
    pub fn new(options: AcmeOptions, clock: impl Fn() -> u64 + Send + 'static) -> Self {
        Self { worker: Worker::new(options, Box::new(clock)) }
    }

    /// Returns the certificates, in the order of the names.
    pub fn certificates(&self) -> Vec<Certificate> {
        self.worker.certificates()
    }

    /// Starts the thread. `install` gets all certificates each time that one changes. The thread opens the
    /// hook for challenges by DNS.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        self,
        dns: Option<OpenDns>,
        install: impl Fn(Vec<Certificate>) + Send + 'static,
    ) -> io::Result<Acme> {
        let Self { mut worker } = self;
        worker.install_by(Box::new(install));
        let watch = worker.watch();
        let (commands, mut receiver) = mpsc::channel(COMMANDS_MAX);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let mut dns = Dns::open(dns);
            let mut work = || runtime.block_on(run(&mut worker, &mut dns, &mut receiver));
            // The state of a pass is on disk, so the next pass may begin after any step of this one.
            while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
                thread::sleep(PAUSE_AFTER_PANIC);
            }
        };
        let thread = thread::Builder::new().name("acme".to_owned()).spawn(run)?;
        Ok(Acme { commands: Some(commands), watch, thread: Some(thread) })
    }
}

async fn run(worker: &mut Worker, dns: &mut Dns, commands: &mut Receiver<Command>) {
    loop {
        worker.pass(dns).await;
        match timeout(PAUSE, commands.recv()).await {
            Ok(None) => return,
            Ok(Some(Command::Change(options, open))) => {
                *dns = Dns::open(open);
                worker.change(*options);
            }
            Ok(Some(Command::Look)) | Err(_) => {}
        }
    }
}

impl Acme {
    /// Returns a handle that reads the state.
    pub fn watch(&self) -> AcmeWatch {
        self.watch.clone()
    }

    /// Asks for orders of these names now. The status shows when they are done.
    pub fn renew(&self, names: &[String]) {
        self.watch.requested_mut().extend(names.iter().cloned());
        for certificate in &mut self.watch.status_mut().certificates {
            certificate.is_requested |= names.contains(&certificate.name);
        }
        // A full queue wakes the thread too.
        self.send(Command::Look);
    }

    /// Changes the options and the hook, and passes all certificates to `install` again.
    pub fn change(&self, options: AcmeOptions, dns: Option<OpenDns>) {
        self.send(Command::Change(Box::new(options), dns));
    }

    /// Sends a command. A queue that is full for a long time belongs to a thread that hangs, so the caller
    /// does not wait.
    fn send(&self, command: Command) {
        if self.commands.as_ref().is_some_and(|commands| commands.try_send(command).is_err()) {
            tracing::warn!("the thread of [acme] is busy: a command is lost");
        }
    }
}

impl Drop for Acme {
    /// Does not wait for the thread, because a request to the ACME server may take 30 s. The end of the
    /// process ends it, and the next start continues the order.
    fn drop(&mut self) {
        self.commands = None;
        drop(self.thread.take());
    }
}
