//! `<log.dir>/accepted`: the damaged segments that an operator has seen and accepted.
//!
//! Each start reports the damaged segments of earlier runs, because nothing else shows that their records may
//! be lost. A segment in this file is not reported any more. The file stores a checksum of the segment, so a
//! segment that is damaged further, or restored and damaged again, is reported again. A start does not need
//! the file. Without the file the segments are reported.
//!
//! The file is text with one line for each segment: the id of its log, its file name, and its CRC32C in
//! hexadecimal. A line that cannot be read is skipped.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::LogError;
use crate::id::LogId;
use crate::note_file::{read_note, replace_note};
use crate::segment::SegmentName;
use crate::storage::Storage;

const NAME: &str = "accepted";
/// Maximum bytes of the file that are read: about 13,000 segments. A line has at most 76 bytes.
const BYTES_MAX: u64 = 1 << 20;
const READ_BYTES: usize = 256 << 10;

/// The accepted segments, each with the checksum that the file of the segment had.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AcceptedDamage {
    checksums: BTreeMap<(LogId, SegmentName), u32>,
}

impl AcceptedDamage {
    /// Reads the file in a folder of logs.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(storage: &dyn Storage, dir: &Path) -> Result<Self, LogError> {
        let text = read_note(storage, &dir.join(NAME), BYTES_MAX)?;
        Ok(Self { checksums: text.lines().filter_map(read_line).collect() })
    }

    /// Returns the checksum that a segment had when it was accepted.
    pub fn checksum_of(&self, log: LogId, name: SegmentName) -> Option<u32> {
        self.checksums.get(&(log, name)).copied()
    }

    /// Returns whether the damage of a segment is accepted, and the segment is the same as then.
    ///
    /// # Errors
    /// The segment cannot be read.
    pub fn covers(
        &self,
        storage: &dyn Storage,
        dir: &Path,
        log: LogId,
        name: SegmentName,
    ) -> Result<bool, LogError> {
        let Some(accepted) = self.checksum_of(log, name) else { return Ok(false) };
        Ok(checksum(storage, &name.path(&dir.join(log.to_string())))? == accepted)
    }

    /// Accepts the damage of a segment. The note is on disk when this function returns.
    ///
    /// # Errors
    /// The segment cannot be read, or the file cannot be written.
    pub fn accept(
        mut self,
        storage: &dyn Storage,
        dir: &Path,
        log: LogId,
        name: SegmentName,
    ) -> Result<(), LogError> {
        let checksum = checksum(storage, &name.path(&dir.join(log.to_string())))?;
        self.checksums.insert((log, name), checksum);
        let line =
            |((log, name), checksum): (&(LogId, SegmentName), &u32)| format!("{log} {name} {checksum:08x}\n");
        replace_note(storage, dir, NAME, &self.checksums.iter().map(line).collect::<String>())
    }
}

/// Returns the CRC32C of a whole file.
fn checksum(storage: &dyn Storage, path: &Path) -> Result<u32, LogError> {
    let read = || {
        let file = storage.open_read(path)?;
        let (mut bytes, mut offset, mut checksum) = (vec![0; READ_BYTES], 0, 0);
        loop {
            match file.read_at(offset, &mut bytes)? {
                0 => return Ok(checksum),
                read => {
                    checksum = crc32c::crc32c_append(checksum, &bytes[..read]);
                    offset += read as u64;
                }
            }
        }
    };
    read().map_err(LogError::io("read", path))
}

fn read_line(line: &str) -> Option<((LogId, SegmentName), u32)> {
    let mut words = line.split(' ');
    let (log, name, checksum) = (words.next()?, words.next()?, words.next()?);
    words.next().is_none().then_some(())?;
    Some(((log.parse().ok()?, SegmentName::parse(name)?), u32::from_str_radix(checksum, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::id::Sequence;
    use crate::segment::SegmentState;
    use crate::storage::DiskStorage;

    #[test]
    fn an_accepted_segment_is_covered_until_its_bytes_change() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, log) = (folder.path(), LogId::from_bytes([0x1a; 16]));
        let name = |first| SegmentName { first: Sequence(first), state: SegmentState::Damaged };
        let file = |first| name(first).path(&dir.join(log.to_string()));
        fs::create_dir(dir.join(log.to_string())).unwrap();
        fs::write(file(1), vec![7; READ_BYTES + 9]).unwrap();
        fs::write(file(2), "two").unwrap();
        let read = || AcceptedDamage::read(&DiskStorage, dir).unwrap();
        let covers = |first| read().covers(&DiskStorage, dir, log, name(first)).unwrap();
        assert_eq!(read(), AcceptedDamage::default());
        read().accept(&DiskStorage, dir, log, name(1)).unwrap();
        assert_eq!((covers(1), covers(2)), (true, false));
        read().accept(&DiskStorage, dir, log, name(2)).unwrap();
        assert_eq!((covers(1), covers(2)), (true, true), "the first one stays accepted");
        let mut bytes = fs::read(file(1)).unwrap();
        bytes[READ_BYTES + 3] ^= 1;
        fs::write(file(1), bytes).unwrap();
        assert_eq!((covers(1), covers(2)), (false, true));
        read().accept(&DiskStorage, dir, log, name(1)).unwrap();
        assert!(covers(1), "further damage can be accepted");
        let mut text = fs::read(dir.join(NAME)).unwrap();
        text.splice(0..0, *b"no line\n\xff x y z\n");
        fs::write(dir.join(NAME), text).unwrap();
        assert_eq!((covers(1), covers(2)), (true, true), "other lines are skipped");
    }
}
