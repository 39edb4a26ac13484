//! Small text files in a folder of logs, which are read as a whole and replaced as a whole.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;

use crate::error::LogError;
use crate::storage::Storage;

/// Reads a file, at most `bytes_max`. A missing file has no text.
///
/// # Errors
/// The file exists and cannot be read.
pub(crate) fn read_note(storage: &dyn Storage, path: &Path, bytes_max: u64) -> Result<String, LogError> {
    let read = || {
        let file = storage.open_read(path)?;
        let mut text = vec![0; file.size()?.min(bytes_max) as usize];
        let read = file.read_at(0, &mut text)?;
        text.truncate(read);
        Ok(text)
    };
    match read().map_err(LogError::io("read", path)) {
        Err(error) if error.is_not_found() => Ok(String::new()),
        text => Ok(String::from_utf8_lossy(&text?).into_owned()),
    }
}

/// Replaces the text of a file. The new text is on disk when this function returns.
///
/// # Errors
/// The file cannot be written. It then has the text of before, or the new one.
pub(crate) fn replace_note(
    storage: &dyn Storage,
    dir: &Path,
    name: &str,
    text: &str,
) -> Result<(), LogError> {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
    let create = || match storage.create(&new) {
        // The file is from a run that ended before it renamed the file.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            storage.remove(&new)?;
            storage.create(&new)
        }
        file => file,
    };
    let write = || {
        let file = create()?;
        file.write_at(0, &mut [IoSlice::new(text.as_bytes())])?;
        file.sync()
    };
    write().map_err(LogError::io("write", &new))?;
    storage.rename(&new, &path).map_err(LogError::io("rename", &new))?;
    storage.sync_folder(dir).map_err(LogError::io("sync", dir))
}
