//! The work of the thread `acme`: a look at the folder and at the clock, and orders of what is due.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use instant_acme::{Account, Error};
use tollgate_tls::{Certificate, CertificateFacts};

use crate::account::{account, forget};
use crate::challenges::ServedValidations;
use crate::dns::{Dns, Removals};
use crate::error::AcmeError;
use crate::facts::renewal_id;
use crate::folder::{FolderLock, StateFolder};
use crate::http::AcmeHttp;
use crate::options::AcmeOptions;
use crate::order::{Ordering, forget_order, installed};
use crate::report::{AcmeWatch, due_file, read_due, report_of};
use crate::schedule::Due;
use crate::selfmade::self_signed;

/// Returns the seconds since 1970.
pub(crate) type Clock = Box<dyn Fn() -> u64 + Send>;
/// Takes the certificates for new handshakes.
pub(crate) type Install = Box<dyn Fn(Vec<Certificate>) + Send>;

/// The certificate of a name, as new handshakes use it.
struct Installed {
    certificate: Certificate,
    /// Whether the certificate is the self-signed one of this server.
    is_own: bool,
    /// The file at the last look.
    stamp: Option<Stamp>,
}

/// Inode, size, and time of the last change of a file. A file that is replaced has another inode.
type Stamp = (u64, u64, i64, i64);

/// The state of the thread.
pub(crate) struct Worker {
    options: AcmeOptions,
    folder: StateFolder,
    clock: Clock,
    install: Install,
    installed: BTreeMap<String, Installed>,
    validations: ServedValidations,
    removals: Removals,
    watch: AcmeWatch,
}

impl Worker {
    /// Reads the folder. Certificates go nowhere until [`install_by`](Self::install_by).
    pub(crate) fn new(options: AcmeOptions, clock: Clock) -> Self {
        let folder = StateFolder::new(&options.folder);
        let mut worker = Self {
            options,
            folder,
            clock,
            install: Box::new(drop),
            installed: BTreeMap::new(),
            validations: ServedValidations::default(),
            removals: Removals::default(),
            watch: AcmeWatch::default(),
        };
        let created = worker.folder.create();
        worker.note_folder(created.err());
        worker.look();
        worker.report();
        worker
    }

    /// Passes certificates to `install` from now on.
    pub(crate) fn install_by(&mut self, install: Install) {
        self.install = install;
    }

    /// Returns a handle that reads the state.
    pub(crate) fn watch(&self) -> AcmeWatch {
        self.watch.clone()
    }

    /// Uses other options, and passes all certificates to `install` again.
    pub(crate) fn change(&mut self, options: AcmeOptions) {
        self.folder = StateFolder::new(&options.folder);
        self.options = options;
        self.removals = Removals::default();
        self.installed.retain(|name, _| self.options.domains.contains(name));
        let created = self.folder.create();
        self.note_folder(created.err());
        self.look();
        (self.install)(self.certificates());
    }

    /// Looks at the folder, and orders what is due.
    pub(crate) async fn pass(&mut self, dns: &Dns) {
        self.validations.refresh(&self.folder);
        if self.look() {
            (self.install)(self.certificates());
        }
        let due = self.due_names();
        if !due.is_empty() || self.removals.are_due(&self.folder, dns) {
            let locked = self.folder.create().and_then(|()| self.folder.lock());
            match locked {
                Ok(Some(lock)) => self.work(due, dns, &lock).await,
                // Another machine orders now.
                Ok(None) => {}
                Err(error) => self.note_folder(Some(error)),
            }
        }
        self.report();
    }

    /// Returns the names that need an order, or an answer about their renewal.
    fn due_names(&self) -> Vec<String> {
        let now = (self.clock)();
        let is_due = |name: &&String| {
            let (due, facts) = (self.due(name), self.facts(name));
            self.is_requested(name)
                || due.next_order(facts, now) <= now
                || (facts.is_some() && due.is_question_due(now))
        };
        self.options.domains.iter().filter(is_due).cloned().collect()
    }

