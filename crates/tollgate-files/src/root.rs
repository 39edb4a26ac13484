//! The served folder, and the files that are opened in it.
//!
//! The kernel ensures that no file above the folder is opened (`RESOLVE_BENEATH`). The server does not
//! compare paths for this.

use std::cell::RefCell;
use std::fs::{self, canonicalize};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;
use tollgate_meter::OncePerPause;

use crate::folder_bounds::FolderBounds;
use crate::lookup_context::LookupContext;
use crate::opened::{Brought, OpenError, Opened, opened};
use crate::options::{FilesSpec, Symlinks};

/// Maximum number of attempts to open a path while folders are renamed. During a rename the kernel cannot
/// tell where the path leads.
const RACES_MAX: usize = 16;

/// Minimum time between two log lines about a folder that is not served.
const LINE_PAUSE: Duration = Duration::from_secs(10);

/// Time for which a positive bounds check is cached, as long as the path of the folder leads to the same
/// place. The files of the server seldom move.
const BOUNDS_HOLD: Duration = Duration::from_millis(500);

pub(crate) struct Root {
    path: PathBuf,
    bounds: FolderBounds,
    resolve: ResolveFlags,
    recheck: Duration,
    /// The folder at the path, and the time when the path was last checked.
    folder: RefCell<Option<(Beneath, Instant)>>,
    /// The last path that passed the bounds check, and the time of the check.
    allowed: RefCell<Option<(PathBuf, Instant)>>,
    /// Counts the failures to open the folder, and limits their log lines.
    missed: OncePerPause,
}

/// The folder that was found at the last lookup. Files are opened beneath this folder. Threads may hold this
/// value.
#[derive(Clone)]
pub(crate) struct Beneath {
    folder: Arc<OwnedFd>,
    resolve: ResolveFlags,
}

/// Reason why the folder is not served.
#[derive(Debug, thiserror::Error)]
enum KeptOut {
    #[error("the folder cannot be opened: {0}")]
    Failed(Errno),
    #[error("{0}")]
    Breach(String),
}

impl Root {
    pub(crate) fn new(spec: &FilesSpec) -> Self {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        Self {
            path: spec.root.clone(),
            bounds: spec.bounds.clone(),
            resolve: match spec.symlinks {
                Symlinks::Refuse => beneath | ResolveFlags::NO_SYMLINKS,
                Symlinks::Inside => beneath,
            },
            recheck: spec.recheck,
            folder: RefCell::new(None),
            allowed: RefCell::new(None),
            missed: OncePerPause::new(LINE_PAUSE),
        }
    }

    /// Opens the file or folder at a path below the root. The path does not begin with a slash.
    ///
    /// # Errors
    /// `Cold` if the system would have to read the disk, and the request may wait for a thread.
    pub(crate) fn open(&self, below: &str, look: LookupContext<'_>) -> Result<Opened, OpenError> {
        if let Some(opened) = look.brought(below) {
            return opened;
        }
        let beneath = self.beneath(look.at)?;
        if look.is_patient() { beneath.open_known(below) } else { beneath.open(below) }
    }

    /// Returns the folder. After `recheck` the path is looked up again, because a release may have replaced
    /// the folder.
    pub(crate) fn beneath(&self, now: Instant) -> Result<Beneath, OpenError> {
        let mut folder = self.folder.borrow_mut();
        if let Some((beneath, looked)) = &*folder
            && now.saturating_duration_since(*looked) < self.recheck
        {
            return Ok(beneath.clone());
        }
        let opened = self.enter(now).map_err(|kept_out| self.miss(&kept_out, now))?;
        let beneath = Beneath { folder: Arc::new(opened), resolve: self.resolve };
        *folder = Some((beneath.clone(), now));
        Ok(beneath)
    }

    /// Returns the last time when the current folder was found at its path.
    pub(crate) fn looked(&self) -> Option<Instant> {
        self.folder.borrow().as_ref().map(|(_, looked)| *looked)
    }

    /// Opens the folder at the path and checks its bounds, because a link may lead elsewhere by now.
    fn enter(&self, now: Instant) -> Result<OwnedFd, KeptOut> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(&self.path, flags, Mode::empty()).map_err(KeptOut::Failed)?;
        let found = path_of(&folder)
            .or_else(|_| canonicalize(&self.path))
            .map_err(|error| KeptOut::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        match &*self.allowed.borrow() {
            Some((allowed, at)) if *allowed == found && now.saturating_duration_since(*at) < BOUNDS_HOLD => {
                return Ok(folder);
            }
            _ => {}
        }
        if let Some(breach) = self.bounds.breach(&found) {
            return Err(KeptOut::Breach(breach));
        }
        *self.allowed.borrow_mut() = Some((found, now));
        Ok(folder)
    }

