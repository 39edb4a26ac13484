//! A simulated disk that can lose power. The disk has separate contents for the memory of the system and for
//! the medium.
//!
//! A write is pending until its file is synced, and a name until its folder is synced. [`Sim::power_cut`]
//! returns a disk as a power cut may leave it. A seed decides whether each pending write is kept, dropped,
//! torn or zeroed. [`Sim::restart`] ends only the process, and loses nothing. A failed sync drops the pending
//! writes of its file, as Linux does. So a second sync of the same file succeeds, although these writes are
//! lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tollgate_log::{Space, Storage, StorageFile, StorageLock};

/// Longest time that a test waits for an event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// EIO of Linux.
pub(crate) const EIO: i32 = 5;
/// ENOSPC of Linux.
pub(crate) const ENOSPC: i32 = 28;

/// Calls that change the disk. Each call counts as an operation, and may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    CreateFolder,
    Create,
    Write,
    Truncate,
    Sync,
    Rename,
    Remove,
    RemoveFolder,
    SyncFolder,
    Lock,
}

/// Random numbers from a seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

type Inode = usize;

#[derive(Clone)]
enum Node {
    Folder,
    File(Content),
}

#[derive(Clone, Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(u64, Change)>,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, new) => {
                let end = offset + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(new);
            }
            Self::Truncate(size) => bytes.truncate(*size),
        }
    }

    /// Returns the outcomes of an unsynced change after a power cut: it is lost or kept. Of a write, also
    /// only the first half of the bytes before the runway may be kept, with the new file size or without.
    fn every_fate(&self) -> Vec<Option<Self>> {
        let mut fates = vec![None, Some(self.clone())];
        if let Self::Write(offset, bytes) = self {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let mut torn = bytes.clone();
            torn[used / 2..].fill(0);
            fates.push(Some(Self::Write(*offset, torn[..used / 2].to_vec())));
            if torn.len() > used {
                fates.push(Some(Self::Write(*offset, torn)));
            }
        }
        fates
    }

    /// Returns the outcome of an unsynced change after a power cut. `None` if the change is lost.
    fn survivor(self, random: &mut Random) -> Option<Self> {
        match self {
            Self::Write(offset, mut bytes) => match random.below(5) {
                0 => None,
                1 => {
                    bytes.truncate(random.below(bytes.len() + 1));
                    Some(Self::Write(offset, bytes))
                }
                2 => {
                    // The file has its new size, but single sectors of the write were never written.
                    for sector in bytes.chunks_mut(SECTOR_BYTES) {
                        if random.below(2) == 0 {
                            sector.fill(0);
                        }
                    }
                    Some(Self::Write(offset, bytes))
                }
                _ => Some(Self::Write(offset, bytes)),
            },
            truncate => (random.below(2) == 0).then_some(truncate),
        }
    }
}

/// A change of names in one folder.
#[derive(Clone)]
enum NameChange {
    Link(PathBuf, Inode),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf, Inode),
}

