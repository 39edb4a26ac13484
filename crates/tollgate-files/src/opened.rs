//! An opened file or folder, or the reason why neither is served.

use std::fs::File;
use std::io;

use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::stamp::Stamp;

/// An opened file or folder.
pub(crate) enum Opened {
    File(File, Stamp),
    Folder(OwnedFd),
}

/// A path, and the file or folder that a thread opened at the path.
pub(crate) type Brought = (Box<str>, Result<Opened, OpenError>);

impl Opened {
    /// Duplicates the descriptor.
    pub(crate) fn again(&self) -> Result<Self, OpenError> {
        let full = |_| OpenError::Busy(Errno::MFILE);
        Ok(match self {
            Self::File(file, stamp) => Self::File(file.try_clone().map_err(full)?, *stamp),
            Self::Folder(folder) => Self::Folder(folder.try_clone().map_err(full)?),
        })
    }
}

/// Reason why no file is served from a path.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum OpenError {
    /// The result is not yet known, because the system would have to read the disk for this path.
    #[error("the path is not looked up yet")]
    Cold(Box<str>),
    /// The path has no file that may be served. Links, pipes and paths out of the root count as absent.
    #[error("the path has no file")]
    Absent,
    /// The served folder is missing, or its place is not allowed. The files of the folder may be available
    /// again later.
    #[error("the folder does not exist")]
    Rootless,
    #[error("the permissions of the path deny access")]
    Forbidden,
    /// A temporary failure: no descriptors, no memory, or the path is being renamed.
    #[error("the file cannot be opened now: {0}")]
    Busy(Errno),
    #[error("the file cannot be opened: {0}")]
    Broken(Errno),
}

pub(crate) fn opened(file: OwnedFd) -> Result<Opened, OpenError> {
    let file = File::from(file);
    let stamp = Stamp::of(&file)?;
    match FileType::from_raw_mode(stamp.1) {
        FileType::RegularFile => Ok(Opened::File(file, stamp.0)),
        FileType::Directory => Ok(Opened::Folder(file.into())),
        _ => Err(OpenError::Absent),
    }
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV
            | Errno::INVAL
            | Errno::ILSEQ => Self::Absent,
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::TXTBSY | Errno::BUSY => {
                Self::Busy(error)
            }
            _ => Self::Broken(error),
        }
    }
}

impl OpenError {
    pub(crate) fn is_for_want_of_descriptors(&self) -> bool {
        matches!(self, Self::Busy(Errno::MFILE | Errno::NFILE))
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        Self::other(error)
    }
}
