//! What scripts may reach outside of their VM: folders, by keys of `[script]` for all routes, and of a route for its own.

use std::path::Path;

use tollgate_server::{FilesSpec, ScriptAccess};

use super::files::checked_dir;
use super::section::Section;

/// Takes the keys; what is not there is as `default` says. Folders are relative to `folder`.
pub(super) fn access(section: &mut Section<'_>, folder: &Path, default: &ScriptAccess) -> ScriptAccess {
    let files = section.text("file_dir").map(|dir| {
        let root = checked_dir(section, "file_dir", &dir, folder);
        Box::new(FilesSpec::new(root))
    });
    ScriptAccess { files: files.or_else(|| default.files.clone()) }
}