impl NameChange {
    fn folder(&self) -> &Path {
        let (Self::Link(path, _) | Self::Unlink(path) | Self::Rename(path, ..)) = self;
        path.parent().unwrap()
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Inode>) {
        match self {
            Self::Link(path, inode) => drop(names.insert(path.clone(), *inode)),
            Self::Unlink(path) => drop(names.remove(path)),
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

#[derive(Clone, Default)]
struct State {
    nodes: Vec<Node>,
    live: BTreeMap<PathBuf, Inode>,
    durable: BTreeMap<PathBuf, Inode>,
    pending: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    calls: Vec<(Call, PathBuf)>,
    /// The thread that made each write.
    writers: Vec<ThreadId>,
    crash_after: Option<usize>,
    is_frozen: bool,
    faults: Vec<(Call, usize, i32)>,
    changes: u64,
    bytes_read: u64,
    is_sync_paused: bool,
    /// Number of paused syncs that may end.
    permits: usize,
    syncs_waiting: usize,
    is_write_paused: bool,
    writes_waiting: usize,
    /// Maximum bytes of all files together. `None`: no bound.
    capacity: Option<u64>,
    is_copy_on_write: bool,
    /// File that is deleted when it is opened the next time.
    vanishing: Option<PathBuf>,
}

/// The simulated disk and system. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct Sim(Arc<(Mutex<State>, Condvar)>);

impl Sim {
    pub(crate) fn new() -> Self {
        let root = BTreeMap::from([(PathBuf::from("/"), 0)]);
        let state =
            State { nodes: vec![Node::Folder], live: root.clone(), durable: root, ..State::default() };
        Self::with(state)
    }

    fn with(state: State) -> Self {
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }

    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap()
    }

    /// Lets `count` further operations succeed. All later operations fail, as if the system had ended.
    pub(crate) fn crash_after(&self, count: usize) {
        let mut state = self.state();
        state.crash_after = Some(state.calls.len() + count);
    }

    /// Makes the `nth` call of this kind from now on fail, counted from 0.
    pub(crate) fn fail(&self, call: Call, nth: usize, errno: i32) {
        let mut state = self.state();
        let before = state.calls.iter().filter(|(one, _)| *one == call).count();
        state.faults.push((call, before + nth, errno));
    }

    /// Returns the operations so far, with their paths.
    pub(crate) fn calls(&self) -> Vec<(Call, PathBuf)> {
        self.state().calls.clone()
    }

    /// Returns the number of writes that this thread has begun.
    pub(crate) fn writes_of(&self, thread: ThreadId) -> usize {
        self.state().writers.iter().filter(|one| **one == thread).count()
    }

    pub(crate) fn count(&self, call: Call) -> usize {
        self.state().calls.iter().filter(|(one, _)| *one == call).count()
    }

    /// Holds the syncs of files: from now on, a sync begins and does not end.
    pub(crate) fn pause_syncs(&self) {
        self.state().is_sync_paused = true;
    }

    pub(crate) fn release_syncs(&self) {
        self.state().is_sync_paused = false;
        self.0.1.notify_all();
    }

    /// Holds writes: from now on, a write begins and does not end.
    pub(crate) fn pause_writes(&self) {
        self.state().is_write_paused = true;
    }

    pub(crate) fn release_writes(&self) {
        self.state().is_write_paused = false;
        self.0.1.notify_all();
    }

    /// Waits until `is_so` returns true.
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "it never came to be that {what}");
            thread::yield_now();
        }
    }

    /// Lets one sync end: the sync that is held, or the next one.
    pub(crate) fn release_one_sync(&self) {
        self.state().permits += 1;
        self.0.1.notify_all();
    }

    /// Bounds the bytes of all files together. A write beyond the bound fails, as on a full disk.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// Sets whether the disk overwrites bytes in place. A new disk does.
    pub(crate) fn set_in_place(&self, is_in_place: bool) {
        self.state().is_copy_on_write = !is_in_place;
    }

    /// Deletes a file at the next call that opens it. At that time the file is already listed.
    pub(crate) fn delete_before_open(&self, path: &Path) {
        self.state().vanishing = Some(path.to_owned());
    }

    /// Returns the bytes read from files so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    /// Waits until a sync has begun and is held.
    pub(crate) fn wait_for_paused_sync(&self) {
        let state = self.state();
        let (state, _) =
            self.0.1.wait_timeout_while(state, PATIENCE, |state| state.syncs_waiting == 0).unwrap();
        assert!(state.syncs_waiting > 0, "no sync began");
    }

    /// Waits until a write has begun and is held.
    pub(crate) fn wait_for_paused_write(&self) {
        self.wait_until("a write is held", || self.state().writes_waiting > 0);
    }

    /// Returns the disk after a power cut. With seed 0 all unsynced changes are lost.
    pub(crate) fn power_cut(&self, seed: u64) -> Self {
        let state = self.state();
        let mut random = Random(seed);
        let mut names = state.durable.clone();
        for change in &state.pending {
            if seed != 0 && random.below(2) == 0 {
                change.apply(&mut names);
            }
        }
        let nodes = state.nodes.iter().map(|node| survivor(node, seed, &mut random)).collect();
        let live = reachable(&names);
        Self::with(State { nodes, durable: live.clone(), live, ..State::default() })
    }

    /// Returns every disk that a power cut may leave. Each unsynced change is kept or lost, and a write may
    /// also be torn in its middle. Each unsynced name exists or not. Names of locks are lost.
    pub(crate) fn every_power_cut(&self) -> Vec<Self> {
        let state = self.state();
        let nodes: Vec<Vec<Node>> = state.nodes.iter().map(every_survivor).collect();
        let is_segment =
            |change: &&NameChange| !matches!(change, NameChange::Link(path, _) if path.ends_with("lock"));
        let names: Vec<_> = state.pending.iter().filter(is_segment).collect();
        let mut disks = Vec::new();
        for kept in 0..1_u32 << names.len() {
            let mut found = state.durable.clone();
            let is_kept = |(index, _): &(usize, _)| kept >> index & 1 == 1;
            names.iter().enumerate().filter(is_kept).for_each(|(_, change)| change.apply(&mut found));
            let live = reachable(&found);
            for nodes in every_choice(&nodes) {
                disks.push(Self::with(State {
                    nodes,
                    durable: live.clone(),
                    live: live.clone(),
                    ..State::default()
                }));
            }
        }
        disks
    }

    /// Returns the same system after the end of the process. The new system has no locks and no faults, and
    /// no write is lost.
    pub(crate) fn restart(&self) -> Self {
        let state = self.state().clone();
        Self::with(State {
            nodes: state.nodes,
            live: state.live,
            durable: state.durable,
            pending: state.pending,
            changes: state.changes,
            ..State::default()
        })
    }

    /// Returns all files except locks, with their bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let files = state.live.iter().filter_map(|(path, inode)| match &state.nodes[*inode] {
            Node::File(content) if !path.ends_with("lock") => Some((path.clone(), content.live.clone())),
            _ => None,
        });
        files.collect()
    }

    /// Changes the bytes of a file on the disk and in memory.
    pub(crate) fn edit(&self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let inode = state.live[path];
        let Node::File(content) = &mut state.nodes[inode] else { panic!("{} is a folder", path.display()) };
        edit(&mut content.live);
        content.durable.clone_from(&content.live);
        content.pending.clear();
    }

    /// Adds a file to the disk, with its name and bytes synced.
    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) {
        self.create_folder(path.parent().unwrap()).unwrap();
        drop(self.create(path).unwrap());
        self.edit(path, |content| content.extend_from_slice(bytes));
        let mut state = self.state();
        state.durable = state.live.clone();
        state.pending.clear();
    }

    /// Counts an operation. Returns an error if the system has ended, or if a fault is set for the call.
    fn begin(&self, call: Call, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.crash_after.is_some_and(|count| state.calls.len() >= count) {
            state.is_frozen = true;
            self.0.1.notify_all();
        }
        state.check_alive()?;
        let nth = state.calls.iter().filter(|(one, _)| *one == call).count();
        state.calls.push((call, path.to_owned()));
        match state.faults.iter().find(|fault| (fault.0, fault.1) == (call, nth)) {
            Some(fault) if !matches!(call, Call::Write | Call::Sync) => {
                Err(io::Error::from_raw_os_error(fault.2))
            }
            _ => Ok(state),
        }
    }

    fn file(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.state();
        state.check_alive()?;
        if state.vanishing.take_if(|vanishing| vanishing == path).is_some() {
            state.change_name(NameChange::Unlink(path.to_owned()));
        }
        let inode = *state.live.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { sim: self.clone(), inode, path: path.to_owned() }))
    }
}

