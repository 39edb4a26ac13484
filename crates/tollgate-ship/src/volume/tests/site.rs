//! What the tests of volumes share: disks, a web machine, and a database that counts each record once.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_log::{DiskStorage, LogId, Position, SegmentName, SegmentState, Sequence, read_footer};

use super::super::opened::OpenVolume;
use super::super::state::{VolumeFile, VolumeSide};
use super::super::{
    SourceOptions, VolumeFacts, VolumeFolder, VolumeOptions, VolumeSource, VolumeState, VolumeStore,
    init_volume,
};
use crate::answer::{PositionAnswer, WantAnswer};
use crate::name::{NodeName, ObjectName};
use crate::pace::Pacer;
use crate::shipper::{ShipOnce, ShipOnceError, sealed_segments, visit};
use crate::store::Store;
use crate::testing::write_log;

/// Bytes of an image with ext4.
const IMAGE_BYTES: u64 = 16 << 20;

/// Whether disks are images with ext4. Without the variable, or where mounts are not possible, disks are
/// plain folders.
fn is_mountable() -> bool {
    static SAY: Once = Once::new();
    let is_wanted = std::env::var_os("TOLLGATE_VOLUMES").is_some();
    SAY.call_once(|| {
        if !is_wanted {
            // Writes directly, because the test harness hides the output of a test that passes.
            let text = "volumes are plain folders here; `make volumes` mounts images as root\n";
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    });
    is_wanted
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// A disk that can be pulled out and put into another machine.
pub(super) struct Disk {
    /// The image with its file system. `None`: the disk is a plain folder.
    image: Option<PathBuf>,
    /// Where the plain folder is while it is in no machine.
    drawer: PathBuf,
    /// Where it is mounted. `None`: in no machine.
    place: Option<PathBuf>,
}

impl Disk {
    /// Makes a disk. Prints a line and takes a plain folder if an image cannot be mounted.
    fn new(folder: &Path, name: &str) -> Self {
        let drawer = folder.join(format!("{name}.drawer"));
        let mut disk = Self { image: None, drawer: drawer.clone(), place: None };
        fs::create_dir(&drawer).unwrap();
        if !is_mountable() {
            return disk;
        }
        let image = folder.join(format!("{name}.image"));
        fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let text = image.to_str().unwrap();
        let mkfs = ["mkfs.ext4", "/usr/sbin/mkfs.ext4"].map(|program| run(program, &["-q", text]));
        let made = if mkfs[0].is_ok() { mkfs[0].clone() } else { mkfs[1].clone() };
        let mounted = made.and_then(|()| run("mount", &["-o", "loop", text, drawer.to_str().unwrap()]));
        match mounted.and_then(|()| run("umount", &[drawer.to_str().unwrap()])) {
            Ok(()) => disk.image = Some(image),
            Err(error) => {
                let text = format!("\n!!! NOT TESTED: volumes on images: {error}\n");
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
        }
        disk
    }

    pub(super) fn is_image(&self) -> bool {
        self.image.is_some()
    }

    /// Puts the disk into a machine, at a folder that is empty.
    pub(super) fn put(&mut self, place: &Path) {
        self.put_with(place, "loop");
    }

    pub(super) fn put_with(&mut self, place: &Path, options: &str) {
        assert!(self.place.is_none(), "the disk is in a machine");
        if let Some(image) = &self.image {
            run("mount", &["-o", options, image.to_str().unwrap(), place.to_str().unwrap()]).unwrap();
        } else {
            fs::remove_dir(place).expect("nothing was written below the mount point");
            fs::rename(&self.drawer, place).unwrap();
        }
        self.place = Some(place.to_owned());
    }

    /// Pulls the disk out, whatever is open there.
    pub(super) fn pull(&mut self) {
        let Some(place) = self.place.take() else { return };
        if self.image.is_some() {
            run("umount", &["-l", place.to_str().unwrap()]).unwrap();
        } else {
            fs::rename(&place, &self.drawer).unwrap();
            fs::create_dir(&place).unwrap();
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.place.as_deref().expect("the disk is in a machine")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let (Some(place), Some(_)) = (&self.place, &self.image) {
            let _ = run("umount", &["-l", place.to_str().unwrap()]);
        }
    }
}

/// A web machine with two disks, and a database.
pub(super) struct Site {
    // Dropped first: it unmounts.
    pub(super) disks: Vec<Disk>,
    pub(super) database: Database,
    pub(super) bytes_max: u64,
    pub(super) age_max: Option<Duration>,
    pub(super) on_full: Option<super::super::VolumeHook>,
    pub(super) folder: TempDir,
}

impl Site {
    /// Makes a site whose volumes take this number of bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "db", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut disks: Vec<_> = ["disk a", "disk b"].map(|name| Disk::new(folder.path(), name)).into();
        for (disk, name) in disks.iter_mut().zip(["a", "b"]) {
            disk.put(&folder.path().join(name));
            init_volume(disk.path(), !disk.is_image()).unwrap();
        }
        let (database, age_max, on_full) = (Database::default(), None, None);
        Self { disks, database, bytes_max, age_max, on_full, folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a disk into a machine, at one of the folders of this site.
    pub(super) fn put(&mut self, at: usize, name: &str) {
        self.put_with(at, name, "loop");
    }

    pub(super) fn put_with(&mut self, at: usize, name: &str, options: &str) {
        let place = self.path(name);
        self.disks[at].put_with(&place, options);
    }

    /// Whether the disks are plain folders.
    pub(super) fn same_device(&self) -> bool {
        !self.disks[0].is_image()
    }

    pub(super) fn node() -> NodeName {
        NodeName::encode("web 1").unwrap()
    }

    pub(super) fn write_log(&self, rows: i64) -> LogId {
        write_log(&self.path("log"), "web 1", rows)
    }

    pub(super) fn options(&self) -> VolumeOptions {
        VolumeOptions {
            folders: vec![self.path("a"), self.path("b")],
            same_device: self.same_device(),
            home: self.path("home"),
            logs: self.path("log"),
            node: Self::node(),
            sinks: vec!["one".to_owned()],
            bytes_max: self.bytes_max,
            age_max: self.age_max,
            on_full: self.on_full.clone(),
            look: Duration::ZERO,
        }
    }

    pub(super) fn store(&self) -> VolumeStore {
        let store = VolumeStore::open(self.options(), Arc::new(Pacer::new(None))).unwrap();
        store.look();
        store
    }

    pub(super) fn source_options(&self, host: &str) -> SourceOptions {
        SourceOptions {
            folder: self.path("db"),
            same_device: self.same_device(),
            host: NodeName::encode(host).unwrap(),
            take_over: false,
            report: None,
            sinks: vec!["one".to_owned()],
            on_done: None,
        }
    }

    /// Ships all sealed segments on the calling thread, like the thread of a ship target.
    pub(super) fn ship(&self, store: &VolumeStore) -> Result<Vec<ShipOnce>, ShipOnceError> {
        let mut sent = Vec::new();
        for (name, path) in sealed_segments(&DiskStorage, &self.path("log"), &Self::node())? {
            sent.extend(visit(&DiskStorage, &path, &name, store, false)?);
        }
        Ok(sent)
    }

    /// Moves a disk to the host of the database, loads it, and moves it back.
    pub(super) fn carry(&mut self, at: usize) -> Result<(), String> {
        let place = self.disks[at].path().to_owned();
        self.disks[at].pull();
        self.put(at, "db");
        let loaded = self.load();
        self.disks[at].pull();
        self.disks[at].put(&place);
        loaded
    }

    /// Loads the disk that is in the host of the database.
    pub(super) fn load(&mut self) -> Result<(), String> {
        let source = VolumeSource::open(self.source_options("db")).map_err(|error| error.to_string())?;
        self.database.load(&source, &self.path("spool")).map_err(|error| error.to_string())
    }

    /// Ships, carries and takes back until the database has each record of these logs.
    pub(super) fn run_until_loaded(&mut self, store: &VolumeStore, logs: &[(LogId, u64)]) {
        for _ in 0..64 {
            store.look();
            let _ = self.ship(store);
            for at in 0..self.disks.len() {
                if self.state(at) == VolumeState::Full || self.state(at) == VolumeState::Loading {
                    self.carry(at).unwrap();
                    store.look();
                    continue;
                }
            }
            let is_loaded = |(log, rows): &(LogId, u64)| self.database.last(*log) == *rows;
            if logs.iter().all(is_loaded) {
                return;
            }
            if (0..self.disks.len()).all(|at| self.state(at) != VolumeState::Full) {
                store.close().unwrap();
            }
        }
        panic!("never loaded: {:?}", store.watch().status());
    }

    pub(super) fn file(&self, at: usize) -> VolumeFile {
        OpenVolume::open(self.disks[at].path(), self.same_device(), VolumeSide::Web).unwrap().file
    }

    pub(super) fn state(&self, at: usize) -> VolumeState {
        self.file(at).state
    }

    pub(super) fn facts(&self, at: usize) -> VolumeFacts {
        VolumeFacts::of(&self.file(at))
    }

    /// Returns what the status says of the folder of a disk.
    pub(super) fn shown(&self, store: &VolumeStore, name: &str) -> VolumeFolder {
        store.watch().status().folders[&self.path(name)].clone()
    }

    /// Returns the first and the last record of each sealed segment.
    pub(super) fn bounds(&self, log: LogId) -> Vec<(u64, u64)> {
        let paths = tollgate_log::segments(&DiskStorage, &self.path("log"), log).unwrap();
        let footers = paths.iter().map(|(name, path)| (name.first, read_footer(&DiskStorage, path).unwrap()));
        footers.map(|(first, footer)| (first.0, footer.unwrap().last.0)).collect()
    }

    /// Returns the path of a local segment.
    pub(super) fn local(&self, log: LogId, first: u64) -> PathBuf {
        let name = SegmentName { first: Sequence(first), state: SegmentState::Sealed };
        name.path(&self.path("log").join(log.to_string()))
    }

    pub(super) fn object(log: LogId, first: u64) -> String {
        ObjectName::Segment { node: Self::node(), log, first: Sequence(first) }.to_string()
    }
}

/// A database with one sink. It takes a segment only at its position, as a loader does.
#[derive(Default)]
pub(super) struct Database {
    positions: BTreeMap<LogId, Position>,
    rows: u64,
    /// Segments that arrived once more.
    pub(super) repeated: u64,
}

impl Database {
    /// Returns the position of a log.
    pub(super) fn last(&self, log: LogId) -> u64 {
        self.positions.get(&log).map_or(0, |position| position.last.0)
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Loads what a source shows, and answers. Asks for a segment that is missing.
    pub(super) fn load(&mut self, source: &dyn Store, spool: &Path) -> Result<(), crate::StoreError> {
        for node in source.folders(&ObjectName::segments())? {
            let node = NodeName::parse(&node).unwrap();
            for log in source.folders(&ObjectName::segments_of_node(&node))? {
                self.load_log(source, spool, &node, log.parse().unwrap())?;
            }
        }
        for (log, position) in &self.positions {
            let name = ObjectName::Position { sink: "one".to_owned(), log: *log }.to_string();
            source.put_text(&name, &PositionAnswer::now(*position).to_text())?;
        }
        Ok(())
    }

    fn load_log(
        &mut self,
        source: &dyn Store,
        spool: &Path,
        node: &NodeName,
        log: LogId,
    ) -> Result<(), crate::StoreError> {
        let begin = Position { last: Sequence(0), chain: None };
        let position = self.positions.entry(log).or_insert(begin);
        for name in source.list(&ObjectName::segments_of_log(node, log), None)? {
            let Some(ObjectName::Segment { first, .. }) = ObjectName::parse(&name) else { panic!("{name}") };
            let _ = fs::remove_file(spool);
            let fetched = source.fetch(&name, spool, 1 << 20)?;
            let footer = fetched.and_then(|_| read_footer(&DiskStorage, spool).unwrap());
            let next = position.last.after(1);
            match footer {
                Some(footer) if first == next => {
                    self.rows += footer.last.0 - position.last.0;
                    *position = Position { last: footer.last, chain: Some(footer.chain) };
                }
                Some(footer) if footer.last <= position.last => self.repeated += 1,
                _ => {
                    let name = ObjectName::Want { log, first: next }.to_string();
                    source.put_text(&name, WantAnswer::Wanted.to_text())?;
                }
            }
        }
        Ok(())
    }
}
