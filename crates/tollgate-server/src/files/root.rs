//! The folder that is served, and what is opened in it: always by the kernel's own rule that nothing above it is reached
//! (rule 29), never by comparing paths.

use std::cell::RefCell;
use std::fs::{self, File, canonicalize};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use rustix::io::Errno;

use super::bounds::Bounds;
use super::look::Look;
use super::spec::{FilesSpec, Symlinks};
use crate::seldom::Seldom;

/// How often a path is opened anew that was renamed meanwhile: the kernel cannot tell then where it leads.
const RACES_MAX: usize = 16;

/// Between two lines of the log that say why the folder is not served.
const LINE_PAUSE: Duration = Duration::from_secs(10);

/// For so long a folder may be served that may be, unless its path leads elsewhere: what it must not hold moves seldom.
const BOUNDS_HOLD: Duration = Duration::from_millis(500);

pub(super) struct Root {
    path: PathBuf,
    bounds: Bounds,
    resolve: ResolveFlags,
    recheck: Duration,
    /// The folder that is at the path, and when that was looked at.
    folder: RefCell<Option<(Beneath, Instant)>>,
    /// Where it was last that it may be served, and when that was looked at.
    allowed: RefCell<Option<(PathBuf, Instant)>>,
    /// How often there was none that may be served.
    missed: Seldom,
}

/// The folder as it was looked up last: what is opened lies beneath it. Threads may hold it.
#[derive(Clone)]
pub(super) struct Beneath {
    folder: Arc<OwnedFd>,
    resolve: ResolveFlags,
}

/// What is at a path.
pub(super) enum Opened {
    File(File, Stamp),
    Folder(OwnedFd),
}

/// What a thread found at a path.
pub(super) type Brought = (Box<str>, Result<Opened, OpenError>);

impl Opened {
    /// The same once more.
    pub(super) fn again(&self) -> Result<Self, OpenError> {
        let full = |_| OpenError::Busy(Errno::MFILE);
        Ok(match self {
            Self::File(file, stamp) => Self::File(file.try_clone().map_err(full)?, *stamp),
            Self::Folder(folder) => Self::Folder(folder.try_clone().map_err(full)?),
        })
    }
}

/// Why nothing is served from a path.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum OpenError {
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

/// Why the folder is not served.
#[derive(Debug, thiserror::Error)]
enum KeptOut {
    #[error("cannot be opened: {0}")]
    Failed(Errno),
    #[error("{0}")]
    Breach(String),
}

/// What tells a file from what it was, or from another at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) len: u64,
    pub(super) modified_s: i64,
    pub(super) modified_ns: i64,
    changed: (i64, i64),
    inode: (u64, u64),
    /// When it was looked at, in seconds since 1970, as long as the next version may have the same times: what was learned of
    /// one is not held to be true of the other for longer than that second.
    unsettled_s: Option<i64>,
}

/// How long the clock of a file system may say the same: that of Linux has ticks of up to 10 ms, before 6.13 or where the file
/// system keeps no finer time; some others count seconds, FAT two at a time.
const TICK_US: i64 = 100_000;
const TICK_OF_SECONDS_US: i64 = 2_100_000;

