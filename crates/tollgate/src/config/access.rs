//! What scripts may reach outside of their VM: folders, by keys of `[script]` for all routes, and of a route for its own.

use std::path::{Path, PathBuf};

use tollgate_log::LogOptions;
use tollgate_server::{FilesSpec, ScriptAccess, Uploads};

use super::files::checked_dir;
use super::resolved::spool_reserve_bytes;
use super::section::Section;

/// Takes the keys; what is not there is as `default` says. Folders are relative to `folder`.
pub(super) fn access(
    section: &mut Section<'_>,
    folder: &Path,
    log: &LogOptions,
    default: &ScriptAccess,
) -> ScriptAccess {
    let mut dir = |key: &'static str| {
        let dir = section.text(key)?;
        Some(checked_dir(section, key, &dir, folder))
    };
    let files = dir("file_dir").map(|root| Box::new(FilesSpec::new(root)));
    let uploads = dir("upload_dir").map(|dir| uploads(dir, log));
    ScriptAccess {
        files: files.or_else(|| default.files.clone()),
        uploads: uploads.or_else(|| default.uploads.clone()),
    }
}

/// Uploads leave as much of their disk free as spooled bodies do.
pub(super) fn uploads(dir: PathBuf, log: &LogOptions) -> Uploads {
    Uploads { reserve_bytes: spool_reserve_bytes(log, &dir), dir }
}
