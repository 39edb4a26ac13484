//! Reports changes of the files of a configuration, of its apps, scripts and tests.
//!
//! The kernel reports changes, so nothing is polled. Changes that come close together are reported once,
//! after a short quiet time. Each folder is watched separately, so that folders that a server writes into can
//! be left out. The number of watched folders is bounded.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind};
use ::notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher, recommended_watcher};
use anyhow::Context;

use crate::config::Config;

/// Quiet time before a change is reported. An editor writes a file in several steps, and a checkout changes
/// many files.
const QUIET: Duration = Duration::from_millis(50);
/// Longest time until a change is reported, even if further changes follow.
const PATIENCE: Duration = Duration::from_secs(1);
const FOLDERS_MAX: usize = 4096;
const DEPTH_MAX: usize = 32;

/// The folders of a configuration, and the folders in them that are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    roots: Vec<PathBuf>,
    left_out: Vec<PathBuf>,
}

impl Watched {
    /// Watches the folder of the path on the command line, with everything in it.
    pub(crate) fn at(path: &Path) -> Self {
        Self { roots: vec![folder_of(path)], left_out: Vec::new() }
    }

    /// Watches the folders of a configuration and of its apps, without the folders that a server writes into.
    pub(crate) fn of(path: &Path, config: &Config) -> Self {
        let apps = config.mounts.iter().map(|mount| mount.dir.clone());
        let databases = config.sinks.iter().filter_map(|sink| sink.sqlite()?.parent());
        let keys = config.acme.iter().map(|acme| acme.options.folder.as_path());
        let written = [config.log.dir.as_path(), &config.server.spool.dir].into_iter().chain(databases);
        let written = written.chain(keys);
        Self {
            roots: [folder_of(path)].into_iter().chain(apps).map(resolved).collect(),
            left_out: written.map(|folder| resolved(folder.to_owned())).collect(),
        }
    }

    /// Returns whether a folder is left out: it is hidden, or a server writes into it, or it contains only
    /// such folders.
    fn leaves_out(&self, folder: &Path) -> bool {
        let is_hidden = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_root = self.roots.iter().any(|root| root == folder);
        !is_root && (is_hidden || self.left_out.iter().any(|written| written.starts_with(folder)))
    }
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    resolved(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}

fn resolved(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}

/// Watches folders.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    changes: Receiver<()>,
    watched: Arc<Mutex<Watched>>,
    folders: BTreeSet<PathBuf>,
}

impl Watch {
    /// Makes a watch without folders.
    ///
    /// # Errors
    /// The system allows no watch.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let (changed, changes) = sync_channel(1);
        let watched: Arc<Mutex<Watched>> = Arc::default();
        let looking = watched.clone();
        let on_event = move |event: ::notify::Result<Event>| {
            if event.is_ok_and(|event| !is_relevant(&event, &locked(&looking))) {
                return;
            }
            // If the channel is full, a change is already waiting to be read.
            let _ = changed.try_send(());
        };
        let watcher = recommended_watcher(on_event).context("cannot watch files")?;
        Ok(Self { watcher, changes, watched, folders: BTreeSet::new() })
    }

    /// Watches these folders from now on, and stops watching all other folders. Returns whether any of them
    /// is new.
    pub(crate) fn look_at(&mut self, watched: &Watched) -> bool {
        locked(&self.watched).clone_from(watched);
        let mut found = BTreeSet::new();
        watched.roots.iter().for_each(|root| gather(root, watched, 0, &mut found));
        if found.len() >= FOLDERS_MAX {
            tracing::warn!(
                limit = FOLDERS_MAX,
                "too many folders to watch: changes in further folders are not seen"
            );
        }
        let gone: Vec<_> = self.folders.difference(&found).cloned().collect();
        for folder in gone {
            // An error means that the folder no longer exists, so the system has removed the watch already.
            let _ = self.watcher.unwatch(&folder);
            self.folders.remove(&folder);
        }
        let new: Vec<_> = found.difference(&self.folders).cloned().collect();
        for folder in &new {
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.folders.insert(folder.clone())),
                Err(error) => {
                    tracing::warn!(
                        folder = %folder.display(),
                        %error,
                        "cannot watch a folder: changes in it are not seen"
                    );
                }
            }
        }
        !new.is_empty()
    }

    /// Waits for a change, and then until no change follows for `QUIET`.
    pub(crate) fn wait(&self) {
        // The watcher has the sending end and lives as long as `self`, so `recv` does not fail.
        let _ = self.changes.recv();
        let first = Instant::now();
        while first.elapsed() < PATIENCE && self.changes.recv_timeout(QUIET).is_ok() {}
    }
}

