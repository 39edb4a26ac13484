//! Which logs of the folder this process loads, ships and deletes.
//!
//! Normally these are all logs. During an upgrade two processes share the folder, and each log has one of
//! them as its owner. The positions in the databases are compared and set, so a record is loaded once even if
//! both processes load its log. The duty avoids useless work and false findings, and it keeps deletions in
//! one process.
//!
//! | process | duty |
//! | --- | --- |
//! | old one, until it gave its duties up | all logs |
//! | old one, from then on | its own log, without deletions |
//! | new one, until the old one gave its duties up | its own log, without deletions |
//! | new one, from then on | all logs, except the log of the old one |
//! | new one, after the old one ended and its log is recovered | all logs |

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::id::LogId;

/// Logs that this process loads, ships and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    All,
    /// The log that this process writes. No segment is deleted.
    Own,
    /// All logs but this one, which a running process writes.
    AllBut(LogId),
    /// All logs but this one, which is to be recovered, because its process has ended.
    Ended(LogId),
}

/// The duty of this process. It changes only during an upgrade.
#[derive(Debug)]
pub(crate) struct LogDuty {
    own: LogId,
    duty: Mutex<Duty>,
}

impl LogDuty {
    /// Returns the duty of a process that is alone.
    pub(crate) const fn all(own: LogId) -> Self {
        Self { own, duty: Mutex::new(Duty::All) }
    }

    /// Returns the duty of a process whose predecessor still has all other duties.
    pub(crate) const fn own(own: LogId) -> Self {
        Self { own, duty: Mutex::new(Duty::Own) }
    }

    /// Returns whether this process loads and ships a log.
    pub(crate) fn covers(&self, log: LogId) -> bool {
        match *self.lock() {
            Duty::All => true,
            Duty::Own => log == self.own,
            Duty::AllBut(other) | Duty::Ended(other) => log != other,
        }
    }

    /// Returns whether this process deletes segments.
    pub(crate) fn is_deleting(&self) -> bool {
        *self.lock() != Duty::Own
    }

    /// Returns the log that is to be recovered, because its process has ended.
    pub(crate) fn ended(&self) -> Option<LogId> {
        match *self.lock() {
            Duty::Ended(log) => Some(log),
            _ => None,
        }
    }

    pub(crate) fn give_up(&self) {
        *self.lock() = Duty::Own;
    }

    pub(crate) fn take_over_from(&self, other: LogId) {
        *self.lock() = Duty::AllBut(other);
    }

    pub(crate) fn note_ended(&self, other: LogId) {
        *self.lock() = Duty::Ended(other);
    }

    pub(crate) fn take_all(&self) {
        *self.lock() = Duty::All;
    }

    /// Locks the duty, also after a panic of another thread. The duty is consistent after every statement.
    fn lock(&self) -> MutexGuard<'_, Duty> {
        self.duty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_one_process_at_each_step_of_an_upgrade() {
        let [old, new, dead] = [1, 2, 3].map(|n| LogId::from_bytes([n; 16]));
        let (before, after) = (LogDuty::all(old), LogDuty::own(new));
        let check = |owners: [[bool; 2]; 3], deleting: [bool; 2]| {
            let covered = [old, new, dead].map(|log| [before.covers(log), after.covers(log)]);
            assert_eq!((covered, [before.is_deleting(), after.is_deleting()]), (owners, deleting));
        };
        check([[true, false], [true, true], [true, false]], [true, false]);
        before.give_up();
        check([[true, false], [false, true], [false, false]], [false, false]);
        after.take_over_from(old);
        check([[true, false], [false, true], [false, true]], [false, true]);
        after.note_ended(old);
        assert_eq!(after.ended(), Some(old));
        check([[true, false], [false, true], [false, true]], [false, true]);
        after.take_all();
        assert!(after.covers(old) && after.ended().is_none());
    }
}