/// Returns the names whose parent folders all exist.
fn reachable(names: &BTreeMap<PathBuf, Inode>) -> BTreeMap<PathBuf, Inode> {
    let is_reachable = |path: &Path| path.ancestors().all(|above| names.contains_key(above));
    let found = names.iter().filter(|(path, _)| is_reachable(path));
    found.map(|(path, inode)| (path.clone(), *inode)).collect()
}

/// Returns all states in which a power cut may leave a file. Each content occurs once.
fn every_survivor(node: &Node) -> Vec<Node> {
    let Node::File(content) = node else { return vec![Node::Folder] };
    let mut found = vec![content.durable.clone()];
    for (_, change) in &content.pending {
        for bytes in std::mem::take(&mut found) {
            for fate in change.every_fate() {
                let mut bytes = bytes.clone();
                fate.iter().for_each(|change| change.apply(&mut bytes));
                found.push(bytes);
            }
        }
    }
    found.sort();
    found.dedup();
    let file =
        |bytes: Vec<u8>| Node::File(Content { live: bytes.clone(), durable: bytes, pending: Vec::new() });
    found.into_iter().map(file).collect()
}

/// Returns every combination that has one option of each list.
fn every_choice(options: &[Vec<Node>]) -> Vec<Vec<Node>> {
    options.iter().fold(vec![Vec::new()], |begun, options| {
        let with = |one: &Node| {
            begun
                .iter()
                .map(|begun| [begun.as_slice(), std::slice::from_ref(one)].concat())
                .collect::<Vec<_>>()
        };
        options.iter().flat_map(with).collect()
    })
}

