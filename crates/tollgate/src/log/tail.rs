//! `tollgate log tail`: follows the records that a server writes, until SIGINT or SIGTERM.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::folder::LogFolder;
use super::follower::{Reach, Start};
use super::format::Printer;
use super::output::is_closed_within;
use super::read::{Reading, end_flag, start_of};
use crate::cli::{ReadCommand, RecordFormat};
use crate::control::{Silence, ask};
use crate::print::note;

/// Time between two checks for new records.
const PERIOD: Duration = Duration::from_millis(100);
/// Number of records before the end that are printed first, if no option says where to begin.
const LINES: u64 = 10;

/// Prints the records from a place on, then all new records.
pub(super) fn run(read: &ReadCommand, format: RecordFormat, lines: Option<u64>) -> anyhow::Result<ExitCode> {
    let is_ended = end_flag()?;
    let LogFolder { dir, config } = LogFolder::find(&read.dir)?;
    if ask(&dir) == Err(Silence::Denied) {
        note(&format!("{}: only sealed segments are shown", Silence::Denied.describe(&dir)));
    }
    let printer = Printer::new(format, read.stream.as_deref(), config.as_ref())?;
    let start = start_of(read).or(lines.map(Start::Last)).unwrap_or(match read.position {
        Some(_) => Start::Kept,
        None => Start::Last(LINES),
    });
    Reading::new(read, &dir, printer, Reach::Synced, None, start)?.print(
        |reading, out| {
            while !is_ended.load(Ordering::Relaxed) {
                // Without new records there is no write, so no failed write shows that the reader has ended.
                if !reading.look(out)? && is_closed_within(PERIOD)? {
                    break;
                }
            }
            Ok(())
        },
        |_| Ok(ExitCode::SUCCESS),
    )
}
