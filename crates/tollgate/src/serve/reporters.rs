//! The parts that report the state of a server: to systemd, on the admin listener, and over the control
//! socket.

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
    pub(super) fn start(config: &Config) -> anyhow::Result<Self> {
        let (observer, notifier) = (Observer::new(config), Notifier::from_environment());
        let watcher = Watcher::start(&observer, &notifier)?;
        let admin = AdminServer::start(&config.admin, &observer)?;
        let certificates =
            config.server.tls.as_ref().map(|_| CertificateWatch::start(&observer)).transpose()?;
        Ok(Self { observer, notifier, admin, _watcher: watcher, _certificates: certificates })
    }
}