    /// Orders the names that are still due. Another machine may have ordered them before this one got the
    /// lock.
    async fn work(&mut self, names: Vec<String>, dns: &Dns, _lock: &FolderLock) {
        let cleaned = self.folder.forget_answers();
        self.note_folder(cleaned.err());
        self.remove_old_records(dns).await;
        if self.look() {
            (self.install)(self.certificates());
        }
        let http = match AcmeHttp::new(self.options.ca_file.as_deref()) {
            Ok(http) => http,
            Err(error) => {
                let error = error.into();
                self.watch.requested_mut().clear();
                return names.iter().for_each(|name| self.fail(name, &error, None));
            }
        };
        for name in names {
            let now = (self.clock)();
            let due = self.due(&name);
            if self.facts(&name).is_some() && due.is_question_due(now) {
                self.ask(&http, &name).await;
            }
            if !self.is_requested(&name) && self.due(&name).next_order(self.facts(&name), now) > now {
                continue;
            }
            http.take_retry_after();
            // Without this file, no pause after a failure would be kept, and each look would order again.
            if !self.write_due(&name, &self.due(&name)) {
                break;
            }
            let done = self.order(&http, dns, &name).await;
            self.watch.requested_mut().remove(&name);
            let is_away = matches!(done, Err(AcmeError::Unreachable(_)));
            match done {
                Ok(order) => self.succeed(&name, order),
                Err(error) => self.fail(&name, &error, Some(&http)),
            }
            self.report();
            if is_away {
                // The next look tries the other names.
                break;
            }
        }
    }

    /// Removes the records that a kill or a failed hook left behind.
    async fn remove_old_records(&mut self, dns: &Dns) {
        if self.removals.are_due(&self.folder, dns) {
            let removed = self.removals.attempt(&self.folder, dns).await;
            let fault = removed.inspect_err(|error| tracing::warn!("an old record stays: {error}")).err();
            self.watch.status_mut().record_fault = fault.map(|error| error.to_string());
        }
    }

    /// Orders one name. If the server has lost the account, the same key is registered again.
    async fn order(&self, http: &AcmeHttp, dns: &Dns, name: &str) -> Result<String, AcmeError> {
        match self.try_order(http, dns, name).await {
            Err(AcmeError::NoAccount) => {
                forget(&self.folder, &self.options)?;
                self.try_order(http, dns, name).await
            }
            done => done,
        }
    }

    async fn try_order(&self, http: &AcmeHttp, dns: &Dns, name: &str) -> Result<String, AcmeError> {
        let account = account(http, &self.folder, &self.options).await?;
        let (folder, options) = (&self.folder, &self.options);
        let (replaced, noted) = (self.ordered(name), self.due(name).noted);
        Ordering { account: &account, folder, options, dns, name, replaced, noted }.run().await
    }

    /// Asks the server when a certificate should be renewed (RFC 9773).
    async fn ask(&self, http: &AcmeHttp, name: &str) {
        let (now, random) = ((self.clock)(), random());
        let mut due = self.due(name);
        let found = match account(http, &self.folder, &self.options).await {
            Ok(account) => self.window(&account, name).await,
            Err(error) => Err(error),
        };
        match found {
            Ok((window, retry)) => due.note_window(window, retry, now, random),
            Err(error) => {
                tracing::debug!(name, "no renewal information: {error}");
                let known = due.window.map(|window| (window.start, window.end));
                due.note_window(known, 0, now, random);
            }
        }
        self.write_due(name, &due);
    }

    /// Returns the window, and the seconds until the next question. `None`: the server has no such
    /// information.
    async fn window(&self, account: &Account, name: &str) -> Result<(Option<(u64, u64)>, u64), AcmeError> {
        let Some(id) = self.ordered(name).and_then(|found| renewal_id(found.chain().first()?)) else {
            return Ok((None, u64::MAX));
        };
        match account.renewal_info(&id).await {
            Ok((info, retry)) => {
                let window = &info.suggested_window;
                let seconds = |at: i64| u64::try_from(at).unwrap_or_default();
                let window = (seconds(window.start.unix_timestamp()), seconds(window.end.unix_timestamp()));
                Ok((Some(window), retry.as_secs()))
            }
            Err(Error::Unsupported(_)) => Ok((None, u64::MAX)),
            Err(error) => Err(error.into()),
        }
    }

