//! Puts segments on the volume that is being filled, or on the next one, and closes volumes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use tollgate_log::{DiskStorage, Storage};

use super::super::disk;
use super::super::error::VolumeError;
use super::super::opened::OpenVolume;
use super::super::state::{Listed, SEGMENTS_MAX, Transition, VolumeSide, VolumeState};
use super::super::status::VolumeFolder;
use super::{Filler, Filling};
use crate::identity::SegmentIdentity;
use crate::store::{Created, Store, StoreError};

/// Space that stays free on a volume, for state files and answers.
const SPARE_BYTES: u64 = 1 << 20;

/// Result of one try to store a segment.
enum Placed {
    Done(Created),
    /// The volume is closed or abandoned. The next one may take the segment.
    NextVolume,
}

impl Filler {
    /// Closes the volume that is being filled.
    pub(in crate::volume) fn close(&mut self) -> Result<(), VolumeError> {
        let Some(filling) = &self.filling else { return Ok(()) };
        let folder = filling.folder.clone();
        let mut volume = OpenVolume::open(&folder, self.options.same_device, VolumeSide::Web)?;
        if volume.file.state == VolumeState::Filling && volume.file.key() == filling.file.key() {
            self.close_opened(&mut volume)?;
        }
        // A command may have closed it.
        drop(volume);
        self.look_at(&folder, &mut BTreeSet::new()).map(drop)
    }

    fn close_opened(&mut self, volume: &mut OpenVolume) -> Result<(), VolumeError> {
        self.carry(volume)?;
        volume.sync()?;
        let full = volume.after(Transition::Close, "close")?;
        // The list comes first. A volume that is full may be moved at once, and this machine has to know it.
        self.home.write_list(&full)?;
        if let Err(error) = volume.write(full.clone()) {
            // Its state is unknown. Its segments are sent again, which is harmless if they arrive twice.
            drop(self.home.remove_list(full.id));
            return Err(error);
        }
        self.away.insert(full.id, full);
        self.filling = None;
        Ok(())
    }

    /// Puts the texts for the host that loads on the volume. They are listed before they are written.
    fn carry(&self, volume: &mut OpenVolume) -> Result<(), VolumeError> {
        let carried = self.home.carried()?;
        if carried.is_empty() {
            return Ok(());
        }
        let mut next = volume.file.clone();
        next.listed.extend(carried.keys().map(|name| (name.clone(), Listed::Text)));
        volume.write(next)?;
        for (name, text) in &carried {
            volume.make_folders(name)?;
            let put = volume.store(&self.pacer).put_text(name, text);
            put.map_err(|error| volume.named(error))?;
        }
        Ok(())
    }

    /// Stores a segment on the volume that is being filled, or on the next one.
    ///
    /// `over`: the volume may have a file of this name.
    pub(in crate::volume) fn put(
        &mut self,
        name: &str,
        file: &Path,
        identity: &SegmentIdentity,
        over: bool,
    ) -> Result<Created, StoreError> {
        let bytes = fs::metadata(file).map_err(StoreError::file("look at", file))?.len();
        let listed = Listed::Segment { bytes, identity: identity.clone() };
        // Each try closes a volume, abandons one, or begins one.
        for _ in 0..=self.options.folders.len() * 2 {
            self.begin_filling(name)?;
            if let Placed::Done(created) = self.put_once(name, file, &listed, over)? {
                if self.held(name).is_some() {
                    self.again.remove(name);
                }
                return Ok(created);
            }
        }
        Err(self.no_volume().of_store("store", name))
    }

    fn no_volume(&self) -> VolumeError {
        let status = self.watch.lock();
        let reason = |(folder, shown): (&PathBuf, &VolumeFolder)| match (&shown.fault, &shown.volume) {
            (Some(fault), _) => fault.clone(),
            (None, Some(volume)) => format!("{} is {}", folder.display(), volume.state),
            (None, None) => format!("{} was not looked at", folder.display()),
        };
        VolumeError::NoVolume { reasons: status.folders.iter().map(reason).collect::<Vec<_>>().join("; ") }
    }

    /// Begins to fill the next empty volume, if none is being filled.
    fn begin_filling(&mut self, name: &str) -> Result<(), StoreError> {
        if self.filling.is_some() {
            return Ok(());
        }
        self.look_at_folders();
        let count = self.options.folders.len();
        let begin = self.next_folder;
        for at in (0..count).map(|step| (begin + step) % count) {
            if self.filling.is_some() {
                return Ok(());
            }
            let folder = self.options.folders[at].clone();
            if self.is_hook_running(&folder) || self.broken.contains_key(&folder) {
                continue;
            }
            match self.begin(&folder) {
                Ok(true) => self.next_folder = at + 1,
                Ok(false) => {}
                Err(error) => self.note_unusable(&folder, &error),
            }
        }
        if self.filling.is_some() { Ok(()) } else { Err(self.no_volume().of_store("store", name)) }
    }

    fn begin(&mut self, folder: &Path) -> Result<bool, VolumeError> {
        let mut volume = OpenVolume::open(folder, self.options.same_device, VolumeSide::Web)?;
        if volume.file.state != VolumeState::Empty || self.away.contains_key(&volume.file.id) {
            return Ok(false);
        }
        let mut next = volume.after(Transition::Fill, "fill")?;
        next.node = Some(self.options.node.clone());
        volume.write(next)?;
        self.filling = Some(Filling { folder: folder.to_owned(), file: volume.file.clone() });
        self.show_file(folder, &volume.file);
        Ok(true)
    }

