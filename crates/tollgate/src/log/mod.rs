//! `tollgate log`: prints, follows, checks and repairs logs.
//!
//! Only `repair` changes files of a log. `accept` writes only its own file in the log folder. No command
//! disturbs a server that writes.

mod accept;
mod cat;
mod dump;
mod folder;
mod follower;
mod format;
mod log_order;
mod log_reader;
mod ls;
mod output;
mod position_file;
mod read;
mod repair;
mod tail;
mod verify;

use std::process::ExitCode;

use crate::cli::LogCommand;
pub(crate) use folder::{expect_place, log_folder};
pub(crate) use format::{UnknownStream, push_value};

/// Runs one of the commands.
pub(crate) fn run(command: LogCommand) -> anyhow::Result<ExitCode> {
    match command {
        LogCommand::Ls { dir } => ls::run(&dir),
        LogCommand::Cat { read, log, format } => cat::run(&read, log, format),
        LogCommand::Tail { read, format, lines } => tail::run(&read, format, lines),
        LogCommand::Verify { dir } => verify::run(&dir),
        LogCommand::Accept { files } => accept::run(&files),
        LogCommand::Dump { file } => dump::run(&file),
        LogCommand::Repair { dir, dry_run } => repair::run(&dir, dry_run),
    }
}

#[cfg(test)]
mod tests;