    fn succeed(&mut self, name: &str, order: String) {
        let mut due = self.due(name);
        due.note_success(order, (self.clock)());
        if self.write_due(name, &due) {
            self.note_folder(forget_order(&self.folder, name).err());
        }
        self.watch.status_mut().issued += 1;
        self.look();
        (self.install)(self.certificates());
        let facts = self.facts(name);
        let (issuer, not_after) = (facts.map(|facts| &*facts.issuer), facts.map(|facts| facts.not_after));
        tracing::info!(name, issuer, not_after, "new certificate");
    }

    fn fail(&self, name: &str, error: &AcmeError, http: Option<&AcmeHttp>) {
        let (now, mut due) = ((self.clock)(), self.due(name));
        let retry_after = http.and_then(AcmeHttp::take_retry_after);
        due.note_failure(error.to_string(), retry_after, self.facts(name).is_some(), now, random());
        let next_s = due.next_order(self.facts(name), now).saturating_sub(now);
        tracing::warn!(name, failures = due.failures, next_s, "no certificate: {error}");
        self.write_due(name, &due);
        self.watch.status_mut().failed += 1;
    }

    /// Reads the files that changed. Returns whether one did.
    fn look(&mut self) -> bool {
        let mut is_changed = false;
        for name in &self.options.domains {
            let stamp = fs::metadata(self.folder.certificate(name)).ok();
            let stamp = stamp.map(|about| (about.ino(), about.size(), about.mtime(), about.mtime_nsec()));
            let known = self.installed.get(name);
            if known.is_some_and(|known| known.stamp == stamp) {
                continue;
            }
            let found = match installed(&self.folder, name) {
                Some(Ok(certificate)) => Some(Installed { certificate, is_own: false, stamp }),
                Some(Err(error)) => {
                    tracing::warn!(name, "the certificate of the folder cannot be used: {error}");
                    None
                }
                None => None,
            };
            let found = match (found, known) {
                (Some(found), _) => found,
                // The present certificate stays, and this file is not read again.
                (None, Some(known)) => {
                    Installed { certificate: known.certificate.clone(), is_own: known.is_own, stamp }
                }
                (None, None) => match self_signed(name) {
                    Ok(certificate) => Installed { certificate, is_own: true, stamp },
                    Err(error) => {
                        tracing::error!(name, "no self-signed certificate: {error}");
                        continue;
                    }
                },
            };
            self.installed.insert(name.clone(), found);
            is_changed = true;
        }
        is_changed
    }

    /// Returns the certificates, in the order of the names.
    pub(crate) fn certificates(&self) -> Vec<Certificate> {
        let names = self.options.domains.iter();
        names.filter_map(|name| Some(self.installed.get(name)?.certificate.clone())).collect()
    }

    /// Returns the certificate of the ACME server. `None`: the self-signed one serves.
    fn ordered(&self, name: &str) -> Option<&Certificate> {
        self.installed.get(name).filter(|found| !found.is_own).map(|found| &found.certificate)
    }

    fn facts(&self, name: &str) -> Option<&CertificateFacts> {
        self.ordered(name).map(Certificate::facts)
    }

    fn is_requested(&self, name: &str) -> bool {
        self.watch.requested_mut().contains(name)
    }

    fn due(&self, name: &str) -> Due {
        read_due(&self.folder, name, &self.options.directory)
    }

    /// Writes what is known about the next order. Returns whether the folder took it.
    fn write_due(&self, name: &str, due: &Due) -> bool {
        let written = self.folder.write_document(&due_file(name), due);
        let is_written = written.is_ok();
        self.note_folder(written.err());
        is_written
    }

    fn note_folder(&self, error: Option<AcmeError>) {
        let fault = error.map(|error| error.to_string());
        let mut status = self.watch.status_mut();
        if let Some(fault) = fault.as_ref().filter(|_| status.folder_fault != fault) {
            tracing::error!("the folder of [acme] cannot be used: {fault}");
        }
        status.folder_fault = fault;
    }

    fn report(&self) {
        let now = (self.clock)();
        let report = |name: &String| report_of(name, self.facts(name), &self.due(name), now);
        let mut reports: Vec<_> = self.options.domains.iter().map(report).collect();
        reports.iter_mut().for_each(|report| report.is_requested |= self.is_requested(&report.name));
        self.watch.status_mut().certificates = reports;
    }
}

/// Returns a random number, or 0 if the system gives none.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // A number that is not random only spreads the machines less.
    if getrandom::fill(&mut bytes).is_err() { 0 } else { u64::from_le_bytes(bytes) }
}
