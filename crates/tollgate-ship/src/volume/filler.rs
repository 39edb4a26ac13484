//! The volumes of a web machine: which one is being filled, which ones are away, and what has to be sent
//! again.
//!
//! A volume that is being filled counts only while it is mounted. A closed volume counts until its answers
//! are here. So a segment is held by a volume, or it is sent again from the log folder:
//!
//! | what happens to a volume | what follows |
//! | --- | --- |
//! | it is pulled out or fails while it is filled | its segments go to the next volume; it goes on when it is back |
//! | its disk is full | it is closed early |
//! | it is `full` and does not come back | `forget` sends its segments again, or a loader asks for each |
//! | it comes back `done` | loaded segments are settled, all others are sent again, and it is emptied |
//! | it comes back `full`, and a report is here | as `done` |
//! | a crash at any step | the state file is the old one or the new one, and the next look goes on |

mod put;
mod take_back;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tollgate_log::{LogId, Sequence, join_chain};

use super::error::VolumeError;
use super::home::Home;
use super::loaded::Loaded;
use super::opened::OpenVolume;
use super::options::VolumeOptions;
use super::state::{Transition, VolumeFile, VolumeId, VolumeSide, VolumeState};
use super::status::{VolumeFacts, VolumeFolder, VolumeWatch};
use crate::answer::now_ms;
use crate::identity::SegmentIdentity;
use crate::name::ObjectName;
use crate::pace::Pacer;
use crate::store::{ObjectHead, Store, StoreError};

/// The volume that is being filled.
struct Filling {
    folder: PathBuf,
    file: VolumeFile,
}

/// The volumes of a web machine.
pub(super) struct Filler {
    options: VolumeOptions,
    pacer: Arc<Pacer>,
    pub(super) home: Home,
    watch: VolumeWatch,
    filling: Option<Filling>,
    /// Closed volumes whose answers are not here yet.
    away: BTreeMap<VolumeId, VolumeFile>,
    /// Reports of volumes that are not cleaned yet.
    reports: BTreeMap<VolumeId, Loaded>,
    /// Segments that must be copied to a volume again, because neither a volume nor a sink has them.
    again: BTreeMap<String, SegmentIdentity>,
    /// Volumes that failed while they were mounted. They rest until they are unmounted, or this process ends.
    broken: BTreeMap<PathBuf, ((VolumeId, u64), String)>,
    hooks: BTreeMap<PathBuf, JoinHandle<()>>,
    /// Volumes for which the hook ran in this process.
    hooked: BTreeSet<(VolumeId, u64)>,
    /// Where the search for an empty volume begins, so that all volumes are used in turn.
    next_folder: usize,
    looked_at: Option<Instant>,
}

impl Filler {
    pub(super) fn new(
        options: VolumeOptions,
        pacer: Arc<Pacer>,
        watch: VolumeWatch,
    ) -> Result<Self, VolumeError> {
        let home = Home::open(&options.home, &options.logs, &options.sinks)?;
        let away = home.lists()?;
        Ok(Self {
            options,
            pacer,
            home,
            watch,
            filling: None,
            away,
            reports: BTreeMap::new(),
            again: BTreeMap::new(),
            broken: BTreeMap::new(),
            hooks: BTreeMap::new(),
            hooked: BTreeSet::new(),
            next_folder: 0,
            looked_at: None,
        })
    }

    /// Looks at all folders, if it is time: takes volumes back, closes by age, and sends again.
    pub(super) fn look(&mut self) {
        if self.looked_at.is_some_and(|at| at.elapsed() < self.options.look) {
            return;
        }
        self.look_now();
        self.looked_at = Some(Instant::now());
    }

    pub(super) fn look_now(&mut self) {
        if let Err(error) = self.take_reports() {
            self.note_home(&error);
        } else {
            self.watch.lock().home_fault = None;
        }
        self.look_at_folders();
        if self.is_old()
            && let Err(error) = self.close()
        {
            self.note_failed_close(&error);
        }
        self.send_again();
        let mut status = self.watch.lock();
        status.away = self.away.iter().map(|(id, file)| (*id, VolumeFacts::of(file))).collect();
        status.again_segments = self.again.len() as u64;
    }

    fn note_failed_close(&mut self, error: &VolumeError) {
        let is_about = |filling: &Filling| error.is_about(&filling.folder);
        if self.filling.as_ref().is_some_and(is_about) {
            self.abandon(error);
        } else {
            self.note_home(error);
        }
    }