fn survivor(node: &Node, seed: u64, random: &mut Random) -> Node {
    let Node::File(content) = node else { return Node::Folder };
    let mut bytes = content.durable.clone();
    let mut changes: Vec<_> = content.pending.iter().map(|(_, change)| change.clone()).collect();
    if seed == 0 {
        changes.clear();
    }
    if random.below(4) == 0 {
        let places = changes.len();
        for place in 0..places {
            changes.swap(place, random.below(places));
        }
    }
    for change in changes {
        if let Some(change) = change.survivor(random) {
            change.apply(&mut bytes);
        }
    }
    Node::File(Content { live: bytes.clone(), durable: bytes, pending: Vec::new() })
}

impl State {
    fn check_alive(&self) -> io::Result<()> {
        if self.is_frozen { Err(io::Error::other("the system is gone")) } else { Ok(()) }
    }

    /// Returns the bytes of all files that have a name.
    fn bytes(&self) -> u64 {
        let sizes = self.live.values().map(|inode| match &self.nodes[*inode] {
            Node::File(content) => content.live.len() as u64,
            Node::Folder => 0,
        });
        sizes.sum()
    }

    /// Returns the fault of the last counted call, if any.
    fn fault(&self, call: Call) -> Option<io::Error> {
        let nth = self.calls.iter().filter(|(one, _)| *one == call).count() - 1;
        let fault = self.faults.iter().find(|fault| (fault.0, fault.1) == (call, nth))?;
        Some(io::Error::from_raw_os_error(fault.2))
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    fn add(&mut self, path: &Path, node: Node) {
        self.nodes.push(node);
        self.change_name(NameChange::Link(path.to_owned(), self.nodes.len() - 1));
    }

    fn content(&mut self, inode: Inode) -> &mut Content {
        match &mut self.nodes[inode] {
            Node::File(content) => content,
            Node::Folder => panic!("a folder is no file"),
        }
    }
}

impl Storage for Sim {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::CreateFolder, path)?;
        let mut missing: Vec<_> =
            path.ancestors().take_while(|above| !state.live.contains_key(*above)).collect();
        while let Some(folder) = missing.pop() {
            state.add(folder, Node::Folder);
        }
        Ok(())
    }

    fn is_folder(&self, path: &Path) -> bool {
        let state = self.state();
        state.live.get(path).is_some_and(|inode| matches!(state.nodes[*inode], Node::Folder))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_alive()?;
        if !state.live.contains_key(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.live.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.begin(Call::Create, path)?;
        if state.live.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !state.live.contains_key(path.parent().unwrap()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.add(path, Node::File(Content::default()));
        drop(state);
        self.file(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::Rename, from)?;
        assert_eq!(from.parent(), to.parent(), "renamed within its folder");
        let inode = *state.live.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::Remove, path)?;
        if !state.live.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_name(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::RemoveFolder, path)?;
        if state.live.keys().any(|name| name.parent() == Some(path)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change_name(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin(Call::SyncFolder, path)?;
        if !state.live.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (here, elsewhere) =
            std::mem::take(&mut state.pending).into_iter().partition(|change| change.folder() == path);
        state.pending = elsewhere;
        let here: Vec<NameChange> = here;
        for change in here {
            change.apply(&mut state.durable);
        }
        Ok(())
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        let mut state = self.begin(Call::Lock, path)?;
        if !state.live.contains_key(path) {
            state.add(path, Node::File(Content::default()));
        }
        if !state.locks.insert(path.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimLock { sim: self.clone(), path: path.to_owned() })))
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        let state = self.state();
        let total_bytes = state.capacity.unwrap_or(u64::MAX);
        let free_bytes = total_bytes.saturating_sub(state.bytes());
        Ok(Space { total_bytes, free_bytes, free_inodes: u64::MAX })
    }

    fn writes_in_place(&self, _: &Path) -> bool {
        !self.state().is_copy_on_write
    }
}

