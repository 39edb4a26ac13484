//! Free space of the disk: the number of bytes that the log may still write before the disk is nearly full.
//!
//! | free | what happens |
//! | --- | --- |
//! | less than the reserve and a slack | segments that every sink has are deleted, whatever `retain` says |
//! | less than the reserve | records are refused, the active segment is closed |
//! | the reserve and the slack again | records are taken again |
//!
//! While the folder of the live log is gone, no space is left either, so that workers check one value.
//!
//! A worker reads one atomic, the bytes that are left. Between two measurements of the file system, the log
//! subtracts its own writes from this number. So the log never writes more than the free bytes above the
//! reserve. The reserve is for the writes of other processes between two measurements, mainly of the sink.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::storage::Space;

/// Number of free inodes below which the disk counts as full.
const FREE_INODES_MIN: u64 = 64;
/// Minimum of the reserve, in segments.
const RESERVE_SEGMENTS_MIN: u64 = 4;
/// Smallest ratio of the size of the file system to the minimum of the reserve.
const FLOOR_SHARE: u64 = 4;

/// Returns the reserve in bytes for a configured value, on a file system of this size.
///
/// The reserve is at least four segments or a quarter of the file system, whichever is smaller.
pub fn reserve_bytes(wanted: u64, segment_bytes_max: u64, total_bytes: u64) -> u64 {
    wanted.max(segment_bytes_max.saturating_mul(RESERVE_SEGMENTS_MIN).min(total_bytes / FLOOR_SHARE))
}

/// Whether the disk has space for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomState {
    /// There is enough space.
    Enough,
    /// The disk is nearly full. Records are refused.
    Short,
}

pub(crate) struct Room {
    reserve_bytes: u64,
    slack_bytes: u64,
    /// Bytes that the log may still write. Zero while space is short.
    bytes_left: AtomicU64,
    is_short: AtomicBool,
    /// Whether the folder of the live log is not at its path any more. No record may be written then.
    is_folder_gone: AtomicBool,
}

impl Room {
    pub(crate) fn new(reserve_bytes: u64) -> Self {
        let slack_bytes = reserve_bytes / RESERVE_SEGMENTS_MIN;
        let (bytes_left, is_short) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        let is_folder_gone = AtomicBool::new(false);
        Self { reserve_bytes, slack_bytes, bytes_left, is_short, is_folder_gone }
    }

    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    pub(crate) fn is_folder_gone(&self) -> bool {
        self.is_folder_gone.load(Ordering::Relaxed)
    }

    /// Notes whether the folder of the live log is gone. The next measurement of the free space takes records
    /// again after the folder came back.
    pub(crate) fn note_folder(&self, is_gone: bool) {
        self.is_folder_gone.store(is_gone, Ordering::Relaxed);
        if is_gone {
            self.bytes_left.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether there is space for another record after the `queued` bytes that wait to be written.
    pub(crate) fn has_room_behind(&self, queued: u64) -> bool {
        queued < self.bytes_left.load(Ordering::Relaxed)
    }

    /// Subtracts bytes that the log wrote. Returns whether the free space has to be measured now.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        let (Ok(before) | Err(before)) =
            self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.saturating_sub(bytes) < self.slack_bytes
    }

    /// Notes the free space that the file system reports. Returns the new state if the state changed.
    pub(crate) fn note(&self, space: Space) -> Option<RoomState> {
        let slack = if self.is_short() { self.slack_bytes } else { 0 };
        let is_short = space.free_bytes < self.reserve_bytes.saturating_add(slack)
            || space.free_inodes < FREE_INODES_MIN;
        let left = if is_short || self.is_folder_gone() { 0 } else { space.free_bytes - self.reserve_bytes };
        self.bytes_left.store(left, Ordering::Relaxed);
        let state = if is_short { RoomState::Short } else { RoomState::Enough };
        (self.is_short.swap(is_short, Ordering::Relaxed) != is_short).then_some(state)
    }

    /// Returns whether segments should be deleted now, before records have to be refused.
    pub(crate) fn is_tight(&self, space: Space) -> bool {
        space.free_bytes < self.reserve_bytes.saturating_add(self.slack_bytes)
            || space.free_inodes < 2 * FREE_INODES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn space(free_bytes: u64) -> Space {
        Space { total_bytes: 1000, free_bytes, free_inodes: u64::MAX }
    }

    #[test]
    fn a_reserve_holds_four_segments_or_a_quarter_of_a_small_disk() {
        let check = |wanted, segment, total, expected| {
            let found = reserve_bytes(wanted * MIB, segment * MIB, total * MIB);
            assert_eq!(found, expected * MIB, "{wanted} {segment} {total}");
        };
        check(1024, 64, 100_000, 1024);
        check(100, 64, 100_000, 256);
        check(6, 1, 64, 6);
        check(1, 1, 64, 4);
        check(6, 64, 64, 16);
        check(500, 64, 64, 500);
    }

    #[test]
    fn each_state_is_told_once_and_left_only_with_some_more_room() {
        let room = Room::new(400);
        let check = |free, expected, has_room| {
            assert_eq!(room.note(space(free)), expected, "{free}");
            assert_eq!(room.has_room_behind(0), has_room, "{free}");
        };
        check(1000, None, true);
        check(401, None, true);
        check(400, None, false);
        check(399, Some(RoomState::Short), false);
        check(0, None, false);
        check(499, None, false);
        check(500, Some(RoomState::Enough), true);
        check(401, None, true);
    }

    #[test]
    fn no_room_is_left_while_the_folder_is_gone_whatever_is_free() {
        let room = Room::new(400);
        room.note_folder(true);
        assert!(!room.has_room_behind(0));
        assert_eq!(room.note(space(1000)), None);
        assert!(!room.has_room_behind(0) && room.is_folder_gone() && !room.is_short());
        room.note_folder(false);
        assert_eq!(room.note(space(1000)), None);
        assert!(room.has_room_behind(0));
    }

    #[test]
    fn few_inodes_are_no_room_however_many_bytes_there_are() {
        let room = Room::new(400);
        let inodes = |free_inodes| Space { free_inodes, ..space(1000) };
        assert!(room.is_tight(inodes(64)) && !room.is_tight(inodes(128)));
        assert_eq!(room.note(inodes(64)), None);
        assert_eq!(room.note(inodes(63)), Some(RoomState::Short));
        assert!(!room.has_room_behind(0));
    }

    #[test]
    fn written_and_waiting_bytes_count_until_the_next_look() {
        let room = Room::new(400);
        room.note(space(500));
        assert!(room.has_room_behind(99) && !room.has_room_behind(100));
        assert!(room.take(60));
        assert!(room.has_room_behind(39) && !room.has_room_behind(40));
        assert!(room.take(60));
        assert!(!room.has_room_behind(0));
        assert_eq!(room.note(space(600)), None);
        assert!(!room.take(100) && room.has_room_behind(99));
    }

    #[test]
    fn room_is_made_before_records_are_refused() {
        let room = Room::new(400);
        assert!(room.is_tight(space(499)) && !room.is_tight(space(500)));
        assert_eq!(room.note(space(499)), None);
    }
}
