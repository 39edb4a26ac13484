//! What the old process of an upgrade hands over.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tollgate_log::{FORMAT_VERSION, Log};
use tollgate_server::{HandedListen, Server};

use super::message::{Hello, VERSIONS};

/// The sockets, the lock and the facts of a running server, for a new process.
pub(crate) struct Offer {
    pub(super) hello: Hello,
    pub(super) listens: Vec<HandedListen>,
    pub(super) admin: Option<OwnedFd>,
    pub(super) lock: File,
}

/// The socket of the admin listener, and its address in the configuration.
pub(crate) struct OfferedAdmin {
    pub(crate) name: String,
    pub(crate) socket: OwnedFd,
}

impl Offer {
    /// Copies the descriptors of a running server.
    ///
    /// # Errors
    /// The system has no free descriptor.
    pub(crate) fn of(
        server: &Server,
        log: &Log,
        dir: &Path,
        admin: Option<OfferedAdmin>,
    ) -> io::Result<Self> {
        let listens = server.listens()?;
        let lock = log.lock()?.ok_or_else(|| io::Error::other("the folder of logs has no lock"))?;
        let (admin, socket) = admin.map(|OfferedAdmin { name, socket }| (name, socket)).unzip();
        let hello = Hello {
            versions: VERSIONS,
            process: std::process::id(),
            program: env!("TOLLGATE_VERSION").to_owned(),
            log_format: u64::from(FORMAT_VERSION),
            log: log.id(),
            log_dir: identity(dir)?,
            listens: listens.iter().map(|listen| listen.name.clone()).collect(),
            admin,
        };
        Ok(Self { hello, listens, admin: socket, lock })
    }
}

/// Returns the device and the inode of a folder.
pub(super) fn identity(dir: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(dir)?;
    Ok((found.dev(), found.ino()))
}
