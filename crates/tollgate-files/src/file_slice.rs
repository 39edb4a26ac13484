//! Slices of files that are sent in replies. A worker reads and sends the slices that are in memory. A worker
//! must not wait for the disk, so threads read all other slices.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Maximum length of data that a thread reads into memory at once, in bytes.
const AHEAD_BYTES: u64 = 1 << 20;
/// Distance of the pages that are probed, in bytes. The system reads and evicts larger pieces, so the pages
/// between two probed pages are likely to be in memory, too.
const PROBE_BYTES: u64 = 32 << 10;
/// Maximum size of a file that is probed as a whole, in bytes. The result of the probe is used for
/// `SEEN_TICKS` ticks of the clock. The system seldom evicts pages that were just sent.
const SEEN_BYTES_MAX: u64 = 1 << 20;
const SEEN_TICKS: u32 = 4;

/// An open file whose content is sent.
#[derive(Debug)]
pub struct SentFile {
    /// The open file.
    pub file: File,
    /// How its bytes are sent to the peer.
    pub passage: Passage,
    /// Length of the file when it was opened, in bytes.
    len: u64,
    /// The tick until which the whole file is treated as in memory.
    seen_until: AtomicU32,
}

impl SentFile {
    /// Creates the state for an open file of `len` bytes.
    pub fn new(file: File, len: u64, passage: Passage) -> Self {
        Self { file, passage, len, seen_until: AtomicU32::new(0) }
    }
}

/// How the bytes of a file are sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// The kernel copies the bytes to the socket (sendfile), if the connection supports this.
    System,
    /// The worker reads the bytes into memory and writes them to the socket.
    Copy,
}

/// A range of an open file. The file may have become shorter since it was opened.
#[derive(Debug, Clone)]
pub struct FileSlice {
    /// The open file of which the range is a part.
    pub file: Arc<SentFile>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length of the slice in bytes.
    pub len: u64,
}

impl FileSlice {
    /// Returns the first `len` bytes of the slice, or the whole slice if it is shorter.
    #[inline]
    pub fn first(&self, len: u64) -> Self {
        Self { len: self.len.min(len), ..self.clone() }
    }

    fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Removes the first `bytes` bytes of the slice.
    ///
    /// # Panics
    /// A build with overflow checks panics if the slice is shorter than `bytes`.
    #[inline]
    pub fn advance(&mut self, bytes: u64) {
        self.offset += bytes;
        self.len -= bytes;
    }

    /// Returns whether the slice can be read without waiting for a disk. If the system does not support the
    /// question, the result is true.
    ///
    /// `tick` is the time of the caller's coarse clock. For a file up to `SEEN_BYTES_MAX`, the result is
    /// cached for `SEEN_TICKS` ticks.
    ///
    /// Source: preadv2(2), `RWF_NOWAIT`.
    #[inline]
    pub fn is_in_memory(&self, tick: u32) -> bool {
        let SentFile { len, seen_until, .. } = &*self.file;
        if *len > SEEN_BYTES_MAX {
            return self.is_seen();
        }
        let left = seen_until.load(Ordering::Relaxed).wrapping_sub(tick);
        if (1..=SEEN_TICKS).contains(&left) {
            return true;
        }
        if !(Self { file: self.file.clone(), offset: 0, len: *len }).is_seen() {
            return self.is_seen();
        }
        seen_until.store(tick.wrapping_add(SEEN_TICKS), Ordering::Relaxed);
        true
    }

    /// Probes the pages of the slice.
    fn is_seen(&self) -> bool {
        let Some(last) = self.len.checked_sub(1) else { return true };
        let places = (0..last).step_by(PROBE_BYTES as usize).chain([last]);
        places.map(|place| self.offset + place).all(|place| {
            let mut byte = [0];
            !matches!(read_in_memory(&self.file.file, &mut byte, place), Err(Errno::AGAIN))
        })
    }

