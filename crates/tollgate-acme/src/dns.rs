//! The records of challenges by DNS (RFC 8555 section 8.4). A hook of the caller sets and removes them at the
//! DNS provider.
//!
//! A file names each record from before it is set until it is removed. So a record that a kill or a failed
//! hook left behind is removed later.

use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::error::AcmeError;
use crate::folder::StateFolder;
use crate::record::DnsRecord;

/// Pause after the first failed removal of old records. Each further pause is twice as long.
const REMOVAL_PAUSE_MIN: Duration = Duration::from_secs(60);
const REMOVAL_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// The end of a change of a record. The text says why the change failed.
pub type RecordChange<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// Sets and removes TXT records at a DNS provider. A hook bounds the time of each change.
pub trait DnsHook {
    /// Adds a record. Other records with the same name stay. A record that exists already is no error.
    fn set<'a>(&'a self, name: &'a str, value: &'a str) -> RecordChange<'a>;
    /// Removes a record. A record that does not exist is no error.
    fn remove<'a>(&'a self, name: &'a str, value: &'a str) -> RecordChange<'a>;
}

/// Opens a hook in the thread that uses it. The text says why the hook cannot be used.
pub type OpenDns = Box<dyn FnOnce() -> Result<Box<dyn DnsHook>, String> + Send>;

/// The hook of the present options.
pub(crate) enum Dns {
    Absent,
    Ready(Box<dyn DnsHook>),
    Unusable(String),
}

impl Dns {
    pub(crate) fn open(open: Option<OpenDns>) -> Self {
        match open.map(|open| open()) {
            None => Self::Absent,
            Some(Ok(hook)) => Self::Ready(hook),
            Some(Err(reason)) => Self::Unusable(reason),
        }
    }

    fn hook(&self) -> Result<&dyn DnsHook, AcmeError> {
        match self {
            Self::Ready(hook) => Ok(&**hook),
            Self::Unusable(reason) => Err(AcmeError::Hook(reason.clone())),
            Self::Absent => Err(AcmeError::Options("challenge = \"dns-01\" needs dns in [acme]".to_owned())),
        }
    }

    /// Adds a record. Its file is on disk before.
    pub(crate) async fn set(&self, folder: &StateFolder, record: &DnsRecord) -> Result<(), AcmeError> {
        let hook = self.hook()?;
        folder.write_record(record)?;
        let DnsRecord { name, value } = record;
        let failed = |reason| AcmeError::Hook(format!("set of the record {name} failed: {reason}"));
        hook.set(name, value).await.map_err(failed)
    }

    /// Removes a record, then its file.
    pub(crate) async fn remove(&self, folder: &StateFolder, record: &DnsRecord) -> Result<(), AcmeError> {
        let DnsRecord { name, value } = record;
        let failed = |reason| AcmeError::Hook(format!("remove of the record {name} failed: {reason}"));
        self.hook()?.remove(name, value).await.map_err(failed)?;
        folder.remove_record(record)
    }
}

/// When old records are removed again, after a removal that failed.
#[derive(Default)]
pub(crate) struct Removals {
    failures: u32,
    not_before: Option<Instant>,
}

impl Removals {
    /// Returns whether there are old records whose removal is due.
    pub(crate) fn are_due(&self, folder: &StateFolder, dns: &Dns) -> bool {
        matches!(dns, Dns::Ready(_))
            && self.not_before.is_none_or(|at| at <= Instant::now())
            && !folder.records().is_empty()
    }

    /// Removes all old records. The first failure ends the attempt. The caller has the lock of the folder,
    /// and no order runs.
    pub(crate) async fn attempt(&mut self, folder: &StateFolder, dns: &Dns) -> Result<(), AcmeError> {
        for record in folder.records() {
            if let Err(error) = dns.remove(folder, &record).await {
                let pause = REMOVAL_PAUSE_MIN.saturating_mul(1 << self.failures.min(10));
                self.failures += 1;
                self.not_before = Some(Instant::now() + pause.min(REMOVAL_PAUSE_MAX));
                return Err(error);
            }
            tracing::info!(record = record.name, "an old record of a challenge is removed");
        }
        *self = Self::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