    fn note_home(&self, error: &VolumeError) {
        let reason = join_chain(error);
        tracing::error!(reason, "the memory of volumes cannot be used");
        self.watch.lock().home_fault = Some(reason);
    }

    fn look_at_folders(&mut self) {
        let mut seen = BTreeSet::new();
        for folder in self.options.folders.clone() {
            if self.is_hook_running(&folder) {
                continue;
            }
            match self.look_at(&folder, &mut seen) {
                Ok(facts) => {
                    let fault = self.broken.get(&folder).map(|(_, reason)| reason.clone());
                    self.show(&folder, &VolumeFolder { volume: Some(facts), fault, is_absent: false });
                }
                Err(error) => self.note_unusable(&folder, &error),
            }
        }
    }

    fn note_unusable(&mut self, folder: &Path, error: &VolumeError) {
        let is_absent = matches!(error, VolumeError::NotMounted { .. });
        if is_absent {
            self.broken.remove(folder);
        }
        if self.filling.as_ref().is_some_and(|filling| filling.folder == folder) {
            self.abandon(error);
        }
        let volume = self.watch.lock().folders.get(folder).and_then(|shown| shown.volume.clone());
        self.show(folder, &VolumeFolder { volume, fault: Some(join_chain(error)), is_absent });
    }

    fn show(&self, folder: &Path, shown: &VolumeFolder) {
        let mut status = self.watch.lock();
        let known = status.folders.insert(folder.to_owned(), shown.clone()).unwrap_or_default();
        if known.fault != shown.fault {
            match &shown.fault {
                Some(reason) => tracing::warn!(reason, "a volume cannot be used"),
                None => tracing::info!(folder = %folder.display(), "a volume can be used again"),
            }
        }
        let state = |shown: &VolumeFolder| shown.volume.as_ref().map(|volume| volume.state);
        if let Some(found) = state(shown).filter(|found| state(&known) != Some(*found)) {
            tracing::info!(folder = %folder.display(), state = %found, "a volume has another state");
        }
    }

    /// Shows a volume that can be used.
    fn show_file(&self, folder: &Path, file: &VolumeFile) {
        let volume = Some(VolumeFacts::of(file));
        self.show(folder, &VolumeFolder { volume, fault: None, is_absent: false });
    }

    fn is_hook_running(&mut self, folder: &Path) -> bool {
        let Some(hook) = self.hooks.remove(folder) else { return false };
        if hook.is_finished() {
            drop(hook.join());
            return false;
        }
        self.hooks.insert(folder.to_owned(), hook);
        true
    }

    /// Looks at one folder, and does what its state needs.
    fn look_at(&mut self, folder: &Path, seen: &mut BTreeSet<VolumeId>) -> Result<VolumeFacts, VolumeError> {
        let mut volume = OpenVolume::open(folder, self.options.same_device, VolumeSide::Web)?;
        let (id, generation) = volume.file.key();
        if !seen.insert(id) {
            return Err(VolumeError::Twin { folder: folder.to_owned(), id });
        }
        if self.broken.get(folder).is_some_and(|(key, _)| *key != (id, generation)) {
            self.broken.remove(folder);
        }
        self.compare_with_filling(folder, &volume.file);
        if self.reports.get(&id).is_some_and(|report| report.generation < generation) {
            self.home.remove_report(id)?;
            self.reports.remove(&id);
        }
        if let Some(known) = self.away.get(&id).map(|file| file.generation) {
            if known > generation {
                let folder = folder.to_owned();
                return Err(VolumeError::OldCopy { folder, found: generation, known });
            }
            if known < generation {
                self.retire(id)?;
            }
        }
        let node = volume.file.node.clone();
        if let Some(node) = node.filter(|node| *node != self.options.node) {
            return Err(VolumeError::OtherNode { folder: folder.to_owned(), node });
        }
        match volume.file.state {
            VolumeState::Full | VolumeState::Loading if self.report(volume.file.key()).is_some() => {
                self.take_back(&mut volume)?;
            }
            VolumeState::Empty | VolumeState::Loading => {}
            VolumeState::Filling => self.look_at_filling(folder, &mut volume)?,
            VolumeState::Full => self.note_full(&volume.file)?,
            VolumeState::Done => self.take_back(&mut volume)?,
            VolumeState::Cleaning => self.finish_cleaning(&mut volume)?,
        }
        let facts = VolumeFacts::of(&volume.file);
        // The hook unmounts, so nothing of the volume may be open.
        drop(volume);
        if facts.state == VolumeState::Full {
            self.run_hook(folder, (id, generation));
        }
        Ok(facts)
    }

