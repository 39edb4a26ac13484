//! File names of segments.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::id::Sequence;

/// State of a segment, as its file name shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentState {
    /// The segment is being written, or is closed and not yet sealed.
    Open,
    /// The segment is complete and has its footer.
    Sealed,
    /// Recovery set the segment aside.
    Damaged,
}

impl SegmentState {
    const fn extension(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
            Self::Damaged => "damaged",
        }
    }
}

impl fmt::Display for SegmentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.extension())
    }
}

/// The file name of a segment: the number of its first record, and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Number of the first record of the segment.
    pub first: Sequence,
    /// State of the segment.
    pub state: SegmentState,
}

impl SegmentName {
    /// Parses a file name. Returns `None` if it is not the name of a segment.
    pub fn parse(name: &str) -> Option<Self> {
        let (number, extension) = name.split_once('.')?;
        let state = [SegmentState::Open, SegmentState::Sealed, SegmentState::Damaged]
            .into_iter()
            .find(|state| state.extension() == extension)?;
        let is_number = number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit());
        let first = Sequence(number.parse().ok().filter(|_| is_number)?);
        Some(Self { first, state })
    }

    /// Parses the last part of a path. Returns `None` if it is not the name of a segment.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Self::parse(path.file_name()?.to_str()?)
    }

    /// Returns the path of the segment in the folder of its log.
    pub fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.to_string())
    }

    /// Returns the name of the same segment in another state.
    #[must_use]
    pub const fn with_state(self, state: SegmentState) -> Self {
        Self { state, ..self }
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}.{}", self.first.0, self.state.extension())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_read_strictly() {
        let name = SegmentName { first: Sequence(42), state: SegmentState::Sealed };
        assert_eq!(name.to_string(), "00000000000000000042.sealed");
        assert_eq!(SegmentName::parse("00000000000000000042.sealed"), Some(name));
        for other in ["lock", "42.sealed", "+0000000000000000042.open", "00000000000000000042.sealed.bak"] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }
}
