//! Reports to systemd: datagrams to the socket in `NOTIFY_SOCKET`.
//!
//! Source: sd_notify(3), systemd.service(5). Without that variable nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reports to the supervisor of the process.
#[derive(Clone, Default)]
pub(crate) struct Notifier(Option<Arc<Socket>>);

struct Socket {
    socket: UnixDatagram,
    /// Time within which the supervisor expects the next watchdog report.
    watchdog: Option<Duration>,
    /// Whether another process reports, because it serves and this one does not.
    is_mute: AtomicBool,
}

impl Notifier {
    /// Opens the socket that the variable names. If the socket cannot be reached, this is logged, and nothing
    /// is sent.
    pub(crate) fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let Some(name) = variable("NOTIFY_SOCKET") else { return Self::default() };
        match connect(&name) {
            Ok(socket) => {
                let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
                Self(Some(Arc::new(Socket { socket, watchdog, is_mute: AtomicBool::new(false) })))
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    name,
                    "the socket of systemd cannot be reached: systemd gets no state of the server"
                );
                Self::default()
            }
        }
    }

    /// Returns the time within which the supervisor expects a watchdog report. `None`: it expects none.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.0.as_ref()?.watchdog
    }

    /// Sends nothing, because another process serves.
    pub(crate) fn mute(&self) {
        self.set_mute(true);
    }

    /// Reports that another process is the main process of the service from now on, and sends nothing after
    /// that. With `NotifyAccess=main`, systemd accepts this report only from the present main process.
    pub(crate) fn hand_over(&self, process: u32) {
        self.send(&format!("MAINPID={process}\n"));
        self.mute();
    }

    /// Reports from now on, because the predecessor named this process as the main one.
    pub(crate) fn take_over(&self) {
        self.set_mute(false);
    }

    fn set_mute(&self, is_mute: bool) {
        if let Some(socket) = &self.0 {
            socket.is_mute.store(is_mute, Ordering::Relaxed);
        }
    }

    /// Reports that the server serves.
    pub(crate) fn ready(&self) {
        self.send("READY=1\n");
    }

    /// Reports that the server loads another configuration, until [`Self::ready`].
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\n"));
    }

    /// Reports that the server ends within a time.
    pub(crate) fn stopping(&self, within: Duration) {
        self.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\n", within.as_micros()));
    }

    /// Reports a status text for people.
    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}\n", text.replace('\n', " ")));
    }

    /// Reports that the server is alive, if the supervisor expects watchdog reports.
    pub(crate) fn watchdog_alive(&self) {
        if self.watchdog().is_some() {
            self.send("WATCHDOG=1\n");
        }
    }

    fn send(&self, text: &str) {
        if let Some(socket) = self.0.as_ref().filter(|socket| !socket.is_mute.load(Ordering::Relaxed)) {
            // If the supervisor is gone or too busy, this report is lost. The next report replaces it.
            let _ = socket.socket.send(text.as_bytes());
        }
    }
}

fn connect(name: &str) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A supervisor that does not read must not block the server.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns the watchdog time, if the variables are set for this process (sd_watchdog_enabled(3)).
fn watchdog(usec: Option<String>, pid: Option<String>) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid == std::process::id().to_string());
    let usec: u64 = usec?.parse().ok()?;
    (is_ours && usec > 0).then(|| Duration::from_micros(usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_is_that_of_this_process_alone() {
        let own = std::process::id().to_string();
        let check = |usec: Option<&str>, pid: Option<&str>, expect: Option<u64>| {
            let found = watchdog(usec.map(str::to_owned), pid.map(str::to_owned));
            assert_eq!(found, expect.map(Duration::from_micros), "{usec:?} {pid:?}");
        };
        check(Some("3000000"), Some(&own), Some(3_000_000));
        check(Some("3000000"), None, Some(3_000_000));
        check(Some("3000000"), Some("1"), None);
        check(Some("0"), None, None);
        check(Some("soon"), None, None);
        check(None, Some(&own), None);
    }
}
