//! A folder for the files of one command, removed at its end.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A folder below the temporary folder of the system (`TMPDIR`). The drop of this value removes the folder.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates an empty folder, for the command of this name.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn make(command: &str) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("tollgate-{command}-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A folder that stays takes space, and has no other effect.
        drop(fs::remove_dir_all(&self.0));
    }
}