    /// Reads the whole slice in pieces, and waits for the disk. Only threads that may wait call this.
    ///
    /// # Errors
    /// The file cannot be read, or has become shorter (`UnexpectedEof`).
    pub fn read_through(&self, taker: impl FnMut(&[u8])) -> io::Result<()> {
        let end = self.end();
        let read_to = read_through(&self.file.file, self.offset, end, taker)?;
        if read_to == end { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Makes a thread read into memory the slice and the data after it, up to 1 MiB in all.
    ///
    /// A failure is not returned, because sending the slice meets the same failure.
    ///
    /// # Cancel safety
    /// After a drop of the future, the thread continues to read.
    pub async fn bring(&self) {
        let file = self.file.clone();
        let (offset, end) = (self.offset, self.offset + self.len.max(AHEAD_BYTES));
        let brought = tokio::task::spawn_blocking(move || read_through(&file.file, offset, end, |_| {}));
        if let Ok(Err(error)) = brought.await {
            tracing::debug!(%error, "a file cannot be read ahead");
        }
    }
}

/// Reads the bytes that are in memory. If the system does not support this question, all bytes are read.
///
/// # Errors
/// `AGAIN` if none of them is in memory.
pub(crate) fn read_in_memory(file: &File, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
    match preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => rustix::io::pread(file, buffer, offset),
        read => read,
    }
}

/// Reads the whole of a file of `len` bytes. `None` if the file is not completely in memory, or has another
/// length.
pub(crate) fn read_at_once(file: &File, len: u64) -> Option<Bytes> {
    let mut content = vec![0; usize::try_from(len).ok()?];
    let read = if content.is_empty() { Ok(0) } else { read_in_memory(file, &mut content, 0) };
    (read == Ok(content.len())).then(|| content.into())
}

/// Reads up to `end` or the end of the file, and returns the final offset.
fn read_through(file: &File, mut offset: u64, end: u64, mut taker: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    while offset < end {
        let most = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
        match file.read_at(&mut buffer[..most], offset)? {
            0 => break,
            bytes => {
                taker(&buffer[..bytes]);
                offset += bytes as u64;
            }
        }
    }
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Advice, fadvise, fstatfs};

    use super::*;

    /// `f_type` of a file system in memory: statfs(2), TMPFS_MAGIC.
    const TMPFS: i64 = 0x0102_1994;

    /// Creates a file of this size in the folder of the source code, which is usually on a disk. The folder
    /// of temporary files may be in memory.
    fn slice(bytes: usize) -> FileSlice {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all_at(&vec![7; bytes], 0).unwrap();
        file.sync_all().unwrap();
        let file = Arc::new(SentFile::new(file, bytes as u64, Passage::System));
        FileSlice { file, offset: 0, len: bytes as u64 }
    }

    /// Returns whether the slice is reported as absent from memory after one of many evictions.
    ///
    /// The system reads ahead, and a fast disk may have restored the pages before the check. Each attempt
    /// uses a tick for which no result is cached.
    fn goes_away(slice: &FileSlice, is_away: impl Fn(&FileSlice, u32) -> bool) -> bool {
        (1..=100).any(|time| {
            fadvise(&slice.file.file, 0, None, Advice::DontNeed).unwrap();
            is_away(slice, time * (SEEN_TICKS + 1))
        })
    }

    fn can_go_away(slice: &FileSlice) -> bool {
        fstatfs(&slice.file.file).unwrap().f_type != TMPFS
    }

    #[test]
    fn a_slice_outside_of_memory_is_noticed_and_read_by_a_thread() {
        let slice = slice(3 << 20);
        let first_bytes = |slice: &FileSlice| read_in_memory(&slice.file.file, &mut [0; 10], 0);
        assert_eq!(
            goes_away(&slice, |slice, _| first_bytes(slice) == Err(Errno::AGAIN)),
            can_go_away(&slice)
        );
        assert_eq!(goes_away(&slice, |slice, tick| !slice.is_in_memory(tick)), can_go_away(&slice));
        let part = slice.first(100 << 10);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(part.bring());
        assert!(part.is_in_memory(0));
        assert!(slice.first(AHEAD_BYTES).is_in_memory(0));
        assert_eq!(first_bytes(&slice), Ok(10));
    }

    #[test]
    fn an_end_that_is_not_in_memory_is_seen_too() {
        let mut slice = slice(256 << 10);
        // Without reading ahead, only the page itself is read.
        fadvise(&slice.file.file, 0, None, Advice::Random).unwrap();
        let only_the_first_page_is_there = |slice: &FileSlice, tick| {
            slice.file.file.read_at(&mut [0], 0).unwrap();
            slice.first(1).is_seen() && !slice.is_in_memory(tick)
        };
        assert_eq!(goes_away(&slice, only_the_first_page_is_there), can_go_away(&slice));
        slice.advance(256 << 10);
        assert!(slice.is_in_memory(0));
    }
}
