//! The start of the new process of an upgrade: what it takes from the old process, and when.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::{Log, OpenError};
use tollgate_server::{AwaitedListeners, Listeners, Server};

use crate::config::{Config, ConfigError};
use crate::event::Event;
use crate::upgrade::{DrainingProcess, Handed, Predecessor};

/// Time within which the kernel releases the lock of an old process that died.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// What a start takes from a running server.
pub(super) enum TakeOver {
    /// A usual start.
    Nothing,
    /// An upgrade. The old process serves until [`Self::serve`].
    From { old: Predecessor, awaits_admin: bool, handed: Handed },
    /// An upgrade that reached its last step. The old process drains, or it has ended.
    Done { admin: Option<OwnedFd> },
}

impl TakeOver {
    /// Greets the process that started this one for an upgrade, if there is one.
    ///
    /// # Errors
    /// The two programs do not understand each other.
    pub(super) fn find() -> anyhow::Result<Self> {
        let old = Predecessor::find()?;
        Ok(old.map_or(Self::Nothing, |old| Self::From {
            old,
            awaits_admin: false,
            handed: Handed::default(),
        }))
    }

    pub(super) const fn is_upgrade(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Returns the reasons why this process cannot take over.
    pub(super) fn faults(&self, config: &Config) -> Vec<String> {
        match self {
            Self::From { old, .. } => old.faults(config),
            Self::Nothing | Self::Done { .. } => Vec::new(),
        }
    }

    /// Reports why the start ends. The old process, if there is one, serves on.
    pub(super) fn refuse(&self, code: u8, text: &str) {
        if let Self::From { old, .. } = self {
            old.refuse(code, text);
        }
    }

    /// Reports the error of a start.
    pub(super) fn end(&self, result: &anyhow::Result<ExitCode>) {
        let Err(error) = result else { return };
        match error.downcast_ref::<ConfigError>() {
            Some(error) => {
                let faults: Vec<_> = error.faults.iter().map(ToString::to_string).collect();
                self.refuse(2, &faults.join("\n"));
            }
            None => self.refuse(1, &format!("{error:#}")),
        }
    }

    /// Binds the addresses, or gets their sockets from the old process. All checks of the configuration have
    /// passed.
    ///
    /// # Errors
    /// An address cannot be used.
    pub(super) fn listen(&mut self, config: &Config) -> anyhow::Result<Listeners> {
        let Self::From { old, awaits_admin, handed } = self else {
            return Ok(Listeners::bind(&config.server)?);
        };
        let awaited = AwaitedListeners::bind(&config.server, old.listens())?;
        *awaits_admin = old.has_admin(config.admin.listen.name().as_deref());
        *handed = old.take(awaited.awaited(), *awaits_admin)?;
        Ok(awaited.complete(std::mem::take(&mut handed.listens))?)
    }

    /// Returns whether the old process has the admin listener.
    pub(super) const fn awaits_admin(&self) -> bool {
        matches!(self, Self::From { awaits_admin: true, .. })
    }

    /// Returns the lock of the folder of logs that the old process handed over.
    pub(super) fn take_lock(&mut self) -> Option<File> {
        match self {
            Self::From { handed, .. } => handed.lock.take(),
            Self::Nothing | Self::Done { .. } => None,
        }
    }

    /// Opens the log. If the old process died before it handed its lock over, the lock becomes free soon.
    ///
    /// # Errors
    /// The same as `open`.
    pub(super) fn open<T>(&self, open: impl Fn() -> Result<T, OpenError>) -> Result<T, OpenError> {
        let end = Instant::now() + LOCK_PATIENCE;
        loop {
            match open() {
                Err(OpenError::Locked(_)) if self.is_upgrade() && Instant::now() < end => {
                    thread::sleep(LOCK_PAUSE);
                }
                opened => return opened,
            }
        }
    }

    /// Checks that the new process of an upgrade got no signal to stop. If it did, the old one serves on.
    ///
    /// # Errors
    /// There was such a signal.
    pub(super) fn expect_no_stop(&self, events: &Receiver<Event>) -> anyhow::Result<()> {
        if self.is_upgrade() && matches!(events.try_recv(), Ok(Event::Stop(_))) {
            anyhow::bail!("the new process got a signal to stop before it served");
        }
        Ok(())
    }

    /// Reports that this process accepts connections. Returns the old process when it has given its duties
    /// up. `None`: this is a usual start.
    ///
    /// # Errors
    /// The old process keeps its duties.
    pub(super) fn serve(&mut self, server: &Server, log: &Log) -> anyhow::Result<Option<DrainingProcess>> {
        let (old, handed) = match std::mem::replace(self, Self::Nothing) {
            Self::From { old, handed, .. } => (old, handed),
            other => {
                *self = other;
                return Ok(None);
            }
        };
        *self = Self::Done { admin: handed.admin };
        let old = old.serve()?;
        server.own_listens();
        log.take_over_from(old.log());
        old.watch(log.take_log(old.log()))?;
        Ok(Some(old))
    }

    /// Returns the admin socket that the old process handed over.
    pub(super) fn take_admin(&mut self) -> Option<OwnedFd> {
        match self {
            Self::Done { admin } => admin.take(),
            Self::Nothing | Self::From { .. } => None,
        }
    }
}
