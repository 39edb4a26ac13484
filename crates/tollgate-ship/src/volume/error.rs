//! Why a call on a volume failed.

use std::io;
use std::path::{Path, PathBuf};

use super::state::{VolumeId, VolumeState};
use crate::name::NodeName;
use crate::store::StoreError;

/// Why a call on a volume failed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The folder is no mounted volume. Nothing is written there.
    #[error("{} is not mounted: {reason}", folder.display())]
    NotMounted {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// A file of the volume protocol cannot be parsed.
    #[error("{} is damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file of a volume, or of this machine, cannot be read or written.
    #[error("cannot {action} {}", file.display())]
    File {
        /// The failed action.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// Error of the file.
        source: io::Error,
    },
    /// The state of the volume does not allow the action.
    #[error("volume {} is {found}: this machine cannot {action} it", folder.display())]
    State {
        /// The folder.
        folder: PathBuf,
        /// State of the volume.
        found: VolumeState,
        /// The refused action.
        action: &'static str,
    },
    /// Another machine fills or cleans the volume.
    #[error("volume {} belongs to machine {node}", folder.display())]
    OtherNode {
        /// The folder.
        folder: PathBuf,
        /// The machine.
        node: NodeName,
    },
    /// Another host loads the volume.
    #[error(
        "volume {} is being loaded by host {host}: let that host finish, or take the volume over",
        folder.display()
    )]
    OtherHost {
        /// The folder.
        folder: PathBuf,
        /// The host.
        host: NodeName,
    },
    /// This machine knows a later generation of the volume, so the disk is an old copy.
    #[error(
        "volume {} has generation {found}, this machine knows {known}: it is an old copy of a disk",
        folder.display()
    )]
    OldCopy {
        /// The folder.
        folder: PathBuf,
        /// Generation on the volume.
        found: u64,
        /// Generation that this machine knows.
        known: u64,
    },
    /// Two folders have one volume.
    #[error("volume {} has the id {id} of another mounted volume: one is a copy", folder.display())]
    Twin {
        /// The folder.
        folder: PathBuf,
        /// The id.
        id: VolumeId,
    },
    /// The folder is a volume already.
    #[error("{} is a volume already: its state file exists", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// No volume can be filled.
    #[error("no volume can be filled: {reasons}")]
    NoVolume {
        /// What each folder is, or why it cannot be used.
        reasons: String,
    },
    /// A file cannot be stored on the volume.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl VolumeError {
    /// Returns a function that wraps an error of a file.
    pub(super) fn file(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let file = file.to_owned();
        move |source| Self::File { action, file, source }
    }

    /// Wraps this error for the caller of a store.
    pub(super) fn of_store(self, action: &'static str, name: &str) -> StoreError {
        match self {
            Self::NotMounted { folder, reason } => StoreError::NotMounted { folder, reason },
            Self::Store(error) => error,
            error => StoreError::call(action, name)(error),
        }
    }

    /// Returns whether the error is about the volume of this folder, and not about a file of this machine.
    pub(super) fn is_about(&self, volume: &Path) -> bool {
        match self {
            Self::File { file, .. } | Self::Damaged { file, .. } => file.starts_with(volume),
            Self::Store(StoreError::File { file, .. }) => file.starts_with(volume),
            Self::Store(StoreError::Call { .. }) => true,
            Self::Store(StoreError::NotMounted { folder, .. }) => folder == volume,
            Self::Store(_) | Self::NoVolume { .. } => false,
            Self::NotMounted { folder, .. }
            | Self::State { folder, .. }
            | Self::OtherNode { folder, .. }
            | Self::OtherHost { folder, .. }
            | Self::OldCopy { folder, .. }
            | Self::Twin { folder, .. }
            | Self::Exists { folder } => folder == volume,
        }
    }

    /// Returns the number of the system's error, if there is one.
    pub(super) fn os_error(&self) -> Option<i32> {
        match self {
            Self::File { source, .. } | Self::Store(StoreError::File { source, .. }) => source.raw_os_error(),
            _ => None,
        }
    }
}
