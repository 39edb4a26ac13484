//! The common part of `log cat` and `log tail`: where to begin, signals, and the position file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use tollgate_log::LogId;

use super::follower::{Follower, Reach, Start};
use super::format::Printer;
use super::output::Output;
use super::position_file::PositionFile;
use crate::cli::{ReadCommand, Since};
use crate::print::{is_broken_pipe, to_stdout};
use crate::wall;

/// Exit code if a second signal ends the command at once.
const INTERRUPTED: i32 = 1;

/// Returns a flag that SIGINT and SIGTERM set. A second signal ends the process at once.
pub(super) fn end_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal finds the flag unset.
        flag::register_conditional_shutdown(signal, INTERRUPTED, is_ended.clone())
            .and_then(|_| flag::register(signal, is_ended.clone()))
            .context("cannot listen for signals")?;
    }
    Ok(is_ended)
}

/// Returns the place that the options name. `None` without an option.
pub(super) fn start_of(read: &ReadCommand) -> Option<Start> {
    match (read.from, read.since) {
        (Some(from), _) => Some(Start::From(from.log, from.sequence)),
        (None, Some(Since::At(us))) => Some(Start::Since(us)),
        (None, Some(Since::Ago(ago))) => {
            let time = wall::now().checked_sub(ago).unwrap_or(jiff::Timestamp::MIN);
            Some(Start::Since(time.as_microsecond()))
        }
        (None, None) => None,
    }
}

/// Logs that are read and printed.
pub(super) struct Reading {
    follower: Follower,
    printer: Printer,
    file: Option<PositionFile>,
    /// Whether a position file said where to begin.
    is_resumed: bool,
}

impl Reading {
    /// Opens the logs at the place in the position file, or at `start` without one.
    ///
    /// # Errors
    /// The logs or the position file cannot be read, or the file cannot be written.
    pub(super) fn new(
        read: &ReadCommand,
        dir: &Path,
        mut printer: Printer,
        reach: Reach,
        only: Option<LogId>,
        start: Start,
    ) -> anyhow::Result<Self> {
        if read.no_header {
            printer.leave_header_out()?;
        }
        let (file, positions) = match &read.position {
            Some(path) => PositionFile::open(path).map(|(file, positions)| (Some(file), positions))?,
            None => (None, None),
        };
        let is_resumed = positions.is_some();
        let follower = Follower::new(dir, reach, only, &positions.map_or(start, Start::Resume))?;
        let mut reading = Self { follower, printer, file, is_resumed };
        if let Some(file) = &mut reading.file {
            file.begin(&reading.follower.positions())?;
        }
        Ok(reading)
    }

    /// Prints to stdout what `looks` finds by calls of [`Self::look`], then returns what `end` returns.
    ///
    /// # Errors
    /// Those of `looks` and `end`. A closed pipe is success.
    pub(super) fn print(
        mut self,
        looks: impl FnOnce(&mut Self, &mut Output<'_>) -> anyhow::Result<()>,
        end: impl FnOnce(&Self) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        to_stdout(|out| {
            let mut out = Output::new(out);
            let result = self.print_all(looks, &mut out);
            if let (Err(error), Some(file)) = (&result, &mut self.file)
                && is_broken_pipe(error)
            {
                file.write_taken()?;
            }
            result?;
            end(&self)
        })
    }

    /// Returns failure if a record was missing.
    ///
    /// # Errors
    /// The stream of the command line is unknown. After a position file this is not checked, because the
    /// records of the stream may all be before the position.
    pub(super) fn verdict(&self) -> anyhow::Result<ExitCode> {
        if !self.follower.is_whole() {
            return Ok(ExitCode::FAILURE);
        }
        if !self.is_resumed {
            self.printer.expect_stream()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print_all(
        &mut self,
        looks: impl FnOnce(&mut Self, &mut Output<'_>) -> anyhow::Result<()>,
        out: &mut Output<'_>,
    ) -> anyhow::Result<()> {
        self.printer.begin(out)?;
        looks(self, out)?;
        self.advance(out)?;
        self.printer.finish();
        self.file.as_mut().map_or(Ok(()), PositionFile::finish)
    }

    /// Prints a chunk of the records since the last look. Returns whether there may be more.
    ///
    /// # Errors
    /// The folder cannot be read, or the output or the position file cannot be written.
    pub(super) fn look(&mut self, out: &mut Output<'_>) -> anyhow::Result<bool> {
        let has_more = self.follower.look(&mut self.printer, out)?;
        self.advance(out)?;
        Ok(has_more)
    }

    fn advance(&mut self, out: &mut Output<'_>) -> anyhow::Result<()> {
        match &mut self.file {
            Some(file) => file.advance(&self.follower.positions(), out),
            None => Ok(std::io::Write::flush(out)?),
        }
    }
}
