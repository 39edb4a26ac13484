//! An app stays inside of its folder: the paths of its handlers and scripts are checked and bounded.

use std::fs;
use std::path::Path;

use tollgate_server::{FilesSpec, HandlerSpec, ScriptAccess};

use super::section::Section;

/// Returns the file or folder that a handler reads from.
pub(super) fn own_path(handler: &HandlerSpec) -> Option<&Path> {
    match handler {
        HandlerSpec::Script { file, .. } => Some(file),
        HandlerSpec::Files(files) => Some(&files.root),
        HandlerSpec::Proxy(_)
        | HandlerSpec::Collect(_)
        | HandlerSpec::Reply { .. }
        | HandlerSpec::When(_) => None,
    }
}

/// Adds a fault for each path outside of the folder of an app.
pub(super) fn check_inside<'a>(section: &Section<'_>, paths: impl Iterator<Item = &'a Path>, folder: &Path) {
    paths.filter_map(|path| outside(path, folder)).for_each(|problem| section.fault(problem));
}

fn outside(path: &Path, folder: &Path) -> Option<String> {
    // A missing file is reported by the code that reads it.
    let (found, folder) = (fs::canonicalize(path).ok()?, fs::canonicalize(folder).ok()?);
    let (path, folder_shown) = (path.display(), folder.display());
    (!found.starts_with(&folder))
        .then(|| format!("{path} is outside of the app, allowed are paths in its folder: {folder_shown}"))
}

/// Returns the folders of `access` that `default` does not have.
pub(super) fn access_beyond<'a>(
    access: &'a ScriptAccess,
    default: &'a ScriptAccess,
) -> impl Iterator<Item = &'a Path> {
    fn folders(access: &ScriptAccess) -> [Option<&Path>; 2] {
        let files = access.files.as_ref().map(|files| files.root.as_path());
        [files, access.uploads.as_ref().map(|uploads| uploads.dir.as_path())]
    }
    folders(access).into_iter().zip(folders(default)).filter_map(|(own, known)| own.filter(|_| own != known))
}

/// Bounds the folder whose files scripts send to the folder of the app, unless the mount grants that folder.
pub(super) fn keep_inside(access: &mut ScriptAccess, granted: &ScriptAccess, folder: &Path) {
    let granted = granted.files.as_ref().map(|files| &files.root);
    if let Some(files) = access.files.as_mut().filter(|files| Some(&files.root) != granted) {
        files.bounds.within = Some(folder.to_owned());
    }
}

/// Returns the files that a handler serves.
pub(super) fn served(handler: &mut HandlerSpec) -> Option<&mut FilesSpec> {
    match handler {
        HandlerSpec::Files(files) => Some(files),
        _ => None,
    }
}