fn gather(folder: &Path, watched: &Watched, depth: usize, found: &mut BTreeSet<PathBuf>) {
    if depth > DEPTH_MAX || found.len() >= FOLDERS_MAX || watched.leaves_out(folder) {
        return;
    }
    // A server cannot load scripts from a folder that it cannot read.
    let Ok(entries) = fs::read_dir(folder) else { return };
    found.insert(folder.to_owned());
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.for_each(|entry| gather(&entry.path(), watched, depth + 1, found));
}

/// Locks the value, also after a panic of another thread. The value is consistent after every statement.
fn locked(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether an event may change what is served or tested.
fn is_relevant(event: &Event, watched: &Watched) -> bool {
    let paths: Vec<_> = event.paths.iter().filter(|path| !watched.leaves_out(path)).collect();
    let is_of = |extensions: &[Option<&str>]| {
        paths.iter().any(|path| extensions.contains(&path.extension().and_then(OsStr::to_str)))
    };
    let is_source = is_of(&[Some("luau"), Some("toml")]);
    match event.kind {
        _ if event.need_rescan() => true,
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => is_source,
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => false,
        EventKind::Create(CreateKind::Folder) | EventKind::Remove(RemoveKind::Folder) => !paths.is_empty(),
        // A renamed folder may contain scripts. A folder usually has no extension.
        EventKind::Modify(ModifyKind::Name(_)) => is_source || is_of(&[None]),
        _ => is_source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "return function() return 204 end\n").unwrap();
        }
        dir
    }

    fn names(dir: &tempfile::TempDir, watched: &Watched) -> Vec<String> {
        let mut found = BTreeSet::new();
        watched.roots.iter().for_each(|root| gather(root, watched, 0, &mut found));
        let root = fs::canonicalize(dir.path()).unwrap();
        found.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn folders_are_watched_but_those_that_a_server_writes_into() {
        let dir = folder(&["routes/a/b.luau", ".git/x", "data/log/1/x", "data/spool/x", "tests/t.luau"]);
        let config = Config::load(dir.path()).unwrap();
        assert_eq!(names(&dir, &Watched::of(dir.path(), &config)), ["", "routes", "routes/a", "tests"]);
        assert!(names(&dir, &Watched::at(dir.path())).contains(&"data/log/1".to_owned()));
    }

    #[test]
    fn changes_of_scripts_and_configurations_are_relevant() {
        let event = |kind, path: &str| Event::new(kind).add_path(PathBuf::from(path));
        let watched = Watched { roots: vec!["/a".into()], left_out: vec!["/a/data/log".into()] };
        let modified = EventKind::Modify(ModifyKind::Any);
        let renamed = EventKind::Modify(ModifyKind::Name(::notify::event::RenameMode::Any));
        for (event, expected) in [
            (event(modified, "/a/b.luau"), true),
            (event(modified, "/a/app.toml"), true),
            (event(modified, "/a/data.sqlite-wal"), false),
            (event(modified, "/a/.b.luau.swp"), false),
            (event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/a/b.luau"), false),
            (event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/a/b.luau"), true),
            (event(EventKind::Create(CreateKind::Folder), "/a/routes"), true),
            (event(EventKind::Create(CreateKind::File), "/a/notes"), false),
            (event(renamed, "/a/b.luau"), true),
            (event(renamed, "/a/routes"), true),
            (event(renamed, "/a/page.html"), false),
            (event(EventKind::Remove(RemoveKind::File), "/a/b.luau"), true),
            (event(EventKind::Create(CreateKind::Folder), "/a/data"), false),
            (event(EventKind::Create(CreateKind::Folder), "/a/data/log"), false),
            (event(EventKind::Create(CreateKind::Folder), "/a/data/other"), true),
            (event(modified, "/a/.#b.luau"), false),
        ] {
            assert_eq!(is_relevant(&event, &watched), expected, "{event:?}");
        }
        let lost = Event::new(EventKind::Other).set_flag(::notify::event::Flag::Rescan);
        assert!(is_relevant(&lost, &watched));
    }

    #[test]
    fn a_change_is_told_once_also_in_a_folder_that_came_later() {
        let dir = folder(&["a.luau"]);
        let mut watch = Watch::new().unwrap();
        assert!(watch.look_at(&Watched::at(dir.path())));
        assert!(!watch.look_at(&Watched::at(dir.path())));
        for text in ["one", "two", "three"] {
            fs::write(dir.path().join("a.luau"), text).unwrap();
        }
        watch.wait();
        fs::create_dir(dir.path().join("later")).unwrap();
        watch.wait();
        assert!(watch.look_at(&Watched::at(dir.path())));
        fs::write(dir.path().join("later/b.luau"), "text").unwrap();
        watch.wait();
        assert!(watch.changes.try_recv().is_err());
    }
}
