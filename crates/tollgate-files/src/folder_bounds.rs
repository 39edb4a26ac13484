//! Where a folder that is served may lie: in the folder of its app, and apart from the files that the server
//! writes and runs. Links do not change that. The caller checks it when it reads a configuration. The file
//! handler checks it again each time it looks the folder up.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bounds of a folder that is served. They also hold for a folder that takes its place later.
#[derive(Debug, Clone, Default)]
pub struct FolderBounds {
    /// The folder of its app, which it must lie in. None: it may lie anywhere.
    pub within: Option<PathBuf>,
    /// Files and folders of the server. It neither holds one of them nor lies in one.
    pub own: Arc<[OwnFile]>,
}

/// A file or a folder of the server, with its name in error texts.
#[derive(Debug, Clone)]
pub struct OwnFile {
    name: String,
    path: PathBuf,
    /// Where the path led when this value was made.
    found: PathBuf,
}

impl FolderBounds {
    /// Returns which bound a folder breaks, by its path without links. None: it may be served.
    pub(crate) fn breach(&self, found: &Path) -> Option<String> {
        if let Some(within) = &self.within
            && !fs::canonicalize(within).is_ok_and(|within| found.starts_with(within))
        {
            let (found, within) = (found.display(), within.display());
            return Some(format!(
                "{found} is outside of the app, allowed is what lies in its folder: {within}"
            ));
        }
        let reached = OwnFile::reached(&self.own, found);
        let (found, reached) = (found.display(), (!reached.is_empty()).then(|| reached.join(", "))?);
        Some(format!("{found} is not apart from what nobody may fetch: {reached}"))
    }
}

impl OwnFile {
    /// Makes it for a path. Nothing has to be there yet.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: name.into(), found: resolved(&path), path }
    }

    /// Lists those of `own` that lie in a folder or around it, as `NAME (PATH)`. Links are followed. A path
    /// with several names is listed once, with the first of them.
    pub fn reached_from(own: &[Self], folder: &Path) -> Vec<String> {
        Self::reached(own, &resolved(folder))
    }

    fn reached(own: &[Self], found: &Path) -> Vec<String> {
        let mut known = Vec::new();
        let meet = |own: &Path| own.starts_with(found) || found.starts_with(own);
        // Where it leads now is another place, after a release took the place of the one before: both are its
        // own.
        let is_reached = |own: &&Self| meet(&own.found) || meet(&resolved(&own.path));
        let reached = own.iter().filter(is_reached).filter(|own| {
            let is_new = !known.contains(&&own.path);
            known.push(&own.path);
            is_new
        });
        reached.map(|own| format!("{} ({})", own.name, own.path.display())).collect()
    }
}

/// Where a path leads, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match there {
        Some((above, found)) => path.strip_prefix(above).map_or(found.clone(), |rest| found.join(rest)),
        None => path.to_owned(),
    }
}