    /// Logs a failure. Clients cannot increase the number of log lines.
    fn miss(&self, kept_out: &KeptOut, now: Instant) -> OpenError {
        self.missed.note();
        if let Some(times) = self.missed.due(now) {
            let path = self.path.display();
            tracing::warn!(%path, times, "the folder of files cannot be served: {kept_out}");
        }
        match kept_out {
            KeptOut::Breach(_) => OpenError::Rootless,
            KeptOut::Failed(error) => match (*error).into() {
                OpenError::Absent => OpenError::Rootless,
                error => error,
            },
        }
    }
}

/// Returns the path of an open folder, without links (proc_pid_fd(5)).
fn path_of(folder: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

impl Beneath {
    /// Opens a path that the system can resolve without the disk (`RESOLVE_CACHED`).
    fn open_known(&self, below: &str) -> Result<Opened, OpenError> {
        match self.open_by(below, self.resolve | ResolveFlags::CACHED) {
            Ok(file) => opened(file),
            Err(Errno::AGAIN) => Err(OpenError::Cold(below.into())),
            // Linux before 5.12 does not know the flag.
            Err(Errno::INVAL | Errno::INTR) => self.open(below),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a path and, if it is a file, the files with these suffixes. Only threads that may wait call
    /// this.
    pub(crate) fn open_all(&self, below: &str, ends: &[&str]) -> Vec<Brought> {
        let first = self.open(below);
        let ends = if matches!(first, Ok(Opened::File(..))) { ends } else { &[] };
        let beside = ends.iter().map(|end| format!("{below}{end}"));
        let beside: Vec<Brought> = beside.map(|path| (path.as_str().into(), self.open(&path))).collect();
        std::iter::once((below.into(), first)).chain(beside).collect()
    }

    /// Opens a file or a folder, after a check of its type without opening it.
    ///
    /// The check comes first because opening a pipe for reading would unblock its writer, and opening a
    /// device may start an action. The check costs 4 us in addition to 4 us for opening. The check runs only
    /// if the path is not cached.
    fn open_by(&self, below: &str, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let below = if below.is_empty() { "." } else { below };
        let at = |flags| openat2(&*self.folder, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        let found = at(OFlags::PATH)?;
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            // Another file may have replaced the checked file since the check. NONBLOCK avoids waiting for a
            // pipe. NOCTTY keeps a terminal from becoming our controlling terminal.
            FileType::RegularFile => at(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY),
            // The right to enter a folder suffices to find its files. The right to list it is needed only for
            // listings.
            FileType::Directory => {
                openat2(found, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
            }
            _ => Err(Errno::NXIO),
        }
    }

    /// Returns a folder beneath this folder, with the same rule for links.
    pub(crate) fn at(&self, folder: OwnedFd) -> Self {
        Self { folder: Arc::new(folder), resolve: self.resolve }
    }

    /// Returns the entries of the folder.
    pub(crate) fn entries(&self) -> Result<Dir, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir::new(openat(&*self.folder, ".", flags, Mode::empty())?)?)
    }

    /// Opens the file or folder at a path below, which does not begin with a slash.
    pub(crate) fn open(&self, below: &str) -> Result<Opened, OpenError> {
        for _ in 0..RACES_MAX {
            match self.open_by(below, self.resolve) {
                Ok(file) => return opened(file),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(OpenError::Busy(Errno::AGAIN))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::fcntl_getfl;

    use super::*;

    #[test]
    fn a_folder_is_opened_without_the_right_to_list_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        let root = Root::new(&FilesSpec::new(folder.path().to_owned()));
        let beneath = root.beneath(Instant::now()).ok().unwrap();
        for below in ["", "a", "a/"] {
            let Ok(Opened::Folder(opened)) = beneath.open(below) else { panic!("{below}") };
            assert!(fcntl_getfl(opened).unwrap().contains(OFlags::PATH), "{below}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_once_in_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(&FilesSpec::new(folder.path().join("gone")));
        let now = Instant::now();
        for _ in 0..1000 {
            assert!(matches!(root.beneath(now), Err(OpenError::Rootless)));
        }
        assert_eq!(root.missed.due(now + LINE_PAUSE), Some(999), "all but the first");
    }
}
