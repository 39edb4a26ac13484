//! The state of volumes, for reports and findings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::{VolumeFile, VolumeId, VolumeState};
use crate::name::NodeName;

/// A volume, as its state file shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Its id.
    pub id: VolumeId,
    /// How often it began to be filled anew.
    pub generation: u64,
    /// Its state.
    pub state: VolumeState,
    /// When it entered the state, in milliseconds since 1970.
    pub at_ms: u64,
    /// The machine that fills it.
    pub node: Option<NodeName>,
    /// The host that loads it.
    pub host: Option<NodeName>,
    /// Its segments.
    pub segments: u64,
    /// Bytes of these segments.
    pub bytes: u64,
}

impl VolumeFacts {
    pub(super) fn of(file: &VolumeFile) -> Self {
        Self {
            id: file.id,
            generation: file.generation,
            state: file.state,
            at_ms: file.at_ms,
            node: file.node.clone(),
            host: file.host.clone(),
            segments: file.segments().count() as u64,
            bytes: file.bytes(),
        }
    }
}

/// A folder of volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeFolder {
    /// The volume that was seen there last. `None`: none was.
    pub volume: Option<VolumeFacts>,
    /// Why the volume cannot be used. It names the folder. `None`: it can.
    pub fault: Option<String>,
    /// Whether the fault is a missing mount. A volume on its way is no fault of the machine.
    pub is_absent: bool,
}

/// State of the volumes of a machine. Its counts begin with the process.
#[derive(Debug, Clone, Default)]
pub struct VolumeStatus {
    /// The configured folders.
    pub folders: BTreeMap<PathBuf, VolumeFolder>,
    /// The closed volumes that have not come back yet.
    pub away: BTreeMap<VolumeId, VolumeFacts>,
    /// Segments that have to be copied again, because their volume is lost or was not loaded whole.
    pub again_segments: u64,
    /// Segments whose only known copy is lost: they were on a lost volume and are deleted on this machine.
    pub gone_segments: u64,
    /// Volumes that failed while they were being filled.
    pub abandoned_volumes: u64,
    /// Volumes that came back and were emptied.
    pub returned_volumes: u64,
    /// Logs whose answers are about other segments than this machine wrote. Their segments stay here.
    pub forked: Vec<String>,
    /// The last failure of a hook, until a hook works.
    pub hook_fault: Option<String>,
    /// Why the memory of this machine cannot be used.
    pub home_fault: Option<String>,
}

impl VolumeStatus {
    /// Returns whether some volume can take segments.
    pub fn is_any_usable(&self) -> bool {
        let is_usable = |folder: &VolumeFolder| {
            let state = folder.volume.as_ref().map(|volume| volume.state);
            folder.fault.is_none() && matches!(state, Some(VolumeState::Empty | VolumeState::Filling))
        };
        self.folders.values().any(is_usable)
    }

    /// Returns the folders that are not mounted, although no closed volume on its way explains it.
    ///
    /// A volume on its way explains the folder where it was seen last. After a start, that folder is not
    /// known. Then each volume on its way explains any one folder.
    pub fn missing_folders(&self) -> Vec<&Path> {
        let id = |folder: &VolumeFolder| folder.volume.as_ref().map(|volume| volume.id);
        let present: Vec<_> =
            self.folders.values().filter(|folder| !folder.is_absent).filter_map(id).collect();
        let mut on_the_way: Vec<_> = self.away.keys().filter(|id| !present.contains(id)).collect();
        let mut missing = Vec::new();
        for (path, folder) in self.folders.iter().filter(|(_, folder)| folder.is_absent) {
            match on_the_way.iter().position(|away| Some(**away) == id(folder)) {
                Some(place) => drop(on_the_way.swap_remove(place)),
                None => missing.push(path.as_path()),
            }
        }
        if missing.len() <= on_the_way.len() { Vec::new() } else { missing }
    }
}

/// Reads the state of volumes. It never waits for a disk.
#[derive(Debug, Clone, Default)]
pub struct VolumeWatch(Arc<Mutex<VolumeStatus>>);

impl VolumeWatch {
    /// Returns the state.
    pub fn status(&self) -> VolumeStatus {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, VolumeStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(id: u8) -> VolumeFacts {
        let file = VolumeFile::new(format!("{id:032x}").parse().unwrap(), 1);
        VolumeFacts::of(&file)
    }

    /// Returns the missing ones of the folders `/a`, `/b`, ... Each has the volume that was seen there, and
    /// whether it is absent now.
    fn missing(folders: &[(Option<u8>, bool)], away: &[u8]) -> Vec<String> {
        let path = |at: usize| PathBuf::from(format!("/{}", ["a", "b", "c"][at]));
        let folders = folders.iter().enumerate().map(|(at, (id, is_absent))| {
            (path(at), VolumeFolder { volume: id.map(volume), fault: None, is_absent: *is_absent })
        });
        let away = away.iter().map(|id| (volume(*id).id, volume(*id))).collect();
        let status = VolumeStatus { folders: folders.collect(), away, ..VolumeStatus::default() };
        status.missing_folders().iter().map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn a_folder_is_missing_unless_a_volume_on_its_way_explains_it() {
        assert_eq!(missing(&[(Some(1), false), (Some(2), false)], &[1]), [""; 0], "all are mounted");
        assert_eq!(missing(&[(Some(1), true), (Some(2), false)], &[1]), [""; 0], "it is on its way");
        assert_eq!(missing(&[(Some(1), true), (Some(2), false)], &[]), ["/a"], "it was not closed");
        assert_eq!(missing(&[(Some(1), true), (Some(2), false)], &[2]), ["/a"], "the other one is here");
        assert_eq!(missing(&[(Some(1), true), (Some(2), true)], &[2]), ["/a"]);
        // After a start, no volume was seen yet.
        assert_eq!(missing(&[(None, true), (None, true)], &[1, 2]), [""; 0]);
        assert_eq!(missing(&[(None, true), (None, true)], &[1]), ["/a", "/b"]);
        assert_eq!(missing(&[(None, true), (Some(2), true)], &[1, 2]), [""; 0]);
        assert_eq!(missing(&[(None, true), (Some(2), true)], &[2]), ["/a"]);
    }
}
