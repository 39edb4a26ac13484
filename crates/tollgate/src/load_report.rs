//! The parts of `tollgate load --from` that report its state: the control socket, the admin listener,
//! systemd.
//!
//! Both sockets are in the folder of `--spool`, because a server may use the log folder of the same
//! configuration. An address in `[admin]` replaces the default socket.

use std::path::Path;
use std::time::Duration;

use tollgate_load::LoadWatch;

use crate::admin::AdminServer;
use crate::config::{ADMIN_SOCKET, AdminListen, Config};
use crate::control::{Asker, Control, ControlOrder, Reloaded};
use crate::notify::Notifier;
use crate::observe::{LoadSource, Observer, Phase, Watcher};
use crate::sinks::Followers;

/// Time within which the process ends after a signal. The loads end after their current chunks.
const STOP_TIME: Duration = Duration::from_secs(30);

/// The parts that report the state of the process. A drop ends them.
pub(crate) struct LoadReporters {
    observer: Observer,
    notifier: Notifier,
    admin: Option<AdminServer>,
    _control: Option<Control>,
    _watcher: Watcher,
}

impl LoadReporters {
    /// Starts to report.
    ///
    /// # Errors
    /// The address in `[admin]` cannot be used, or a thread cannot be started.
    pub(crate) fn start(
        config: &Config,
        spool: &Path,
        source: LoadSource,
        loaders: Vec<LoadWatch>,
    ) -> anyhow::Result<Self> {
        let (observer, notifier) = (Observer::new(config), Notifier::from_environment());
        observer.note_reload(|reloads| reloads.loads(config));
        observer.see_loading(source, loaders);
        let watcher = Watcher::start(&observer, &notifier)?;
        let mut admin = config.admin.clone();
        if let AdminListen::LogFolder(_) = admin.listen {
            admin.listen = AdminListen::LogFolder(spool.join(ADMIN_SOCKET));
        }
        let admin = AdminServer::start(&admin, &observer)?;
        let control = start_control(spool, &observer);
        notifier.ready();
        Ok(Self { observer, notifier, admin, _control: control, _watcher: watcher })
    }

    /// Returns the address of the admin listener, for a log line.
    pub(crate) fn admin(&self) -> String {
        self.admin.as_ref().map(|admin| admin.bound().to_string()).unwrap_or_default()
    }

    /// Notes that the process ends.
    pub(crate) fn stopping(&self) {
        self.observer.enter(Phase::Draining);
        self.notifier.stopping(STOP_TIME);
    }
}

/// Starts the control socket. If it cannot start, the process loads without it.
fn start_control(spool: &Path, observer: &Observer) -> Option<Control> {
    let asked = observer.clone();
    let on_status = move || asked.status_line();
    let control =
        Control::serve(spool, None, Followers::default(), observer.board(), on_status, refuse_reload);
    let report = |error: &anyhow::Error| {
        let error = format!("{error:#}");
        tracing::warn!(error, "the control socket cannot be opened: `tollgate status` does not work");
    };
    control.inspect_err(report).ok()
}

fn refuse_reload(_: ControlOrder, asker: Asker) {
    let text = "this process only loads: restart it to change its configuration\n".to_owned();
    asker.reply(&Reloaded { code: 1, text });
}
