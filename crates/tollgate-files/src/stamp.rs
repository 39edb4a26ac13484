//! Stamps that distinguish the versions of a file.

use std::fs::File;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;

/// Stamp of a file. A stamp distinguishes the file from its other versions, and from another file at the same
/// path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    pub(crate) modified_s: i64,
    pub(crate) modified_ns: i64,
    changed: (i64, i64),
    inode: (u64, u64),
    /// Time of the lookup in seconds since 1970, if the next version may still get the same times. Results
    /// for such a stamp count only within this second.
    unsettled_s: Option<i64>,
}

/// Time during which the clock of a file system may show the same value, in microseconds.
///
/// Linux stores times in ticks of up to 10 ms, before 6.13 or if the file system stores no finer time. A few
/// file systems count seconds, and FAT counts in steps of two seconds.
const TICK_US: i64 = 100_000;
const TICK_OF_SECONDS_US: i64 = 2_100_000;

impl Stamp {
    /// Returns the stamp and the mode of an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<(Self, u32), Errno> {
        let stat = fstat(file)?;
        let stamp = Self {
            len: u64::try_from(stat.st_size).unwrap_or_default(),
            modified_s: stat.st_mtime,
            modified_ns: i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            changed: (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default()),
            inode: (stat.st_dev, stat.st_ino),
            unsettled_s: None,
        };
        Ok((stamp, stat.st_mode))
    }

    /// Returns the stamp of an open folder, or `None` if the system returns none.
    pub(crate) fn of_folder(folder: &OwnedFd) -> Option<Self> {
        Self::of(folder).ok().map(|(stamp, _)| stamp)
    }

    /// Returns the current stamp of an open file, or `None` if the system does not return it.
    pub(crate) fn now(file: &File, wall_us: i64) -> Option<Self> {
        Self::of(file).ok().map(|(stamp, _)| stamp.looked_at(wall_us))
    }

    /// Returns the stamp for a lookup at `wall_us`, in microseconds since 1970.
    ///
    /// If the modification time is much older than the last change, a program set it explicitly. Such a time
    /// is assumed to identify this version.
    pub(crate) fn looked_at(self, wall_us: i64) -> Self {
        let tick_us = if self.changed.1 == 0 { TICK_OF_SECONDS_US } else { TICK_US };
        let modified_us = microseconds(self.modified_s, self.modified_ns);
        let is_older_than = |us: i64, than: i64| us.saturating_add(tick_us) < than;
        let is_settled =
            is_older_than(self.changed_us(), wall_us) || is_older_than(modified_us, self.changed_us());
        Self { unsettled_s: (!is_settled).then_some(wall_us / 1_000_000), ..self }
    }

    /// Returns whether every later version will have another stamp.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled_s.is_none()
    }

    /// Returns the time of the last change of the file or its metadata. Only the system sets this time.
    fn changed_us(&self) -> i64 {
        microseconds(self.changed.0, self.changed.1)
    }

    /// Returns the current stamp of an open file, or `None` if the file was written. A changed name or mode
    /// is not a new version.
    pub(crate) fn of_this_version(&self, file: &File) -> Option<Self> {
        let (now, _) = Self::of(file).ok()?;
        (Self { changed: self.changed, unsettled_s: self.unsettled_s, ..now } == *self).then_some(now)
    }

    /// Returns whether an open file is unchanged.
    pub(crate) fn is_that_of(&self, file: &File) -> bool {
        Self::of(file).is_ok_and(|(stamp, _)| stamp == Self { unsettled_s: None, ..*self })
    }
}

fn microseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(nanoseconds / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGED_S: i64 = 1_000_000;

    fn stamp(modified_us: i64, changed_us: i64) -> Stamp {
        let parts = |us: i64| (us.div_euclid(1_000_000), us.rem_euclid(1_000_000) * 1000);
        let (modified_s, modified_ns) = parts(modified_us);
        let inode = (1, 2);
        Stamp { len: 3, modified_s, modified_ns, changed: parts(changed_us), inode, unsettled_s: None }
    }

    #[test]
    fn a_look_within_a_tick_of_a_change_holds_of_no_later_look() {
        let changed_us = CHANGED_S * 1_000_000 + 500_000;
        let stamp = stamp(changed_us, changed_us);
        let at = |after_us: i64| stamp.looked_at(changed_us + after_us);
        assert_eq!(at(200_000), stamp);
        assert!(at(200_000).is_settled());
        for after_us in [-2_000_000, -1000, 0, 100_000] {
            assert!(!at(after_us).is_settled(), "{after_us}");
            assert_ne!(at(after_us), at(200_000), "{after_us}");
        }
        // Two lookups in the same second have equal stamps, so that a request finds the result that it waited
        // for.
        assert_eq!(at(0), at(90_000));
        assert_ne!(at(-600_000), at(0));
    }

    #[test]
    fn a_clock_of_seconds_ticks_seldom() {
        let changed_us = CHANGED_S * 1_000_000;
        let stamp = stamp(changed_us, changed_us);
        assert!(!stamp.looked_at(changed_us + 2_000_000).is_settled());
        assert!(stamp.looked_at(changed_us + 2_200_000).is_settled());
    }

    #[test]
    fn a_time_that_was_given_to_a_file_is_no_later_one() {
        let changed_us = CHANGED_S * 1_000_000 + 500_000;
        assert!(stamp(changed_us - 200_000, changed_us).looked_at(changed_us).is_settled());
        assert!(!stamp(changed_us - 50_000, changed_us).looked_at(changed_us).is_settled());
    }
}
