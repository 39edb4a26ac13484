//! What people see of the certificates: for the status, for metrics, and for `tollgate cert ls`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_tls::{Certificate, CertificateFacts};

use crate::folder::{StateFolder, file_of};
use crate::options::AcmeOptions;
use crate::order::installed;
use crate::schedule::Due;

/// The state of the certificate of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateState {
    /// The certificate is from the ACME server, and is valid.
    Valid,
    /// The certificate is from the ACME server, and its validity is over.
    Expired,
    /// There is no certificate yet, so a self-signed one serves.
    SelfSigned,
}

impl CertificateState {
    /// Returns the name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::SelfSigned => "self_signed",
        }
    }
}

/// The certificate of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateReport {
    /// The name.
    pub name: String,
    /// The state.
    pub state: CertificateState,
    /// What the certificate says. `None`: a self-signed one serves.
    pub facts: Option<CertificateFacts>,
    /// The time of the next order, in seconds since 1970.
    pub next_order: u64,
    /// Number of failed orders since the last certificate.
    pub failures: u32,
    /// The reason of the last failure. `None`: the last order succeeded.
    pub reason: Option<String>,
    /// Whether a person asked for an order that is not done yet.
    pub is_requested: bool,
}

/// The state of all orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcmeStatus {
    /// The certificates, in the order of the options.
    pub certificates: Vec<CertificateReport>,
    /// Number of certificates that this process received.
    pub issued: u64,
    /// Number of orders of this process that failed.
    pub failed: u64,
    /// Reason why the folder of the state cannot be used.
    pub folder_fault: Option<String>,
    /// Reason why an old record of a challenge by DNS cannot be removed.
    pub record_fault: Option<String>,
}

/// Reads the state of all orders. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct AcmeWatch {
    status: Arc<Mutex<AcmeStatus>>,
    /// Names for which a person asked for an order.
    requested: Arc<Mutex<BTreeSet<String>>>,
}

impl AcmeWatch {
    /// Returns the state.
    pub fn status(&self) -> AcmeStatus {
        self.status_mut().clone()
    }

    pub(crate) fn status_mut(&self) -> MutexGuard<'_, AcmeStatus> {
        locked(&self.status)
    }

    pub(crate) fn requested_mut(&self) -> MutexGuard<'_, BTreeSet<String>> {
        locked(&self.requested)
    }
}

/// The value is consistent after every statement, so a panic of another thread does not matter.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the certificates of the folder, without a running server.
pub fn reports(options: &AcmeOptions, now: u64) -> Vec<CertificateReport> {
    let folder = StateFolder::new(&options.folder);
    let report = |name: &String| {
        let certificate = installed(&folder, name).and_then(Result::ok);
        let facts = certificate.as_ref().map(Certificate::facts);
        let due = read_due(&folder, name, &options.directory);
        report_of(name, facts, &due, now)
    };
    options.domains.iter().map(report).collect()
}

pub(crate) fn report_of(
    name: &str,
    facts: Option<&CertificateFacts>,
    due: &Due,
    now: u64,
) -> CertificateReport {
    let state = match facts {
        None => CertificateState::SelfSigned,
        Some(facts) if facts.not_after <= now => CertificateState::Expired,
        Some(_) => CertificateState::Valid,
    };
    CertificateReport {
        name: name.to_owned(),
        state,
        facts: facts.cloned(),
        next_order: due.next_order(facts, now),
        failures: due.failures,
        reason: due.reason.clone(),
        is_requested: due.is_requested,
    }
}

pub(crate) fn due_file(name: &str) -> String {
    file_of(name, ".due.json")
}

/// Reads what is known about the next order. An unreadable file counts as an empty one.
pub(crate) fn read_due(folder: &StateFolder, name: &str, directory: &str) -> Due {
    folder.read_document::<Due>(&due_file(name)).ok().flatten().unwrap_or_default().at(directory)
}
