//! Options of both sides of a volume.

use std::path::PathBuf;
use std::time::Duration;

use super::hook::VolumeHook;
use crate::name::NodeName;

/// Options of the machine that fills volumes.
#[derive(Debug, Clone)]
pub struct VolumeOptions {
    /// The folders where volumes are mounted.
    pub folders: Vec<PathBuf>,
    /// Whether a folder may be on the device of its parent: plain folders, for tests.
    pub same_device: bool,
    /// The folder of this machine's memory of volumes: lists and answers.
    pub home: PathBuf,
    /// The folder of all logs. Segments of a lost volume are sent again from there.
    pub logs: PathBuf,
    /// The name of this machine.
    pub node: NodeName,
    /// The sinks that need each record. Empty: all sinks that ever answered.
    pub sinks: Vec<String>,
    /// A volume with this number of bytes is closed. It always gets one segment.
    pub bytes_max: u64,
    /// A volume is closed this time after its first segment. `None`: by size or command only.
    pub age_max: Option<Duration>,
    /// The program that runs when a volume is full.
    pub on_full: Option<VolumeHook>,
    /// Shortest interval between two looks at all folders.
    pub look: Duration,
}

/// Options of the host that loads a volume.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    /// The folder where volumes are mounted.
    pub folder: PathBuf,
    /// Whether the folder may be on the device of its parent.
    pub same_device: bool,
    /// The name of this host.
    pub host: NodeName,
    /// Whether a volume is loaded that another host began to load or has finished.
    pub take_over: bool,
    /// The file for the answers of a volume that is mounted read-only. `None`: the volume is written.
    pub report: Option<PathBuf>,
    /// The sinks that need each record.
    pub sinks: Vec<String>,
    /// The program that runs when a volume is done.
    pub on_done: Option<VolumeHook>,
}
