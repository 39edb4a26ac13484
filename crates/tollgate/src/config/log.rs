//! `[log]`: the folder of the log, and the bounds on the kept segments.

use std::fmt;
use std::path::Path;

use tollgate_log::{LogOptions, SegmentDigestAlgorithm};

use super::defaults;
use super::key::{keys, set_defaults, write};
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_path};
use super::section::{Section, Written};
use super::units::{GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS};
use super::value::{named, names};

/// Upper bound of `retain_bytes_max` and `reserve`: 1 PiB, the size of a large disk.
pub(super) const RETAIN_BYTES_MAX: u64 = GIB << 20;
/// A year.
const RETAIN_MS_MAX: u64 = 365 * 24 * HOUR_MS;

named!(SegmentDigestAlgorithm);

keys! {
    pub(super) KEYS of LogOptions;
    /// The folder of the record log. Only one server at a time may use it.
    dir [DIR] = text(defaults::LOG_DIR, "a path").restart();
    /// A segment is closed and sealed at this many bytes.
    segment_bytes_max = size(64 * MIB, 4 * KIB..=16 * GIB).restart() => segment_bytes_max;
    /// A segment is closed and sealed at this age, even if it is small.
    segment_age_max = duration(MINUTE_MS, 10..=24 * HOUR_MS).restart() => segment_age_max;
    /// Written bytes are synced at most this much later, even if no reply waits.
    sync_age_max = duration(200, 1..=MINUTE_MS).restart() => sync_age_max;
    /// How long a sealed segment is kept after every sink has it.
    retain = duration(24 * HOUR_MS, 0..=RETAIN_MS_MAX).restart() => retain;
    /// Above this sum of all sealed segments, those that every sink has are deleted, oldest first.
    retain_bytes_max = size(10 * GIB, 0..=RETAIN_BYTES_MAX).restart() => retain_bytes_max;
    /// Bytes that must stay free on the disk.
    reserve [RESERVE] = size(defaults::RESERVE_BYTES, 0..=RETAIN_BYTES_MAX)
        .or("a tenth of the file system if that is less").by_hand().restart() => reserve_bytes;
    /// Bytes that may wait for the disk.
    queue_bytes_max = size(64 * MIB, 64 * KIB..=16 * GIB).restart() => queue_bytes_max;
    /// How long a record whose reply waits for the disk may wait.
    queue_age_max = duration(5 * SECOND_MS, 10..=HOUR_MS).restart() => queue_age_max;
    /// Bytes of all records of one request together.
    transaction_bytes_max = size(4 * MIB, KIB..=8 * MIB).at_most("queue_bytes_max").restart()
        => transaction_bytes_max;
    /// The digest that seals a segment.
    digest = one_of("sha256", names::<SegmentDigestAlgorithm>).restart() => digest;
    /// The name of this machine, written into each segment.
    node [NODE] = other("the host's name", "at most 48 bytes, no control characters").restart();
}

/// Returns the options of a configuration without this section. Paths are relative to `folder`.
pub(super) fn unwritten(folder: &Path) -> LogOptions {
    in_dir(&folder.join(DIR.default_text()))
}

fn in_dir(dir: &Path) -> LogOptions {
    let mut log = LogOptions::new(dir);
    set_defaults(KEYS, &mut log);
    log.reserve_bytes = defaults::reserve_bytes(&log, defaults::reserve_wanted(&log));
    log.node = defaults::host_name();
    log
}

/// Reads the section. Paths are relative to `folder`.
pub(super) fn log(mut section: Section<'_>, folder: &Path) -> LogOptions {
    let dir = path(&mut section, DIR.name, PathTo::Folder);
    let mut log = dir.map_or_else(|| unwritten(folder), |dir| in_dir(&folder.join(dir.value)));
    section.overlay(KEYS, &mut log);
    let wanted = section.number(&RESERVE).unwrap_or_else(|| defaults::reserve_wanted(&log));
    log.reserve_bytes = defaults::reserve_bytes(&log, wanted);
    if let Some(node) = section.text(NODE.name) {
        log.node = checked_node(&section, node);
    }
    section.finish();
    log
}

fn checked_node(section: &Section<'_>, node: Written<String>) -> String {
    if node.value.len() > defaults::NODE_BYTES_MAX || node.value.contains(char::is_control) {
        let allowed = "at most 48 bytes without control characters";
        section.fault_at(&node.span, format!("node in [log] is {:?}, allowed are {allowed}", node.value));
    }
    node.value
}

/// Writes the section.
pub(super) fn write_log(log: &LogOptions, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[log]")?;
    write(KEYS, log, &[(DIR.name, Some(quoted_path(&log.dir))), (NODE.name, Some(quoted(&log.node)))], f)
}
