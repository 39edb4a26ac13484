//! The volumes of a ship target: mounted disks that carry segments to the database, in turn.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_ship::VolumeHook;

use super::key::{keys, set_defaults, write};
use super::path::{PathTo, check_path, path};
use super::quoted::quoted_path;
use super::section::{Section, Written};
use super::units::{GIB, HOUR_MS, MINUTE_MS, TIMEOUT_MS};

/// The fewest folders: one volume is filled while another one travels.
const FOLDERS_MIN: usize = 2;

/// The key with the folders. It stands among the other places of a store.
pub(super) const VOLUMES: &str = "volumes";

keys! {
    pub(super) VOLUME_KEYS of Volumes;
    /// A volume with this number of bytes is closed, or earlier when its disk is full.
    volume_bytes = size(GIB << 10, 1..=GIB << 20) => bytes_max;
    /// A volume is closed this time after its first segment. 0ms: only by size or command.
    volume_age = duration(HOUR_MS, 0..=31 * 24 * HOUR_MS) => age_max;
    /// Whether a folder of `volumes` may be on the device of its parent folder, so that it needs no mount.
    same_device = switch(false) => same_device;
    /// The program that runs when a volume is full: it unmounts and moves the disk.
    on_full [ON_FULL] = other("none", "a path");
    /// How long this program may run. Then it is killed with its children.
    hook_timeout = duration(10 * MINUTE_MS, TIMEOUT_MS) => hook_timeout;
}

/// The volumes of a ship target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volumes {
    /// The folders where volumes are mounted.
    pub(crate) folders: Vec<PathBuf>,
    /// A volume with this number of bytes is closed.
    pub(crate) bytes_max: u64,
    /// A volume is closed this time after its first segment. `None`: by size or command only.
    pub(crate) age_max: Option<Duration>,
    /// Whether a folder may be on the device of its parent.
    pub(crate) same_device: bool,
    /// The program that runs when a volume is full.
    on_full: Option<PathBuf>,
    hook_timeout: Duration,
}

impl Volumes {
    fn new() -> Self {
        let mut volumes = Self {
            folders: Vec::new(),
            bytes_max: 0,
            age_max: None,
            same_device: false,
            on_full: None,
            hook_timeout: Duration::ZERO,
        };
        set_defaults(VOLUME_KEYS, &mut volumes);
        volumes
    }

    /// Returns the program that runs when a volume is full.
    pub(crate) fn on_full(&self) -> Option<VolumeHook> {
        let program = self.on_full.clone()?;
        Some(VolumeHook { program, timeout: self.hook_timeout })
    }

    /// Writes all keys except the one with the folders.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(VOLUME_KEYS, self, &[(ON_FULL.name, self.on_full.as_deref().map(quoted_path))], f)
    }
}

/// Writes the folders, for people.
impl fmt::Display for Volumes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
        write!(f, "volumes {}", folders.join(", "))
    }
}

/// Reads the volumes of a target. Paths are relative to `folder`. `check_dir` finds faults of a folder.
pub(super) fn volumes(
    section: &mut Section<'_>,
    folder: &Path,
    check_dir: impl Fn(&Section<'_>, &str, &Written<PathBuf>),
) -> Volumes {
    let mut volumes = Volumes::new();
    volumes.folders = folders(section, folder, check_dir);
    section.read(VOLUME_KEYS, &mut volumes);
    let on_full = path(section, ON_FULL.name, PathTo::File);
    volumes.on_full = on_full.map(|written| folder.join(written.value));
    volumes
}

/// Adds a fault for each key of volumes in a target without volumes.
pub(super) fn refuse_keys(section: &mut Section<'_>) {
    for key in VOLUME_KEYS.iter().map(|key| key.facts.name).filter(|key| section.has(key)) {
        section.fault_of(key, format!("{key} in {} needs {VOLUMES}", section.name()));
    }
    section.read(VOLUME_KEYS, &mut Volumes::new());
    section.text(ON_FULL.name);
}

fn folders(
    section: &mut Section<'_>,
    folder: &Path,
    check_dir: impl Fn(&Section<'_>, &str, &Written<PathBuf>),
) -> Vec<PathBuf> {
    let place = format!("{VOLUMES} in {}", section.name());
    let Some(written) = section.texts(VOLUMES) else { return Vec::new() };
    if written.len() < FOLDERS_MIN {
        let found = written.len();
        let text = format!(
            "{place} has {found} folders, needed are at least {FOLDERS_MIN}: one is filled while another one \
             travels"
        );
        section.fault_of(VOLUMES, text);
    }
    let mut folders = Vec::new();
    for dir in written.into_iter().filter(|dir| check_path(section, &place, dir, PathTo::Folder)) {
        let dir = Written { value: folder.join(&dir.value), span: dir.span };
        if folders.contains(&dir.value) {
            let text = format!("{place} has {} twice: each volume needs its own folder", dir.value.display());
            section.fault_at(&dir.span, text);
        }
        check_dir(section, &place, &dir);
        folders.push(dir.value);
    }
    folders
}