impl Root {
    pub(super) fn new(spec: &FilesSpec) -> Self {
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
            missed: Seldom::new(LINE_PAUSE),
        }
    }

    /// Opens what is at a path below, which does not begin with a slash.
    ///
    /// # Errors
    /// `Cold`: the system would have to look at the disk, and the request may wait for a thread that does.
    pub(super) fn open(&self, below: &str, look: Look<'_>) -> Result<Opened, OpenError> {
        if let Some(opened) = look.brought(below) {
            return opened;
        }
        let beneath = self.beneath(look.at)?;
        if look.is_patient() { beneath.open_known(below) } else { beneath.open(below) }
    }

    /// The folder, by its path again from time to time: a release may have taken the place of another.
    pub(super) fn beneath(&self, now: Instant) -> Result<Beneath, OpenError> {
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

    /// When what is opened now was known to be in the folder that is at the path.
    pub(super) fn looked(&self) -> Option<Instant> {
        self.folder.borrow().as_ref().map(|(_, looked)| *looked)
    }

    /// Opens the folder that the path leads to, if it may be served: a link may lead elsewhere by now.
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

    /// Clients do not decide how often the log hears of it.
    fn miss(&self, kept_out: &KeptOut, now: Instant) -> OpenError {
        self.missed.note();
        if let Some(times) = self.missed.due(now) {
            tracing::warn!(path = %self.path.display(), times, "the folder of files cannot be served: {kept_out}");
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

/// Where an open folder is, by a path without links (proc_pid_fd(5)).
fn path_of(folder: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

impl Beneath {
    /// Opens what the system finds without looking at a disk (`RESOLVE_CACHED`).
    fn open_known(&self, below: &str) -> Result<Opened, OpenError> {
        match self.open_by(below, self.resolve | ResolveFlags::CACHED) {
            Ok(file) => opened(file),
            Err(Errno::AGAIN) => Err(OpenError::Cold(below.into())),
            // Linux before 5.12 does not know the flag.
            Err(Errno::INVAL | Errno::INTR) => self.open(below),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens what is at a path, and, if that is a file, what lies beside it with these ends; for threads that may wait.
    pub(super) fn open_all(&self, below: &str, ends: &[&str]) -> Vec<Brought> {
        let first = self.open(below);
        let ends = if matches!(first, Ok(Opened::File(..))) { ends } else { &[] };
        let beside = ends.iter().map(|end| format!("{below}{end}"));
        let beside: Vec<Brought> = beside.map(|path| (path.as_str().into(), self.open(&path))).collect();
        std::iter::once((below.into(), first)).chain(beside).collect()
    }

    /// Looks first, without opening: who opens a pipe to read lets in whoever waits to write, and some devices begin to do
    /// something. The look costs 4 us beside 4 of opening, and only where nothing is known of the path.
    fn open_by(&self, below: &str, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let below = if below.is_empty() { "." } else { below };
        let at = |flags| openat2(&*self.folder, below, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        let found = at(OFlags::PATH)?;
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            // What has taken its place meanwhile makes us not wait, and no terminal becomes ours.
            FileType::RegularFile => at(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY),
            // Who may pass through it finds what it holds: the right to list it is for listings.
            FileType::Directory => {
                openat2(found, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
            }
            _ => Err(Errno::NXIO),
        }
    }

    /// The same rule for what lies beneath a folder in it.
    pub(super) fn at(&self, folder: OwnedFd) -> Self {
        Self { folder: Arc::new(folder), resolve: self.resolve }
    }

    /// What the folder holds.
    pub(super) fn entries(&self) -> Result<Dir, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir::new(openat(&*self.folder, ".", flags, Mode::empty())?)?)
    }

    /// Opens what is at a path below, which does not begin with a slash.
    pub(super) fn open(&self, below: &str) -> Result<Opened, OpenError> {
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

fn opened(file: OwnedFd) -> Result<Opened, OpenError> {
    let file = File::from(file);
    let stamp = Stamp::of(&file)?;
    match FileType::from_raw_mode(stamp.1) {
        FileType::RegularFile => Ok(Opened::File(file, stamp.0)),
        FileType::Directory => Ok(Opened::Folder(file.into())),
        _ => Err(OpenError::Absent),
    }
}

impl Stamp {
    /// Looks at an open file: its stamp, and its mode.
    fn of(file: impl AsFd) -> Result<(Self, u32), OpenError> {
        let stat = fstat(file)?;
        let stamp = Self {
            len: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_s: stat.st_mtime,
            modified_ns: i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            changed: (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default()),
            inode: (stat.st_dev, stat.st_ino),
            unsettled_s: None,
        };
        Ok((stamp, stat.st_mode))
    }

    /// Looks at an open folder. None: it is gone.
    pub(super) fn of_folder(folder: &OwnedFd) -> Option<Self> {
        Self::of(folder).ok().map(|(stamp, _)| stamp)
    }

    /// Looks at an open file once more. None: the system does not tell.
    pub(super) fn now(file: &File, look: Look<'_>) -> Option<Self> {
        Self::of(file).ok().map(|(stamp, _)| stamp.looked_at(look))
    }

    /// The same, as it was seen by a look. A time of modification that was given to a file, long before it was changed, is
    /// believed to be no other version's.
    pub(super) fn looked_at(self, look: Look<'_>) -> Self {
        let tick_us = if self.changed.1 == 0 { TICK_OF_SECONDS_US } else { TICK_US };
        let modified_us = microseconds(self.modified_s, self.modified_ns);
        let is_older_than = |us: i64, than: i64| us.saturating_add(tick_us) < than;
        let is_settled =
            is_older_than(self.changed_us(), look.wall_us) || is_older_than(modified_us, self.changed_us());
        Self { unsettled_s: (!is_settled).then_some(look.wall_us / 1_000_000), ..self }
    }

    /// Whether each later version says something else.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled_s.is_none()
    }

    /// Of the last change of whatever is known of the file. Only the system sets this time.
    fn changed_us(&self) -> i64 {
        microseconds(self.changed.0, self.changed.1)
    }

    /// Looks at an open file once more. None: it was written to. That its name or its mode changed makes it no other version.
    pub(super) fn of_this_version(&self, file: &File) -> Option<Self> {
        let (now, _) = Self::of(file).ok()?;
        (Self { changed: self.changed, unsettled_s: self.unsettled_s, ..now } == *self).then_some(now)
    }

    /// Whether an open file is still what it was.
    pub(super) fn is_that_of(&self, file: &File) -> bool {
        Self::of(file).is_ok_and(|(stamp, _)| stamp == Self { unsettled_s: None, ..*self })
    }
}

fn microseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000)
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
    pub(super) fn is_for_want_of_descriptors(&self) -> bool {
        matches!(self, Self::Busy(Errno::MFILE | Errno::NFILE))
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::fcntl_getfl;

    use super::*;

    const CHANGED_S: i64 = 1_000_000;

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

    fn stamp(modified_us: i64, changed_us: i64) -> Stamp {
        let parts = |us: i64| (us.div_euclid(1_000_000), us.rem_euclid(1_000_000) * 1000);
        let (modified_s, modified_ns) = parts(modified_us);
        let inode = (1, 2);
        Stamp { len: 3, modified_s, modified_ns, changed: parts(changed_us), inode, unsettled_s: None }
    }

    fn look(wall_us: i64) -> Look<'static> {
        Look { at: Instant::now(), wall_us, errand: None, is_patient: false }
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

    #[test]
    fn what_was_learned_within_a_tick_of_a_change_holds_of_no_later_look() {
        let changed_us = CHANGED_S * 1_000_000 + 500_000;
        let stamp = stamp(changed_us, changed_us);
        let at = |after_us: i64| stamp.looked_at(look(changed_us + after_us));
        assert_eq!(at(200_000), stamp);
        assert!(at(200_000).is_settled());
        for after_us in [-2_000_000, -1000, 0, 100_000] {
            assert!(!at(after_us).is_settled(), "{after_us}");
            assert_ne!(at(after_us), at(200_000), "{after_us}");
        }
        // Within one second it does, so that a request finds what it waited for.
        assert_eq!(at(0), at(90_000));
        assert_ne!(at(-600_000), at(0));
    }

    #[test]
    fn a_clock_of_seconds_ticks_seldom() {
        let changed_us = CHANGED_S * 1_000_000;
        let stamp = stamp(changed_us, changed_us);
        assert!(!stamp.looked_at(look(changed_us + 2_000_000)).is_settled());
        assert!(stamp.looked_at(look(changed_us + 2_200_000)).is_settled());
    }

    #[test]
    fn a_time_that_was_given_to_a_file_is_no_later_one() {
        let changed_us = CHANGED_S * 1_000_000 + 500_000;
        assert!(stamp(changed_us - 200_000, changed_us).looked_at(look(changed_us)).is_settled());
        assert!(!stamp(changed_us - 50_000, changed_us).looked_at(look(changed_us)).is_settled());
    }
}