struct SimLock {
    sim: Sim,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.sim.state().locks.remove(&self.path);
    }
}

struct SimFile {
    sim: Sim,
    inode: Inode,
    path: PathBuf,
}

impl SimFile {
    fn change(&self, state: &mut State, change: Change) {
        state.changes += 1;
        let number = state.changes;
        let content = state.content(self.inode);
        change.apply(&mut content.live);
        content.pending.push((number, change));
    }
}

impl StorageFile for SimFile {
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut state = self.sim.begin(Call::Write, &self.path)?;
        state.writers.push(thread::current().id());
        let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let grows = (offset + bytes.len() as u64).saturating_sub(state.content(self.inode).live.len() as u64);
        let is_full = state.capacity.is_some_and(|most| state.bytes() + grows > most);
        let no_space = || io::Error::from_raw_os_error(ENOSPC);
        let fault = state.fault(Call::Write).or_else(|| is_full.then(no_space));
        state.writes_waiting += 1;
        let held = |state: &mut State| state.is_write_paused && !state.is_frozen;
        let mut state = self.sim.0.1.wait_while(state, held).unwrap();
        state.writes_waiting -= 1;
        state.check_alive()?;
        if fault.is_some() {
            bytes.truncate(bytes.len() / 2);
        }
        self.change(&mut state, Change::Write(offset as usize, bytes));
        fault.map_or(Ok(()), Err)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.sim.state();
        state.check_alive()?;
        let bytes = state.content(self.inode).live.get(offset as usize..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        state.bytes_read += count as u64;
        Ok(count)
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.sim.state();
        state.check_alive()?;
        Ok(state.content(self.inode).live.len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut state = self.sim.begin(Call::Truncate, &self.path)?;
        self.change(&mut state, Change::Truncate(size as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.sim.begin(Call::Sync, &self.path)?;
        let fault = state.fault(Call::Sync);
        let covered = state.changes;
        state.syncs_waiting += 1;
        self.sim.0.1.notify_all();
        let held = |state: &mut State| state.is_sync_paused && state.permits == 0 && !state.is_frozen;
        let mut state = self.sim.0.1.wait_while(state, held).unwrap();
        state.syncs_waiting -= 1;
        state.permits = state.permits.saturating_sub(1);
        state.check_alive()?;
        let content = state.content(self.inode);
        let (done, later) =
            std::mem::take(&mut content.pending).into_iter().partition(|(number, _)| *number <= covered);
        content.pending = later;
        let done: Vec<(u64, Change)> = done;
        match fault {
            Some(error) => Err(error),
            None => {
                for (_, change) in done {
                    change.apply(&mut content.durable);
                }
                Ok(())
            }
        }
    }

    fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.sim.state();
        state.check_alive()?;
        let content = state.content(self.inode);
        let mut bytes = content.durable.clone();
        for (_, change) in &content.pending {
            change.apply(&mut bytes);
        }
        content.live = bytes;
        Ok(())
    }
}

const SECTOR_BYTES: usize = 512;
