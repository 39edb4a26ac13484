//! Volumes: disks that carry sealed segments to the database, and answers back.
//!
//! A volume is a mounted folder with a state file. The web machine fills it, the host of the database loads
//! it, and the web machine empties it. Local copies stay until the answers are here, so a lost disk loses no
//! record. The same segment on two disks is harmless, because the position in the database decides what is
//! loaded.
//!
//! | file | task |
//! | --- | --- |
//! | `disk` | writes small files in steps that a crash may end |
//! | `state`, `loaded` | the state file with its states, and the answers |
//! | `mounted`, `opened` | is it mounted? A mounted volume with its state file |
//! | `hook` | programs that unmount and move a volume |
//! | `home` | the memory of the web machine |
//! | `clean` | deletes the listed files |
//! | `filler`, `store` | the volumes of a web machine, and the same as a store |
//! | `source` | a volume on the host that loads, as a store |
//! | `command` | init, close, accept, forget |

mod clean;
mod command;
mod disk;
mod error;
mod filler;
mod home;
mod hook;
mod loaded;
mod mounted;
mod opened;
mod options;
mod source;
mod state;
mod status;
mod store;
#[cfg(test)]
mod tests;

pub use command::{
    AcceptedReport, accept_report, close_volume, forget_volume, init_volume, is_volume, read_volume,
};
pub use error::VolumeError;
pub use hook::{HookError, VolumeHook};
pub use options::{SourceOptions, VolumeOptions};
pub use source::{SourceStatus, VolumeSource};
pub use state::{VolumeId, VolumeState};
pub use status::{VolumeFacts, VolumeFolder, VolumeStatus, VolumeWatch};
pub use store::{KeptUntilLoaded, VolumeStore};
