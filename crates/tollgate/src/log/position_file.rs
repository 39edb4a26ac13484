//! The position file: the position up to which each log is printed, so that a later run can continue there.
//!
//! The file is text. Its first line is `tollgate-position 1`. Then each log has a line: its id, the number of
//! its last printed record, and the chained checksum there in hexadecimal, or `-` without one. If no record
//! of a log is printed, `passed` follows its id.
//!
//! A position is written only after its lines have been written and, if stdout is a file, synced. If stdout
//! is a pipe, the position is written after the reader has read these lines. So the file is never ahead of
//! the reader. A new file is written and synced, then it replaces the old one, then the folder is synced. A
//! crash leaves either the old file or the new one.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::fs::{FileType, fdatasync, fstat};
use rustix::io::ioctl_fionread;
use tollgate_log::{LogId, Position, Sequence};

use super::follower::LogPositions;
use super::output::{Output, is_closed_within};

const HEAD: &str = "tollgate-position 1";
const PASSED: &str = "passed";
const NO_CHAIN: &str = "-";
/// Maximum number of positions that wait for the reader of the pipe.
const WAITING_MAX: usize = 64;
/// Time between two checks whether the reader of the pipe has read all lines.
const PERIOD: Duration = Duration::from_millis(20);

/// Writes the positions of a follower to the position file.
pub(super) struct PositionFile {
    path: PathBuf,
    /// The present text of the position file.
    text: String,
    target: Target,
    /// Number of bytes of the output that were written.
    left: u64,
    /// Positions whose lines were written, each with the number of output bytes up to it.
    waiting: VecDeque<(u64, String)>,
}

/// The kind of stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    File,
    Pipe,
    Other,
}

impl PositionFile {
    /// Reads the position file. Returns `None` for the positions if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub(super) fn open(path: &Path) -> anyhow::Result<(Self, Option<LogPositions>)> {
        let context = || format!("cannot read the position in {}", path.display());
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(context)?,
        };
        let positions = match read(&text) {
            Some(positions) => Some(positions),
            None if text.is_empty() && !path.exists() => None,
            None => bail!("{} is no position file: `log tail --position` makes one", path.display()),
        };
        let target = match fstat(stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::RegularFile) => Target::File,
            Ok(FileType::Fifo) => Target::Pipe,
            _ => Target::Other,
        };
        Ok((Self { path: path.to_owned(), text, target, left: 0, waiting: VecDeque::new() }, positions))
    }

    /// Writes the position at which reading begins, before the first line is printed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn begin(&mut self, positions: &LogPositions) -> anyhow::Result<()> {
        self.write(show(positions))
    }

    /// Flushes the output, and writes the newest position whose lines were written.
    ///
    /// # Errors
    /// The output or the file cannot be written.
    pub(super) fn advance(&mut self, positions: &LogPositions, out: &mut Output<'_>) -> anyhow::Result<()> {
        out.flush()?;
        self.left = out.bytes();
        let text = show(positions);
        if *self.waiting.back().map_or(&self.text, |(_, text)| text) != text {
            // The new position replaces the newest waiting position, because it covers all its records.
            self.waiting.truncate(WAITING_MAX - 1);
            self.waiting.push_back((self.left, text));
        }
        self.write_taken()
    }

    /// Writes the newest position whose lines the reader has read.
    ///
    /// The pipe may contain bytes of another writer. The written position is then too low, but never too
    /// high.
    pub(super) fn write_taken(&mut self) -> anyhow::Result<()> {
        let unread = match self.target {
            Target::Pipe => ioctl_fionread(stdout()).map_err(io::Error::from)?,
            Target::File | Target::Other => 0,
        };
        let taken = self.left.saturating_sub(unread);
        let mut newest = None;
        while self.waiting.front().is_some_and(|(end, _)| *end <= taken) {
            newest = self.waiting.pop_front();
        }
        let Some((_, text)) = newest else { return Ok(()) };
        if self.target == Target::File {
            fdatasync(stdout()).map_err(io::Error::from).context("cannot sync the output")?;
        }
        self.write(text)
    }

    /// Waits until the reader of the pipe has read every line, or has ended. Writes the last position.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        loop {
            self.write_taken()?;
            if self.waiting.is_empty() || is_closed_within(PERIOD)? {
                return self.write_taken();
            }
        }
    }

    fn write(&mut self, text: String) -> anyhow::Result<()> {
        if text != self.text {
            replace(&self.path, &text)
                .with_context(|| format!("cannot write the position to {}", self.path.display()))?;
            self.text = text;
        }
        Ok(())
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn show(positions: &LogPositions) -> String {
    let line = |(log, position): (&LogId, &Option<Position>)| match position {
        None => format!("{log} {PASSED}\n"),
        Some(Position { last, chain: None }) => format!("{log} {last} {NO_CHAIN}\n"),
        Some(Position { last, chain: Some(chain) }) => format!("{log} {last} {chain:08x}\n"),
    };
    let lines: String = positions.iter().map(line).collect();
    format!("{HEAD}\n{lines}")
}

/// Parses the text of a file. `None`: the file is not a position file.
fn read(text: &str) -> Option<LogPositions> {
    let lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?;
    lines.lines().map(read_line).collect()
}

fn read_line(line: &str) -> Option<(LogId, Option<Position>)> {
    let (log, place) = line.split_once(' ')?;
    let log = log.parse().ok()?;
    if place == PASSED {
        return Some((log, None));
    }
    let (last, chain) = place.split_once(' ')?;
    let last = Sequence(last.parse().ok()?);
    let chain = if chain == NO_CHAIN { None } else { Some(u32::from_str_radix(chain, 16).ok()?) };
    (last <= Sequence::MAX).then_some((log, Some(Position { last, chain })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_as_they_were_written() {
        let id = |number| LogId::from_bytes([number; 16]);
        let position = |last, chain| Some(Position { last: Sequence(last), chain });
        let positions =
            [(id(1), None), (id(2), position(0, None)), (id(3), position(Sequence::MAX.0, Some(0xab)))];
        let text = show(&positions.into());
        assert_eq!(text.lines().count(), 4);
        assert!(text.ends_with(" 72057594037927935 000000ab\n"), "{text}");
        assert_eq!(read(&text), Some(positions.into()));
        assert_eq!(read("tollgate-position 1\n"), Some(LogPositions::new()));
    }

    #[test]
    fn another_text_is_no_position_file() {
        let log = LogId::from_bytes([1; 16]);
        for wrong in [
            String::new(),
            "{\"n\":1}\n".to_owned(),
            "tollgate-position 1".to_owned(),
            "tollgate-position 2\n".to_owned(),
            format!("{HEAD}\n{log}\n"),
            format!("{HEAD}\n{log} 1\n"),
            format!("{HEAD}\n{log} x -\n"),
            format!("{HEAD}\n{log} 1 xyz\n"),
            format!("{HEAD}\n{log} 72057594037927936 -\n"),
            format!("{HEAD}\nlog 1 -\n"),
        ] {
            assert_eq!(read(&wrong), None, "{wrong:?}");
        }
    }
}
