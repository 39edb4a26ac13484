//! The writes of a volume's own files, in steps. A test ends a run after any step, as a crash would.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use tollgate_log::{FILE_MODE, FOLDER_MODE};

/// Writes a text file whole: the file is the old one or the new one at every moment, also after a power cut.
pub(super) fn write_text(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let (new, target) = (folder.join(format!("{name}.new")), folder.join(name));
    remove_if_there(&new)?;
    step()?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&new)?;
    step()?;
    file.write_all(text.as_bytes())?;
    step()?;
    file.sync_all()?;
    step()?;
    fs::rename(&new, &target)?;
    step()?;
    sync_folder(folder)?;
    step()
}

/// Reads a text file. `None`: there is none. Refuses a link, and a file with more than `bytes_max` bytes.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() || found.len() > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of a possible size"));
    }
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Makes the folders of a file below a root, and syncs each name. The names above the root are not synced.
pub(super) fn make_folders(root: &Path, file: &Path) -> io::Result<()> {
    let below: Vec<_> = file.ancestors().skip(1).take_while(|folder| *folder != root).collect();
    for folder in below.into_iter().rev() {
        match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => sync_folder(folder.parent().unwrap_or(root))?,
        }
        step()?;
    }
    Ok(())
}

/// Unlinks a file, and syncs its folder. A missing file is no error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    remove_if_there(path)?;
    step()?;
    // The folder is missing if an earlier run removed it.
    match path.parent().map_or(Ok(()), sync_folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => step(),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Syncs the names in a folder.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Ends a step. Fails after the step at which a test wants a crash, and at each step after that one.
pub(super) fn step() -> io::Result<()> {
    #[cfg(test)]
    crash::step()?;
    Ok(())
}

/// A crash after a number of steps, for the thread of one test.
#[cfg(test)]
pub(super) mod crash {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// Steps until the crash. `None`: there is none.
        static STEPS: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn step() -> io::Result<()> {
        match STEPS.get() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the test ends this run here")),
            Some(steps) => {
                STEPS.set(Some(steps - 1));
                Ok(())
            }
        }
    }

    /// Runs the closure, and crashes it after this number of steps. Returns whether it crashed.
    pub(in crate::volume) fn after(steps: u32, run: impl FnOnce()) -> bool {
        STEPS.set(Some(steps));
        run();
        STEPS.replace(None) == Some(0)
    }
}
