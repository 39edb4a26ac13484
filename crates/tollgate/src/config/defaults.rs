//! The values that apply where a configuration sets none. Some of these values depend on the machine.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;

use tollgate_log::{DiskStorage, LogOptions, Storage};
use tollgate_server::ListenSpec;

/// The configuration file of a folder.
pub(crate) const FILE_NAME: &str = "tollgate.toml";
/// The file that makes a folder an app.
pub(crate) const APP_FILE: &str = "app.toml";
/// The value that turns a bound off.
pub(super) const OFF: &str = "off";
/// Free bytes that the log keeps on a large disk.
pub(super) const RESERVE_BYTES: u64 = 1 << 30;
/// The log folder, relative to the folder of the configuration.
pub(crate) const LOG_DIR: &str = "data/log";
/// The spool folder, relative to the folder of the configuration.
pub(super) const SPOOL_DIR: &str = "data/spool";
/// The folder of ACME and of the development authority, relative to the folder of the configuration.
pub(crate) const TLS_DIR: &str = "data/tls";
/// Maximum bytes of the node's name: the space in a segment header.
pub(super) const NODE_BYTES_MAX: usize = 48;

/// Returns the addresses that a server listens on by default.
pub(super) fn listen() -> Vec<ListenSpec> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()]
}

/// Returns the number of cores that this process may use.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(1024)
}

/// Returns the name of this machine, cut to `NODE_BYTES_MAX`. It is empty if the system does not report it.
pub(super) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    name[..name.floor_char_boundary(NODE_BYTES_MAX)].to_owned()
}

/// Returns the default reserve in bytes: 1 GiB, or a tenth of a smaller file system.
pub(super) fn reserve_wanted(log: &LogOptions) -> u64 {
    RESERVE_BYTES.min(disk_bytes(&log.dir) / 10)
}

/// Returns the reserve in use: `wanted`, but at least the bytes that the log needs for its next writes.
pub(super) fn reserve_bytes(log: &LogOptions, wanted: u64) -> u64 {
    tollgate_log::reserve_bytes(wanted, log.segment_bytes_max, disk_bytes(&log.dir))
}

/// Returns the bytes that spooled bodies leave free on their disk: the reserve of the log, at most a quarter
/// of the disk.
pub(super) fn spool_reserve_bytes(log: &LogOptions, dir: &Path) -> u64 {
    log.reserve_bytes.min(disk_bytes(dir) / 4)
}

/// Returns the bytes of the file system that a folder is on, or will be on. They are `u64::MAX` if unknown.
fn disk_bytes(folder: &Path) -> u64 {
    let existing = folder.ancestors().find(|above| above.exists());
    let space = existing.and_then(|folder| DiskStorage.space(folder).ok());
    space.map_or(u64::MAX, |space| space.total_bytes)
}
