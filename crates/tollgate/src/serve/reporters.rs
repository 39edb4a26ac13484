//! The parts that report the state of a server: to systemd, on the admin listener, and over the control
//! socket.

use super::take_over::TakeOver;
use crate::admin::AdminServer;
use crate::certificate_watch::CertificateWatch;
use crate::config::Config;
use crate::notify::Notifier;
use crate::observe::{Observer, Watcher};

/// The parts that report the state of the server to other processes.
pub(super) struct Reporters {
    pub(super) observer: Observer,
    pub(super) notifier: Notifier,
    pub(super) admin: Option<AdminServer>,
    /// The watcher of the server. Its thread runs until this value is dropped.
    _watcher: Watcher,
    /// Loads changed certificates. Its thread runs until this value is dropped.
    _certificates: Option<CertificateWatch>,
}

impl Reporters {
    /// Starts the parts. During an upgrade, the old process still reports to systemd, and it may
    /// have the admin listener.
    pub(super) fn start(config: &Config, take_over: &TakeOver) -> anyhow::Result<Self> {
        let (observer, notifier) = (Observer::new(config), Notifier::from_environment());
        if take_over.is_upgrade() {
            notifier.mute();
        }
        let watcher = Watcher::start(&observer, &notifier)?;
        let admin = match take_over.awaits_admin() {
            true => None,
            false => AdminServer::start(&config.admin, &observer)?,
        };
        let certificates =
            config.server.tls.as_ref().map(|_| CertificateWatch::start(&observer)).transpose()?;
        Ok(Self { observer, notifier, admin, _watcher: watcher, _certificates: certificates })
    }

    /// Takes over from the old process, which has given its duties up.
    pub(super) fn take_over(&mut self, config: &Config, take_over: &mut TakeOver) -> anyhow::Result<()> {
        if let Some(socket) = take_over.take_admin() {
            self.admin = Some(AdminServer::take_over(&config.admin, &self.observer, socket)?);
        } else if self.admin.is_none() {
            self.admin = AdminServer::start(&config.admin, &self.observer)?;
        }
        self.notifier.take_over();
        Ok(())
    }
}
