//! A mounted volume with its state file, for one call.

use std::path::Path;
use std::sync::Arc;

use super::disk;
use super::error::VolumeError;
use super::mounted::Mounted;
use super::state::{STATE_BYTES_MAX, STATE_FILE, Transition, VolumeFile, VolumeSide};
use crate::answer::now_ms;
use crate::folder::FolderStore;
use crate::pace::Pacer;
use crate::store::StoreError;

/// A mounted volume with its state file. It is locked until it is dropped.
pub(super) struct OpenVolume {
    pub(super) mounted: Mounted,
    pub(super) file: VolumeFile,
    side: VolumeSide,
}

impl OpenVolume {
    /// Opens a volume, on the machine that fills it or on the host that loads it.
    ///
    /// # Errors
    /// The folder is not mounted or has no valid state file.
    pub(super) fn open(folder: &Path, same_device: bool, side: VolumeSide) -> Result<Self, VolumeError> {
        let mounted = Mounted::open(folder, same_device)?;
        let text = disk::read_text(&mounted.path().join(STATE_FILE), STATE_BYTES_MAX);
        let path = folder.join(STATE_FILE);
        let text = text.map_err(VolumeError::file("read", &path))?.ok_or(VolumeError::NotMounted {
            folder: folder.to_owned(),
            reason: "it has no file tollgate-volume (a new disk needs `tollgate ship init`)",
        })?;
        let file = VolumeFile::parse(&text).map_err(|reason| VolumeError::Damaged { file: path, reason })?;
        Ok(Self { mounted, file, side })
    }

    /// Makes a transition durable.
    ///
    /// # Errors
    /// The state does not allow it, or the state file cannot be written. The volume then has the old state or
    /// the new one.
    pub(super) fn apply(&mut self, transition: Transition, action: &'static str) -> Result<(), VolumeError> {
        let next = self.after(transition, action)?;
        self.write(next)
    }

    /// Returns the state file after a transition.
    pub(super) fn after(
        &self,
        transition: Transition,
        action: &'static str,
    ) -> Result<VolumeFile, VolumeError> {
        self.file.after(self.side, transition, now_ms()).ok_or_else(|| VolumeError::State {
            folder: self.mounted.folder().to_owned(),
            found: self.file.state,
            action,
        })
    }

    /// Replaces the state file.
    pub(super) fn write(&mut self, next: VolumeFile) -> Result<(), VolumeError> {
        disk::write_text(self.mounted.path(), STATE_FILE, &next.to_text())
            .map_err(VolumeError::file("write", &self.mounted.folder().join(STATE_FILE)))?;
        self.file = next;
        Ok(())
    }

    /// Returns the volume as a store of objects.
    pub(super) fn store(&self, pacer: &Arc<Pacer>) -> FolderStore {
        FolderStore::new(self.mounted.path(), pacer.clone())
    }

    /// Makes the folders of an object. The store would sync the parent of the root too, which is no part of
    /// the volume.
    pub(super) fn make_folders(&self, name: &str) -> Result<(), VolumeError> {
        let (root, failed) = (self.mounted.path(), self.mounted.folder().join(name));
        disk::make_folders(root, &root.join(name)).map_err(VolumeError::file("make the folders of", &failed))
    }

    /// Syncs all that was written to the volume.
    pub(super) fn sync(&self) -> Result<(), VolumeError> {
        let failed = VolumeError::file("sync", self.mounted.folder());
        self.mounted.sync().and_then(|()| disk::step()).map_err(failed)
    }

    /// Puts the folder of the volume into the error of a file.
    pub(super) fn named(&self, error: StoreError) -> VolumeError {
        VolumeError::Store(match error {
            StoreError::File { action, file, source } => {
                StoreError::File { action, file: self.mounted.named(&file), source }
            }
            StoreError::NotMounted { reason, .. } => {
                StoreError::NotMounted { folder: self.mounted.folder().to_owned(), reason }
            }
            error => error,
        })
    }
}
