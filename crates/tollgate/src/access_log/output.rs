//! The file of the access log, or stdout.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::config::AccessDestination;

/// Permissions of a new file: other users of the machine cannot read it.
const MODE: u32 = 0o640;

/// Opens a destination.
///
/// # Errors
/// The system does not open the file. A named pipe without a reader is such a file.
pub(super) fn open(destination: &AccessDestination) -> io::Result<File> {
    let path = match destination {
        AccessDestination::Stdout => return Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        AccessDestination::File(path) => path,
    };
    // Without NONBLOCK, the open of a named pipe would wait for a reader.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// An open destination.
pub(crate) struct AccessOutput {
    pub(super) destination: AccessDestination,
    file: File,
    /// Whether the last write failed, so that the file may end inside a line.
    is_torn: bool,
}

impl AccessOutput {
    pub(super) fn new(destination: AccessDestination, file: File) -> Self {
        Self { destination, file, is_torn: false }
    }

    /// Opens the file again, because another program moved it. If this fails, the present file stays open.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let file = open(&self.destination)?;
        (self.file, self.is_torn) = (file, false);
        Ok(())
    }

    /// Writes whole lines. After a failure, the next lines begin on a new line.
    pub(super) fn write(&mut self, lines: &str) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        let written = self.file.write_all(lines.as_bytes());
        self.is_torn = written.is_err();
        written
    }
}
