//! The findings of the log and of its disk, and of logs from earlier runs.

use std::time::Duration;

use tollgate_log::{LogStatus, QueueState, RoomState};

use super::code::Code;
use super::finding::Health;
use crate::observe::seen::Damaged;
use crate::print::counted;
use crate::progress::size;

/// If the oldest record waits longer than this time for a sync, the disk is reported as hung.
const SYNC_STALL_MAX: Duration = Duration::from_secs(10);
/// Maximum number of logs in the finding about logs that the start could not repair.
const LOGS_SHOWN: usize = 5;

/// Finds the faults of the log. `records`: a route of the configuration records.
pub(super) fn look_at_log(health: &mut Health, log: &LogStatus, records: bool) {
    if let Some(reason) = &log.failure {
        health.add(Code::LogFailed, format!("the log failed: {reason}"));
    } else if log.unsynced_age > SYNC_STALL_MAX {
        let (age, limit) = (log.unsynced_age.as_secs(), SYNC_STALL_MAX.as_secs());
        health.add(
            Code::LogStalled,
            format!("the oldest record has waited {age} s for the disk, limit {limit} s"),
        );
    }
    if log.is_folder_gone && log.failure.is_none() {
        let text = format!(
            "the folder of log {} is not at its path any more: records are refused until it is back",
            log.watermark.log
        );
        health.add(Code::LogGone, text);
    }
    if log.queue == QueueState::Behind && log.failure.is_none() {
        health.add(Code::LogBehind, queue_text(log));
    }
    let (free, reserve) = (size(log.free_bytes), size(log.reserve_bytes));
    match log.room {
        RoomState::Short if records => {
            let text = format!(
                "{free} are free on the disk of the log, reserve {reserve}: records are refused until a \
                 quarter more than the reserve is free"
            );
            health.add(Code::DiskFull, text);
        }
        RoomState::Enough if log.free_bytes < log.reserve_bytes.saturating_mul(2) => {
            health.add(Code::DiskTight, format!("{free} are free on the disk of the log, reserve {reserve}"));
        }
        RoomState::Short | RoomState::Enough => {}
    }
}

fn queue_text(log: &LogStatus) -> String {
    let (age, age_max) = (log.queue_age.as_millis(), log.queue_age_max.as_millis());
    let (bytes, bytes_max) = (size(log.queued_bytes), size(log.queue_bytes_max));
    format!(
        "the disk is behind and records are refused: the oldest has waited {age} ms, limit {age_max} ms; \
         {bytes} wait, limit {bytes_max}"
    )
}

/// Finds the faults of logs from earlier runs.
pub(super) fn look_at_damaged(health: &mut Health, damaged: &Damaged) {
    let Damaged { segments, first, unmended } = damaged;
    if *segments > 0 {
        let first = first.as_ref().map(|file| format!(", the first is {}", file.display()));
        let verb = if *segments == 1 { "is" } else { "are" };
        let first = first.unwrap_or_default();
        let text = format!("{} {verb} damaged{first}", counted(*segments, "segment"));
        health.add(Code::SegmentsDamaged, text);
    }
    for (log, reason) in unmended.iter().take(LOGS_SHOWN) {
        health.add(Code::LogUnmended, format!("log {log} cannot be repaired: {reason}"));
    }
    if unmended.len() > LOGS_SHOWN {
        let more = counted((unmended.len() - LOGS_SHOWN) as u64, "further log");
        health.add(Code::LogUnmended, format!("{more} cannot be repaired"));
    }
}
