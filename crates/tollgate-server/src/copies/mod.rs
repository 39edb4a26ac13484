//! Copies of the files that a worker sends again and again.
//!
//! Up to one packet of the longest, sendfile is the cheaper way for both sides. A reply of two packets is
//! cheaper for the peer if it is copied. What it costs the worker depends on the processor, so that is timed
//! (`send_choice`), and nothing is copied where it costs much more (docs/performance.md).

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::file_slice::{FileSlice, Passage, SentFile, read_at_once};

mod send_choice;

pub(crate) use send_choice::TimedSend;
use send_choice::{SendChoice, Way};

/// What leaves in one packet, up to the bound of 64 KiB for all of it, is not copied, nor what is much longer
/// than one.
const ONE_PACKET_BYTES: u64 = 63 << 10;
const COPIED_BYTES_MAX: u64 = 96 << 10;
/// How many files are in the cache at once: with all of them as long as can be, three quarters of a megabyte.
const FILES_MAX: usize = 8;
/// How often a file is asked for, while few others are, until it is copied.
const TIMES_MIN: u8 = 4;

/// The files that were sent last, of those that may be copied.
#[derive(Default)]
pub(crate) struct Copies {
    known: RefCell<[Known; FILES_MAX]>,
    choice: SendChoice,
}

#[derive(Default)]
struct Known {
    file: Weak<SentFile>,
    /// How often it was asked for. What others take the place of counts for half.
    times: u8,
    copy: Option<Bytes>,
}

impl Copies {
    /// Returns how to send a slice, if its file is sent again and again. A copy has one version of the
    /// file, as an open file has. The next look-up of the path notices a change.
    pub(crate) fn begin_send(&self, slice: &FileSlice) -> Option<TimedSend> {
        let SentFile { len, passage, .. } = *slice.file;
        let is_of_two_packets = slice.len > ONE_PACKET_BYTES && len <= COPIED_BYTES_MAX;
        if !is_of_two_packets || passage != Passage::Either || slice.end() > len {
            return None;
        }
        let mut all = self.known.borrow_mut();
        let Some(known) = all.iter_mut().find(|known| known.file.as_ptr() == Arc::as_ptr(&slice.file)) else {
            note(&mut all, &slice.file);
            return None;
        };
        known.times = known.times.saturating_add(1);
        if known.times < TIMES_MIN {
            return None;
        }
        match self.choice.way() {
            Way::Pages => {
                if self.choice.is_decided() {
                    known.copy = None;
                }
                Some(self.choice.begin_send(None))
            }
            Way::Copy => Some(self.choice.begin_send(Some(known.copy_of(slice)?))),
        }
    }

    /// Notes that all of the slice left in one call.
    pub(crate) fn end(&self, send: &TimedSend) {
        self.choice.end(send);
    }
}

impl Known {
    fn copy_of(&mut self, slice: &FileSlice) -> Option<Bytes> {
        if self.copy.is_none() {
            self.copy = read_at_once(&slice.file.file, slice.file.len);
        }
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        self.copy.as_ref().map(|copy| copy.slice(place(slice.offset)..place(slice.end())))
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
impl Copies {
    /// Those of a worker for which they are the cheaper way.
    pub(crate) fn cheaper() -> Self {
        Self { choice: SendChoice::won_by(Way::Copy), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn slice(len: u64) -> FileSlice {
        slice_of(len, Passage::Either)
    }

    fn slice_of(len: u64, passage: Passage) -> FileSlice {
        let file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        file.write_all_at(&content, 0).unwrap();
        FileSlice { file: Arc::new(SentFile::new(file, len, passage)), offset: 0, len }
    }

    fn copy(copies: &Copies, slice: &FileSlice) -> Option<Bytes> {
        copies.begin_send(slice)?.copy
    }

    /// After how many times it is copied, of a hundred.
    fn times(copies: &Copies, slice: &FileSlice) -> Option<usize> {
        (1..=100).find(|_| copy(copies, slice).is_some())
    }

    #[test]
    fn a_file_sent_again_and_again_is_copied_if_it_takes_two_packets() {
        for (len, expect) in [
            (0, None),
            (ONE_PACKET_BYTES, None),
            (ONE_PACKET_BYTES + 1, Some(4)),
            (COPIED_BYTES_MAX, Some(4)),
            (COPIED_BYTES_MAX + 1, None),
        ] {
            assert_eq!(times(&Copies::cheaper(), &slice(len)), expect, "{len}");
        }
    }

    #[test]
    fn a_copy_is_that_of_the_slice() {
        let (copies, all) = (Copies::cheaper(), slice(80_000));
        assert_eq!(times(&copies, &all), Some(4));
        let part = |offset, len| copy(&copies, &FileSlice { offset, len, ..all.clone() });
        let expected: Vec<u8> = (0..80_000).map(|at| (at % 251) as u8).collect();
        assert!(part(0, 80_000).unwrap() == expected);
        assert!(part(10_001, 69_999).unwrap() == expected[10_001..]);
        assert_eq!((part(10_001, 70_000), part(70_000, 10_000)), (None, None));
    }

    #[test]
    fn more_files_than_fit_are_not_copied_in_turns_and_the_most_requested_one_stays() {
        let (copies, most) = (Copies::cheaper(), slice(70_000));
        let others: Vec<_> = (0..2 * FILES_MAX).map(|_| slice(70_000)).collect();
        assert!((0..10).all(|_| others.iter().all(|other| copy(&copies, other).is_none())));
        assert_eq!(times(&copies, &most), Some(4));
        for other in others.iter().cycle().take(50) {
            assert!((0..4).all(|_| copy(&copies, &most).is_some()));
            assert!(copy(&copies, other).is_none());
        }
        assert_eq!(times(&copies, &others[0]), Some(4));
    }

    #[test]
    fn a_file_that_may_have_another_version_or_is_shorter_now_is_not_copied() {
        for passage in [Passage::System, Passage::Copy] {
            assert_eq!(times(&Copies::cheaper(), &slice_of(70_000, passage)), None, "{passage:?}");
        }
        let shorter = slice(70_000);
        shorter.file.file.set_len(69_999).unwrap();
        assert_eq!(times(&Copies::cheaper(), &shorter), None);
    }

    #[test]
    fn a_copy_is_kept_while_both_ways_are_timed_and_not_where_the_pages_are_cheaper() {
        let slice = slice(70_000);
        for (choice, kept) in [(SendChoice::default(), 1), (SendChoice::won_by(Way::Pages), 0)] {
            let copies = Copies::cheaper();
            assert_eq!(times(&copies, &slice), Some(4));
            let copies = Copies { choice, ..copies };
            assert!(copies.begin_send(&slice).is_some_and(|send| send.copy.is_none()));
            let known = copies.known.borrow();
            assert_eq!(known.iter().filter(|known| known.copy.is_some()).count(), kept);
        }
    }
}
