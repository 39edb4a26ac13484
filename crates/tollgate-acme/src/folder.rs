//! The folder with the state of ACME. Several machines may share it.
//!
//! | file | content |
//! | --- | --- |
//! | `lock` | nothing: the machine that orders has the lock (flock) |
//! | `account-DIRECTORY-DIGEST.json` | the account key, and the URL of the account after its registration |
//! | `NAME.order.json` | an order that runs: its private key, and its URL after it began |
//! | `NAME.pem` | the private key, the certificate, and the intermediate certificates |
//! | `NAME.due.json` | the time of the next order, and the reason of the last failure |
//! | `challenges/TOKEN` | the answer to a challenge by HTTP |
//! | `alpn/NAME` | the answer to a challenge by TLS |
//! | `dns/DIGEST.json` | a record that answers a challenge by DNS, until it is removed |
//!
//! `NAME` of a wildcard begins with `_` in place of `*`.
//!
//! Each file is written as a temporary file, synced, renamed, and the folder is synced. After a kill a file
//! is therefore the old or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::AcmeError;
use crate::record::DnsRecord;

/// Permissions of the folder: only the user of the server reads keys.
const FOLDER_MODE: u32 = 0o700;
/// Permissions of each file.
const FILE_MODE: u32 = 0o600;
const LOCK: &str = "lock";
/// The folder of answers to challenges by HTTP.
const CHALLENGES: &str = "challenges";
/// The folder of answers to challenges by TLS.
const ALPN: &str = "alpn";
/// The folder of records that answer challenges by DNS.
const DNS: &str = "dns";

/// The folder with the state of ACME.
#[derive(Debug, Clone)]
pub struct StateFolder {
    path: PathBuf,
}

/// The end of the name of an order file.
pub(crate) const ORDER: &str = ".order.json";

