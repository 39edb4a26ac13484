//! Copies of the files that a worker sends again and again.
//!
//! Up to one packet of the longest, sendfile is the cheaper way for both sides. A reply of two packets is cheaper for
//! the peer if it is copied, at no cost to the server as long as the bytes are in the cache of the processor (`bench/downloads.py`,
//! docs/performance.md). They are if they were sent a moment ago and little else was.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::file_slice::{FileSlice, Passage, SentFile, read_at_once};

/// What leaves in one packet, up to the bound of 64 KiB for all of it, is not copied, nor what is much longer than one.
const ONE_PACKET_BYTES: u64 = 63 << 10;
const COPIED_BYTES_MAX: u64 = 96 << 10;
/// How many files are in the cache at once: with all of them as long as can be, three quarters of a megabyte.
const FILES_MAX: usize = 8;
/// How often a file is asked for, while few others are, until it is copied.
const TIMES_MIN: u8 = 4;

/// The files that were sent last, of those that may be copied.
#[derive(Default)]
pub(crate) struct Copies(RefCell<[Known; FILES_MAX]>);

#[derive(Default)]
struct Known {
    file: Weak<SentFile>,
    /// How often it was asked for. What others take the place of counts for half.
    times: u8,
    copy: Option<Bytes>,
}

impl Copies {
    /// The bytes of a slice that is about to be sent, if its file is one that is sent again and again. A copy is of one version
    /// of the file, as the file that is sent is: whoever looks it up sees that it was written to.
    pub(crate) fn of(&self, slice: &FileSlice) -> Option<Bytes> {
        let SentFile { len, is_settled, passage, .. } = *slice.file;
        let is_of_two_packets = (ONE_PACKET_BYTES + 1..=COPIED_BYTES_MAX).contains(&len);
        if !is_of_two_packets || !is_settled || passage != Passage::System || slice.end() > len {
            return None;
        }
        let mut all = self.0.borrow_mut();
        let Some(known) = all.iter_mut().find(|known| known.file.as_ptr() == Arc::as_ptr(&slice.file)) else {
            note(&mut all, &slice.file);
            return None;
        };
        known.times = known.times.saturating_add(1);
        if known.times < TIMES_MIN {
            return None;
        }
        if known.copy.is_none() {
            known.copy = read_at_once(&slice.file.file, len);
        }
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        known.copy.as_ref().map(|copy| copy.slice(place(slice.offset)..place(slice.end())))
    }
}

/// Remembers a file in place of the one that was asked for least.
fn note(all: &mut [Known; FILES_MAX], file: &Arc<SentFile>) {
    for known in all.iter_mut() {
        known.times /= 2;
    }
    if let Some(least) = all.iter_mut().min_by_key(|known| known.times) {
        *least = Known { file: Arc::downgrade(file), times: 1, copy: None };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn slice(len: u64) -> FileSlice {
        let file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        file.write_all_at(&content, 0).unwrap();
        FileSlice { file: Arc::new(SentFile::new(file, len, Passage::System, true)), offset: 0, len }
    }

    /// After how many times it is copied, of a hundred.
    fn times(copies: &Copies, slice: &FileSlice) -> Option<usize> {
        (1..=100).find(|_| copies.of(slice).is_some())
    }

    #[test]
    fn what_is_sent_again_and_again_is_copied_if_it_is_of_two_packets() {
        for (len, expect) in [
            (0, None),
            (ONE_PACKET_BYTES, None),
            (ONE_PACKET_BYTES + 1, Some(4)),
            (COPIED_BYTES_MAX, Some(4)),
            (COPIED_BYTES_MAX + 1, None),
        ] {
            assert_eq!(times(&Copies::default(), &slice(len)), expect, "{len}");
        }
    }

    #[test]
    fn a_copy_is_that_of_the_slice() {
        let (copies, all) = (Copies::default(), slice(80_000));
        assert_eq!(times(&copies, &all), Some(4));
        let copy = |offset, len| copies.of(&FileSlice { offset, len, ..all.clone() }).unwrap();
        let expected: Vec<u8> = (0..80_000).map(|at| (at % 251) as u8).collect();
        assert!(copy(0, 80_000) == expected);
        assert!(copy(70_001, 9_999) == expected[70_001..]);
        assert!(copy(80_000, 0).is_empty());
    }

    #[test]
    fn more_files_than_there_is_room_for_are_not_copied_in_turns_and_the_one_that_is_asked_for_most_stays() {
        let (copies, most) = (Copies::default(), slice(70_000));
        let others: Vec<_> = (0..2 * FILES_MAX).map(|_| slice(70_000)).collect();
        assert!((0..10).all(|_| others.iter().all(|other| copies.of(other).is_none())));
        assert_eq!(times(&copies, &most), Some(4));
        for other in others.iter().cycle().take(50) {
            assert!((0..4).all(|_| copies.of(&most).is_some()));
            assert!(copies.of(other).is_none());
        }
        assert_eq!(times(&copies, &others[0]), Some(4));
    }

    #[test]
    fn neither_a_file_that_may_have_another_version_nor_one_that_is_shorter_now_is_copied() {
        let unsettled = slice(70_000);
        let file = unsettled.file.file.try_clone().unwrap();
        let unsettled = Arc::new(SentFile::new(file, 70_000, Passage::System, false));
        assert_eq!(times(&Copies::default(), &FileSlice { file: unsettled, offset: 0, len: 70_000 }), None);
        let shorter = slice(70_000);
        shorter.file.file.set_len(69_999).unwrap();
        assert_eq!(times(&Copies::default(), &shorter), None);
    }
}