    /// Compares the volume in a folder with the volume that this process fills there.
    fn compare_with_filling(&mut self, folder: &Path, file: &VolumeFile) {
        let Some(filling) = self.filling.as_ref().filter(|filling| filling.folder == folder) else { return };
        match file.state {
            VolumeState::Filling if filling.file.key() == file.key() => {}
            // It was closed by a command.
            VolumeState::Full if filling.file.key() == file.key() => self.filling = None,
            _ => self.abandon(&VolumeError::NotMounted {
                folder: folder.to_owned(),
                reason: "another volume is mounted in its place",
            }),
        }
    }

    fn report(&self, (id, generation): (VolumeId, u64)) -> Option<&Loaded> {
        self.reports.get(&id).filter(|report| report.generation == generation)
    }

    /// Goes on with a volume that an earlier run filled, or that was pulled out.
    fn look_at_filling(&mut self, folder: &Path, volume: &mut OpenVolume) -> Result<(), VolumeError> {
        if self.away.contains_key(&volume.file.id) {
            // The list of this machine was written, and then a crash came.
            volume.sync()?;
            volume.apply(Transition::Close, "close")?;
            return self.note_full(&volume.file);
        }
        match &mut self.filling {
            Some(filling) if filling.file.key() == volume.file.key() => {
                folder.clone_into(&mut filling.folder);
                return Ok(());
            }
            // Its turn comes when the other volume is closed.
            Some(_) => return Ok(()),
            None if self.broken.contains_key(folder) => return Ok(()),
            None => {}
        }
        self.drop_incomplete(volume)?;
        for (name, _, _) in volume.file.segments() {
            self.again.remove(name);
        }
        self.filling = Some(Filling { folder: folder.to_owned(), file: volume.file.clone() });
        Ok(())
    }

    /// Takes segments off the list whose files are missing or are not whole.
    fn drop_incomplete(&self, volume: &mut OpenVolume) -> Result<(), VolumeError> {
        let store = volume.store(&self.pacer);
        let mut next = volume.file.clone();
        for (name, _, identity) in volume.file.segments() {
            let found = store.head(name).map_err(|error| volume.named(error))?;
            if found.as_ref().is_some_and(|found| found.identity.as_ref() == Some(identity)) {
                continue;
            }
            if found.is_some() {
                store.remove(name).map_err(|error| volume.named(error))?;
            }
            next.listed.remove(name);
        }
        if next == volume.file { Ok(()) } else { volume.write(next) }
    }

    /// Notes a closed volume: it was closed by a command, or the list of this machine is lost.
    fn note_full(&mut self, file: &VolumeFile) -> Result<(), VolumeError> {
        if !self.away.contains_key(&file.id) {
            self.home.write_list(file)?;
            self.away.insert(file.id, file.clone());
        }
        Ok(())
    }

    /// Runs the hook of a full volume, once in this process.
    fn run_hook(&mut self, folder: &Path, (id, generation): (VolumeId, u64)) {
        let Some(hook) = self.options.on_full.clone() else { return };
        if !self.hooked.insert((id, generation)) {
            return;
        }
        let (watch, place) = (self.watch.clone(), folder.to_owned());
        let run = move || {
            let result = hook.run(id, generation, &place);
            let fault = result.err().map(|error| join_chain(&error));
            if let Some(reason) = &fault {
                tracing::error!(folder = %place.display(), reason, "the hook of a full volume failed");
            }
            watch.lock().hook_fault = fault;
        };
        match thread::Builder::new().name("volume-hook".to_owned()).spawn(run) {
            Ok(hook) => drop(self.hooks.insert(folder.to_owned(), hook)),
            Err(error) => self.watch.lock().hook_fault = Some(join_chain(&error)),
        }
    }

    /// Forgets a closed volume. Its segments that are not loaded are sent again.
    pub(super) fn retire(&mut self, id: VolumeId) -> Result<bool, VolumeError> {
        let Some(file) = self.away.get(&id).cloned() else { return Ok(false) };
        self.home.remove_list(id)?;
        self.away.remove(&id);
        self.settle(&file)?;
        Ok(true)
    }

    /// Notes the segments of a volume for another one, unless all sinks have them or a volume holds them.
    fn settle(&mut self, file: &VolumeFile) -> Result<(), VolumeError> {
        let mut loaded: BTreeMap<LogId, Sequence> = BTreeMap::new();
        for (name, _, identity) in file.segments() {
            let Some(ObjectName::Segment { log, .. }) = ObjectName::parse(name) else { continue };
            let last = match loaded.get(&log) {
                Some(last) => *last,
                None => *loaded.entry(log).or_insert(self.home.loaded(log)?),
            };
            let is_loaded = identity.end().is_some_and(|(end, _)| end <= last);
            if !is_loaded && self.held(name).is_none() {
                self.again.insert(name.clone(), identity.clone());
            }
        }
        Ok(())
    }