/// The lock of the folder, until it is dropped.
pub(crate) struct FolderLock(#[expect(dead_code, reason = "the open file holds the lock")] File);

impl StateFolder {
    /// Names the folder. Nothing is created yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Returns the folder of answers to challenges by HTTP.
    pub fn challenges(&self) -> PathBuf {
        self.path.join(CHALLENGES)
    }

    /// Returns the file with the key and the certificate of a name.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.path.join(file_of(name, ".pem"))
    }

    /// Creates the folder with its parts.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn create(&self) -> Result<(), AcmeError> {
        for path in [self.path.clone(), self.challenges(), self.path.join(ALPN), self.path.join(DNS)] {
            let created = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&path);
            created.map_err(|error| AcmeError::folder(&path, error))?;
        }
        Ok(())
    }

    /// Takes the lock. `None`: another process has it.
    pub(crate) fn lock(&self) -> Result<Option<FolderLock>, AcmeError> {
        let path = self.path.join(LOCK);
        let failed = |error| AcmeError::folder(&path, error);
        let file =
            OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FolderLock(file))),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Replaces a file. The content survives a power cut after this call returned.
    pub(crate) fn write(&self, file: &str, content: &[u8]) -> Result<(), AcmeError> {
        let path = self.path.join(file);
        replace(&path, content).map_err(|error| AcmeError::folder(&path, error))
    }

    /// Renames a file, and syncs the folder.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), AcmeError> {
        let path = self.path.join(to);
        let renamed = fs::rename(self.path.join(from), &path);
        let renamed = renamed.and_then(|()| File::open(&self.path)?.sync_all());
        renamed.map_err(|error| AcmeError::folder(&path, error))
    }

    /// Replaces a file by a document.
    pub(crate) fn write_document(&self, file: &str, document: &impl Serialize) -> Result<(), AcmeError> {
        let text = serde_json::to_vec(document).map_err(io::Error::from);
        self.write(file, &text.map_err(|error| AcmeError::folder(&self.path.join(file), error))?)
    }

    /// Reads a file. `None`: it does not exist.
    pub(crate) fn read(&self, file: &str) -> Result<Option<Vec<u8>>, AcmeError> {
        let path = self.path.join(file);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AcmeError::folder(&path, error)),
        }
    }

    /// Reads a document. `None`: it does not exist, or is not valid. No write leaves an invalid document, so
    /// an invalid one was edited.
    pub(crate) fn read_document<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, AcmeError> {
        Ok(self.read(file)?.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// Removes a file. A file that does not exist is no error.
    pub(crate) fn remove(&self, file: &str) -> Result<(), AcmeError> {
        let path = self.path.join(file);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(AcmeError::folder(&path, error)),
            _ => Ok(()),
        }
    }

    /// Removes all answers to challenges if no order runs. The caller has the lock.
    pub(crate) fn forget_answers(&self) -> Result<(), AcmeError> {
        let names = |path: &Path| {
            let entries = fs::read_dir(path).map_err(|error| AcmeError::folder(path, error))?;
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            Ok::<_, AcmeError>(names.collect::<Vec<_>>())
        };
        if names(&self.path)?.iter().any(|name| name.ends_with(ORDER)) {
            return Ok(());
        }
        for part in [CHALLENGES, ALPN] {
            names(&self.path.join(part))?
                .iter()
                .try_for_each(|name| self.remove(&format!("{part}/{name}")))?;
        }
        Ok(())
    }

    /// Writes the answer to a challenge by HTTP. The server asks for it by its token.
    pub(crate) fn write_token(&self, token: &str, answer: &str) -> Result<(), AcmeError> {
        self.write(&format!("{CHALLENGES}/{token}"), answer.as_bytes())
    }

    /// Removes the answer to a challenge by HTTP.
    pub(crate) fn remove_token(&self, token: &str) -> Result<(), AcmeError> {
        self.remove(&format!("{CHALLENGES}/{token}"))
    }

    /// Writes the answer to a challenge by TLS.
    pub(crate) fn write_alpn(&self, name: &str, answer: &str) -> Result<(), AcmeError> {
        self.write(&format!("{ALPN}/{name}"), answer.as_bytes())
    }

    /// Removes the answer to a challenge by TLS.
    pub(crate) fn remove_alpn(&self, name: &str) -> Result<(), AcmeError> {
        self.remove(&format!("{ALPN}/{name}"))
    }

    /// Reads the answers to challenges by TLS, by their names. An unreadable file is left out, because its
    /// writer may remove it at this moment.
    pub(crate) fn alpn(&self) -> Vec<(String, String)> {
        let Ok(entries) = fs::read_dir(self.path.join(ALPN)) else { return Vec::new() };
        let answer = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|name| !name.ends_with(TEMPORARY))?;
            Some((name, fs::read_to_string(entry.path()).ok()?))
        };
        entries.filter_map(Result::ok).filter_map(answer).collect()
    }
}

impl StateFolder {
    /// Writes the file of a record.
    pub(crate) fn write_record(&self, record: &DnsRecord) -> Result<(), AcmeError> {
        self.write_document(&file_of_record(record), record)
    }

    /// Removes the file of a record.
    pub(crate) fn remove_record(&self, record: &DnsRecord) -> Result<(), AcmeError> {
        self.remove(&file_of_record(record))
    }

    /// Reads the records whose files exist. An unreadable file is left out, because its writer may remove it
    /// at this moment.
    pub(crate) fn records(&self) -> Vec<DnsRecord> {
        let Ok(entries) = fs::read_dir(self.path.join(DNS)) else { return Vec::new() };
        let record = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|name| !name.ends_with(TEMPORARY))?;
            self.read_document(&format!("{DNS}/{name}")).ok().flatten()
        };
        entries.filter_map(Result::ok).filter_map(record).collect()
    }
}

/// Returns the file of a name, with an end such as `.pem`.
pub(crate) fn file_of(name: &str, end: &str) -> String {
    match name.strip_prefix('*') {
        Some(rest) => format!("_{rest}{end}"),
        None => format!("{name}{end}"),
    }
}

fn file_of_record(DnsRecord { name, value }: &DnsRecord) -> String {
    let digest = digest(&SHA256, format!("{name} {value}").as_bytes());
    let digest: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{DNS}/{digest}.json")
}

/// The end of the name of a file that is being written.
const TEMPORARY: &str = ".tmp";

/// Replaces a file: a temporary file, its sync, the rename, the sync of the folder.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(TEMPORARY);
    let temporary = PathBuf::from(temporary);
    // A file of an earlier run may have other permissions.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