    fn put_once(
        &mut self,
        name: &str,
        file: &Path,
        listed: &Listed,
        over: bool,
    ) -> Result<Placed, StoreError> {
        let Some(filling) = &self.filling else { return Ok(Placed::NextVolume) };
        let (folder, key) = (filling.folder.clone(), filling.file.key());
        let mut volume = match OpenVolume::open(&folder, self.options.same_device, VolumeSide::Web) {
            Ok(volume) if volume.file.key() == key && volume.file.state == VolumeState::Filling => volume,
            // It was closed by a command, pulled out, or replaced.
            opened => {
                drop(opened);
                self.look_at_folders();
                return Ok(Placed::NextVolume);
            }
        };
        if !over && let Some(placed) = self.already_there(&volume, name, listed) {
            return Ok(placed);
        }
        if !self.has_space(&volume, listed) {
            return self.leave_full(volume, name, file);
        }
        match self.copy(&mut volume, name, file, listed, over) {
            Ok(created) => {
                if let Some(filling) = &mut self.filling {
                    filling.file = volume.file.clone();
                }
                self.show_file(&folder, &volume.file);
                Ok(Placed::Done(created))
            }
            Err(error) => self.failed(volume, name, file, error),
        }
    }

    /// Returns the result if the volume has a file of this name that is not listed as another one.
    fn already_there(&self, volume: &OpenVolume, name: &str, listed: &Listed) -> Option<Placed> {
        if volume.file.listed.get(name) == Some(listed) {
            return Some(Placed::Done(Created::Exists));
        }
        let found = volume.store(&self.pacer).head(name).ok()??;
        let Listed::Segment { identity, .. } = listed else { return None };
        // A whole copy that is not listed is listed now. Any other file is a stranger's, and is not listed.
        (found.identity.as_ref() != Some(identity)).then_some(Placed::Done(Created::Exists))
    }

    fn has_space(&self, volume: &OpenVolume, listed: &Listed) -> bool {
        let Listed::Segment { bytes, .. } = listed else { return true };
        let (count, used) = (volume.file.segments().count(), volume.file.bytes());
        if count >= SEGMENTS_MAX || count > 0 && used.saturating_add(*bytes) > self.options.bytes_max {
            return false;
        }
        // Without an answer of the file system, the copy finds out.
        DiskStorage.space(volume.mounted.path()).map_or(true, |space| {
            // The state file is written beside its old version.
            let state_bytes = volume.file.to_text().len() as u64 * 2;
            space.free_bytes >= bytes.saturating_add(state_bytes).saturating_add(SPARE_BYTES)
        })
    }

    /// Closes a volume that has no space for a segment. An empty one without enough space is not used.
    fn leave_full(&mut self, mut volume: OpenVolume, name: &str, file: &Path) -> Result<Placed, StoreError> {
        if volume.file.segments().next().is_none() {
            let error = VolumeError::file("store", &volume.mounted.folder().join(name))(io::Error::from(
                Errno::NOSPC,
            ));
            drop(volume);
            self.abandon(&error);
            return Ok(Placed::NextVolume);
        }
        let folder = volume.mounted.folder().to_owned();
        match self.close_opened(&mut volume) {
            Ok(()) => {
                let key = volume.file.key();
                self.show_file(&folder, &volume.file);
                drop(volume);
                self.run_hook(&folder, key);
                Ok(Placed::NextVolume)
            }
            Err(error) => self.failed(volume, name, file, error),
        }
    }

    /// Lists a segment, and copies it. A crash between the two leaves a list without a file, which the next
    /// run finds. The other order would leave a file that is never deleted.
    fn copy(
        &self,
        volume: &mut OpenVolume,
        name: &str,
        file: &Path,
        listed: &Listed,
        over: bool,
    ) -> Result<Created, VolumeError> {
        let Listed::Segment { identity, .. } = listed else { return Ok(Created::Exists) };
        let mut next = volume.file.clone();
        next.listed.insert(name.to_owned(), listed.clone());
        if next != volume.file {
            volume.write(next)?;
        }
        volume.make_folders(name)?;
        let store = volume.store(&self.pacer);
        let created = if over {
            store.replace(name, file, identity).map(|()| Created::Stored)
        } else {
            store.create(name, file, identity)
        };
        disk::step().map_err(VolumeError::file("write", file))?;
        match created {
            // The file was there whole, and only its entry was missing.
            Ok(_) => Ok(Created::Stored),
            Err(error) => Err(volume.named(error)),
        }
    }

    /// Decides whether a failed copy is a fault of the volume.
    fn failed(
        &mut self,
        mut volume: OpenVolume,
        name: &str,
        file: &Path,
        error: VolumeError,
    ) -> Result<Placed, StoreError> {
        let readable = || fs::File::open(file).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
        if !error.is_about(volume.mounted.folder()) || readable().is_err() {
            // The fault is on this machine. An entry without a file would count as a copy.
            if let Err(error) = self.unlist(&mut volume, name) {
                drop(volume);
                self.abandon(&error);
            }
            return Err(error.of_store("store", name));
        }
        let is_full = error.os_error() == Some(Errno::NOSPC.raw_os_error());
        if is_full && self.filling.is_some() && self.unlist(&mut volume, name).is_ok() {
            let is_any = volume.file.segments().next().is_some();
            if is_any && self.close_opened(&mut volume).is_ok() {
                return Ok(Placed::NextVolume);
            }
        }
        drop(volume);
        self.abandon(&error);
        Ok(Placed::NextVolume)
    }

    /// Takes a segment off the list that this process just put there.
    fn unlist(&mut self, volume: &mut OpenVolume, name: &str) -> Result<(), VolumeError> {
        if self.filling.as_ref().is_some_and(|filling| filling.file.listed.contains_key(name)) {
            return Ok(());
        }
        let mut next = volume.file.clone();
        next.listed.remove(name);
        volume.write(next)?;
        if let Some(filling) = &mut self.filling {
            filling.file = volume.file.clone();
        }
        Ok(())
    }
}