    /// Returns size and identity of a segment that some volume holds.
    pub(super) fn held(&self, name: &str) -> Option<(u64, &SegmentIdentity)> {
        let filling = self.filling.iter().map(|filling| &filling.file);
        filling.chain(self.away.values()).find_map(|file| file.segment(name))
    }

    /// Returns the names of all segments that some volume holds.
    pub(super) fn held_names(&self) -> BTreeSet<String> {
        let filling = self.filling.iter().map(|filling| &filling.file);
        let files = filling.chain(self.away.values());
        files.flat_map(|file| file.segments().map(|(name, _, _)| name.clone())).collect()
    }

    /// Returns size and identity of a local segment that all sinks have. It needs no copy on a volume.
    pub(super) fn loaded(&self, name: &str) -> Result<Option<(u64, SegmentIdentity)>, StoreError> {
        let Some(ObjectName::Segment { log, .. }) = ObjectName::parse(name) else { return Ok(None) };
        let last = self.home.loaded(log)?;
        if last == Sequence::default() {
            return Ok(None);
        }
        let local = self
            .home
            .local(name)
            .filter(|(_, _, identity)| identity.end().is_some_and(|(end, _)| end <= last));
        Ok(local.map(|(_, bytes, identity)| (bytes, identity)))
    }

    /// Writes a segment of a mounted volume to a new file.
    pub(super) fn fetch(&self, name: &str, file: &Path, bytes_max: u64) -> Result<Option<u64>, StoreError> {
        for folder in &self.options.folders {
            let Ok(volume) = OpenVolume::open(folder, self.options.same_device, VolumeSide::Web) else {
                continue;
            };
            if volume.file.segment(name).is_some() {
                let fetched = volume.store(&self.pacer).fetch(name, file, bytes_max);
                return fetched.map_err(|error| volume.named(error).of_store("read", name));
            }
        }
        Ok(None)
    }

    /// Returns a file of this name on the volume that is being filled. It may be a stranger's file.
    pub(super) fn found_on_filling(&self, name: &str) -> Option<ObjectHead> {
        let filling = self.filling.as_ref()?;
        let volume = OpenVolume::open(&filling.folder, self.options.same_device, VolumeSide::Web).ok()?;
        volume.store(&self.pacer).head(name).ok()?
    }

    /// Gives up the volume that is being filled. Its segments go to the next one.
    fn abandon(&mut self, error: &VolumeError) {
        let Some(filling) = self.filling.take() else { return };
        let reason = join_chain(error);
        tracing::error!(folder = %filling.folder.display(), volume = %filling.file.id, reason,
            "a volume is abandoned while it is filled: its segments go to the next one");
        self.watch.lock().abandoned_volumes += 1;
        if !matches!(error, VolumeError::NotMounted { .. }) {
            self.broken.insert(filling.folder, (filling.file.key(), reason));
        }
        if let Err(error) = self.settle(&filling.file) {
            self.note_home(&error);
            let all = filling.file.segments().map(|(name, _, identity)| (name.clone(), identity.clone()));
            self.again.extend(all);
        }
    }

    fn is_old(&self) -> bool {
        let (Some(filling), Some(age_max)) = (&self.filling, self.options.age_max) else { return false };
        let age_ms = u128::from(now_ms().saturating_sub(filling.file.at_ms));
        age_ms >= age_max.as_millis() && filling.file.segments().next().is_some()
    }

    /// Sends the segments again that no volume holds, from the log folder.
    fn send_again(&mut self) {
        for name in self.again.keys().cloned().collect::<Vec<_>>() {
            let Some(identity) = self.again.get(&name).cloned() else { continue };
            match self.home.local(&name) {
                Some((file, _, found)) if found == identity => {
                    // Without a volume it waits. The status names the reason.
                    if self.put(&name, &file, &identity, false).is_err() {
                        return;
                    }
                    if self.held(&name).is_none() {
                        // A stranger's file has the name. The next volume may take the segment.
                        continue;
                    }
                }
                _ => {
                    tracing::error!(name, "a segment of a lost volume is deleted on this machine");
                    self.watch.lock().gone_segments += 1;
                }
            }
            self.again.remove(&name);
        }
    }
}
