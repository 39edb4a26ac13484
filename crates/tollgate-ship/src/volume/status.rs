//! The state of volumes, for reports and findings.

use std::collections::BTreeMap;
use std::path::PathBuf;
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
