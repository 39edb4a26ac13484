//! What is at a path, or why nothing is served from it.

use std::fs::File;
use std::io;

use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::stamp::Stamp;

/// What is at a path.
pub(crate) enum Opened {
    File(File, Stamp),
    Folder(OwnedFd),
}

/// What a thread found at a path.
pub(crate) type Brought = (Box<str>, Result<Opened, OpenError>);

impl Opened {
    /// The same once more.
    pub(crate) fn again(&self) -> Result<Self, OpenError> {
        let full = |_| OpenError::Busy(Errno::MFILE);
        Ok(match self {
            Self::File(file, stamp) => Self::File(file.try_clone().map_err(full)?, *stamp),
            Self::Folder(folder) => Self::Folder(folder.try_clone().map_err(full)?),
        })
    }
}

/// Why nothing is served from a path.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum OpenError {
    /// Nobody knows yet: the system would have to look at the disk for this path.
    #[error("not looked at yet")]
    Cold(Box<str>),
    /// Nothing is there that may be served: a link, a pipe and a way out of the root count as nothing.
    #[error("nothing is there")]
    Absent,
    /// Nothing that may be served is where the folder should be: what lies in it may be there again.
    #[error("the folder is not there")]
    Rootless,
    #[error("permission denied")]
    Forbidden,
    /// For the moment: no descriptors, no memory, or somebody moves it about.
    #[error("cannot be opened now: {0}")]
    Busy(Errno),
    #[error("cannot be opened: {0}")]
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
