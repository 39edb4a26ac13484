//! The arguments of commands on volumes that move.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::{Span, SpanRelativeTo};
use tollgate_ship::VolumeId;

use super::place::ConfigPath;

/// Commands on volumes. Each works beside a running server.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a mounted disk a volume, once
    Init(FolderArguments),
    /// Print the state of a volume
    State(FolderArguments),
    /// Close a volume that is being filled, so that it may be moved now
    Close(FolderArguments),
    /// Accept the report of a volume that the other machine could only read (`load --report`)
    Accept {
        /// The report file
        #[arg(value_name = "FILE")]
        report: PathBuf,
        #[command(flatten)]
        target: TargetArguments,
    },
    /// Forget a closed volume that is lost. Its segments are sent again
    Forget {
        /// The id of the volume, as `tollgate status` prints it
        #[arg(value_name = "ID")]
        id: WrittenVolumeId,
        #[command(flatten)]
        target: TargetArguments,
    },
}

/// The folder of a volume.
#[derive(Debug, Args)]
pub(crate) struct FolderArguments {
    /// The folder where the volume is mounted
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The folder is not mounted: it may be on the device of its parent folder
    #[arg(long)]
    pub(crate) same_device: bool,
}

/// The ship target whose volumes are meant.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    #[command(flatten)]
    pub(crate) config: ConfigPath,
    /// The ship target [default: the only one with volumes]
    #[arg(long, value_name = "NAME")]
    pub(crate) ship: Option<String>,
}

/// The arguments of `load` for a folder with a volume.
#[derive(Debug, Args)]
pub(crate) struct LoadVolume {
    /// The folder is the mount point of volumes: wait until one is mounted. Without this option, a volume is
    /// recognized if it is mounted at the start
    #[arg(long = "volume", requires = "from")]
    pub(crate) is_volume: bool,
    /// Load a volume that another host began to load or has finished
    #[arg(long, requires = "from")]
    pub(crate) take_over: bool,
    /// Do not write to the volume, because it is mounted read-only. Write the answers to this file
    #[arg(long, value_name = "FILE", requires = "from")]
    pub(crate) report: Option<PathBuf>,
    /// Run this program when a volume is done: it unmounts the disk and moves it back
    #[arg(long, value_name = "PROGRAM", requires = "from")]
    pub(crate) on_done: Option<PathBuf>,
    /// How long the program may run. Then it is killed with its children
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, requires = "from")]
    pub(crate) hook_timeout: Duration,
    /// Finish the volume although some of its segments cannot be loaded. They are sent again
    #[arg(long, requires = "from", requires = "once")]
    pub(crate) give_back: bool,
    /// The folder is not mounted: it may be on the device of its parent folder
    #[arg(long, requires = "from")]
    pub(crate) same_device: bool,
}

impl LoadVolume {
    /// Returns whether an option says that the folder is for volumes.
    pub(crate) const fn is_given(&self) -> bool {
        self.is_volume
            || self.take_over
            || self.report.is_some()
            || self.on_done.is_some()
            || self.give_back
            || self.same_device
    }
}

/// Reads a duration with its unit: `90s`, `12h`, `7d`.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    let time = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let time = time.ok().and_then(|time| Duration::try_from(time).ok());
    time.ok_or("allowed is a duration (90s, 12h, 7d)")
}

/// The id of a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenVolumeId(pub(crate) VolumeId);

impl FromStr for WrittenVolumeId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|()| "allowed are 32 hexadecimal digits")
    }
}
