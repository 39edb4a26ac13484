//! The certificates that a running server orders by itself: from the start, through reloads, to new
//! handshakes.

use std::sync::{Arc, Mutex, PoisonError};

use tollgate_acme::{Acme, AcmeWatch, OpenDns, Prepared, RecordChange};
use tollgate_server::{Certificate, DnsHook, ServerTls, ServerWatch};

use crate::config::Config;
use crate::wall;

/// The present TLS of the server. A reload replaces it.
type PresentTls = Arc<Mutex<Option<Arc<ServerTls>>>>;

/// The certificates that a server orders.
#[derive(Default)]
pub(crate) struct AcmeCertificates {
    tls: PresentTls,
    acme: Option<Acme>,
}

/// The certificates of a start, before the server serves.
pub(crate) struct PreparedCertificates {
    tls: PresentTls,
    acme: Option<Prepared>,
}

impl PreparedCertificates {
    /// Reads the certificates of the folder, and makes self-signed ones for the other names. New handshakes
    /// use them.
    pub(crate) fn new(config: &Config) -> Self {
        let tls: PresentTls = Arc::new(Mutex::new(config.server.tls.clone()));
        let acme = config.acme.as_ref().map(|acme| Prepared::new(acme.options.clone(), now));
        if let Some(acme) = &acme {
            install(&tls, acme.certificates());
        }
        Self { tls, acme }
    }

    /// Starts to order. The server serves already, because the ACME server asks it.
    pub(crate) fn start(self, server: &ServerWatch) -> AcmeCertificates {
        let Self { tls, acme } = self;
        let present = tls.clone();
        let acme =
            acme.map(|acme| acme.start(hook_of(server), move |certificates| install(&present, certificates)));
        let acme = acme.and_then(|started| {
            let failed =
                |error: &std::io::Error| tracing::error!(%error, "no certificate is ordered: no thread");
            started.inspect_err(failed).ok()
        });
        AcmeCertificates { tls, acme }
    }
}

impl AcmeCertificates {
    /// Changes to another configuration, which the server serves already.
    pub(crate) fn change(&mut self, config: &Config, server: &ServerWatch) {
        *self.tls.lock().unwrap_or_else(PoisonError::into_inner) = config.server.tls.clone();
        match (&self.acme, &config.acme) {
            (Some(acme), Some(new)) => acme.change(new.options.clone(), hook_of(server)),
            (Some(_), None) => self.acme = None,
            (None, Some(_)) => *self = PreparedCertificates::new(config).start(server),
            (None, None) => {}
        }
    }

    /// Returns a handle that reads the state. `None`: the server orders none.
    pub(crate) fn watch(&self) -> Option<AcmeWatch> {
        self.acme.as_ref().map(Acme::watch)
    }

    /// Orders a name now, or all names.
    ///
    /// # Errors
    /// The text says why nothing is ordered.
    pub(crate) fn renew(&self, config: &Config, name: Option<&str>) -> Result<String, String> {
        let Some(acme) = self.acme.as_ref().filter(|_| config.acme.is_some()) else {
            return Err(NO_ACME.to_owned());
        };
        let names = chosen(config, name)?;
        acme.renew(&names);
        Ok(names.join("\n"))
    }
}

pub(crate) const NO_ACME: &str = "the configuration has no [acme], so no certificate can be ordered";

/// Returns the names of a configuration, or one of them.
///
/// # Errors
/// The text says that the name is unknown.
pub(crate) fn chosen(config: &Config, name: Option<&str>) -> Result<Vec<String>, String> {
    let names = config.acme.as_ref().map(|acme| &acme.options.domains[..]).unwrap_or_default();
    let Some(name) = name else { return Ok(names.to_vec()) };
    let found = names.iter().find(|known| known.eq_ignore_ascii_case(name));
    let unknown = || format!("domains in [acme] has no {name:?}: it has {}", names.join(", "));
    Ok(vec![found.ok_or_else(unknown)?.clone()])
}

/// A hook of the configuration, as the orders use it.
struct OpenHook(DnsHook);

impl tollgate_acme::DnsHook for OpenHook {
    fn set<'a>(&'a self, name: &'a str, value: &'a str) -> RecordChange<'a> {
        Box::pin(self.0.set(name, value))
    }

    fn remove<'a>(&'a self, name: &'a str, value: &'a str) -> RecordChange<'a> {
        Box::pin(self.0.remove(name, value))
    }
}

/// Returns the hook of the present configuration.
fn hook_of(server: &ServerWatch) -> Option<OpenDns> {
    let source = server.dns_hook()?;
    Some(Box::new(move || Ok(Box::new(OpenHook(source.open()?)))))
}

fn install(tls: &PresentTls, certificates: Vec<Certificate>) {
    let tls = tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(Err(error)) = tls.map(|tls| tls.set_issued(certificates)) {
        tracing::error!(%error, "the new certificates cannot be used");
    }
}

/// Returns the seconds since 1970. Certificates are valid by the wall clock.
pub(crate) fn now() -> u64 {
    u64::try_from(wall::now().as_second()).unwrap_or_default()
}
