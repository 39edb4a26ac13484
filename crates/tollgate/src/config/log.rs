//! `[log]`: where transactions are written, and how much of them is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_log::{LogOptions, SegmentDigestAlgorithm};

use super::defaults;
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_path};
use super::section::{Section, Written};
use super::units::{GIB, HOUR_MS, KIB, MIB, MINUTE_MS, show_duration, show_size};

/// As much as a large disk.
pub(super) const RETAIN_BYTES_MAX: u64 = GIB << 20;
/// A year.
const RETAIN_MS_MAX: u64 = 365 * 24 * HOUR_MS;

pub(super) fn log(mut section: Section<'_>, folder: &Path) -> LogOptions {
    let dir = path(&mut section, "dir", PathTo::Folder)
        .map_or_else(|| PathBuf::from(defaults::LOG_DIR), |dir| PathBuf::from(dir.value));
    let mut log = LogOptions::new(&folder.join(dir));
    log.segment_bytes_max = section.size("segment_bytes_max", 4 * KIB..=16 * GIB, log.segment_bytes_max);
    log.segment_age_max = section.duration("segment_age_max", 10..=24 * HOUR_MS, log.segment_age_max);
    log.sync_age_max = section.duration("sync_age_max", 1..=MINUTE_MS, log.sync_age_max);
    log.retain = section.duration("retain", 0..=RETAIN_MS_MAX, log.retain);
    log.retain_bytes_max = section.size("retain_bytes_max", 0..=RETAIN_BYTES_MAX, log.retain_bytes_max);
    let wanted = section.size("reserve", 0..=RETAIN_BYTES_MAX, defaults::reserve_wanted(&log));
    log.reserve_bytes = defaults::reserve_bytes(&log, wanted);
    log.queue_bytes_max = section.size("queue_bytes_max", 64 * KIB..=16 * GIB, log.queue_bytes_max);
    log.queue_age_max = section.duration("queue_age_max", 10..=HOUR_MS, log.queue_age_max);
    log.transaction_bytes_max =
        section.size("transaction_bytes_max", KIB..=8 * MIB, log.transaction_bytes_max);
    let (transaction, queue) = (log.transaction_bytes_max as u64, log.queue_bytes_max);
    if transaction > queue {
        let (transaction, queue) = (show_size(transaction), show_size(queue));
        let key = section.first_of(["transaction_bytes_max", "queue_bytes_max"]);
        let text = format!("transaction_bytes_max is {transaction}, limit is queue_bytes_max: {queue}");
        section.fault_of(key, text);
    }
    let digests = SegmentDigestAlgorithm::ALL.map(|digest| (digest.name(), digest));
    log.digest = section.choice("digest", &digests).unwrap_or_default();
    log.node = section.text("node").map_or_else(defaults::host_name, |node| checked_node(&section, node));
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
    writeln!(f, "dir = {}", quoted_path(&log.dir))?;
    writeln!(f, "segment_bytes_max = \"{}\"", show_size(log.segment_bytes_max))?;
    writeln!(f, "segment_age_max = \"{}\"", show_duration(log.segment_age_max))?;
    writeln!(f, "sync_age_max = \"{}\"", show_duration(log.sync_age_max))?;
    writeln!(f, "retain = \"{}\"", show_duration(log.retain))?;
    writeln!(f, "retain_bytes_max = \"{}\"", show_size(log.retain_bytes_max))?;
    writeln!(f, "reserve = \"{}\"", show_size(log.reserve_bytes))?;
    writeln!(f, "queue_bytes_max = \"{}\"", show_size(log.queue_bytes_max))?;
    writeln!(f, "queue_age_max = \"{}\"", show_duration(log.queue_age_max))?;
    writeln!(f, "transaction_bytes_max = \"{}\"", show_size(log.transaction_bytes_max as u64))?;
    writeln!(f, "digest = \"{}\"", log.digest.name())?;
    writeln!(f, "node = {}", quoted(&log.node))
}
