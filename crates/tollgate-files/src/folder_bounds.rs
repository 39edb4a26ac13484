//! Bounds on the place of a served folder: it is inside the folder of its app, and separate from the files of
//! the server.
//!
//! The bounds apply to the path without links. The caller checks the bounds when it reads a configuration.
//! The file handler checks them again each time it looks the folder up.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bounds of a served folder. The bounds also apply to a folder that later replaces the served folder.
#[derive(Debug, Clone, Default)]
pub struct FolderBounds {
    /// The folder of the app. The served folder must be inside the folder of the app. `None` allows any
    /// place.
    pub within: Option<PathBuf>,
    /// Files and folders that the server writes and runs. The served folder must not contain such a file or
    /// folder, or be inside such a folder.
    pub own: Arc<[OwnFile]>,
}

/// A file or a folder of the server, with its name in error texts.
#[derive(Debug, Clone)]
pub struct OwnFile {
    name: String,
    path: PathBuf,
    /// The path without links, as it was when this value was created.
    found: PathBuf,
}

impl FolderBounds {
    /// Returns the bound that a folder breaks, or `None`. `found` is the path of the folder without links.
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
        Some(format!("{found} is or contains a path that must not be served: {reached}"))
    }
}

impl OwnFile {
    /// Creates the value for a path, which need not exist yet.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: name.into(), found: resolved(&path), path }
    }

    /// Lists the files and folders of `own` that are inside `folder` or contain it, as `NAME (PATH)`.
    ///
    /// Links are followed. A path that `own` has under several names is listed once, with the first name.
    pub fn reached_from(own: &[Self], folder: &Path) -> Vec<String> {
        Self::reached(own, &resolved(folder))
    }

    fn reached(own: &[Self], found: &Path) -> Vec<String> {
        let mut known = Vec::new();
        let meet = |own: &Path| own.starts_with(found) || found.starts_with(own);
        // A release may have replaced the target of a link in the path. Both the old and the new target
        // belong to the server.
        let is_reached = |own: &&Self| meet(&own.found) || meet(&resolved(&own.path));
        let reached = own.iter().filter(is_reached).filter(|own| {
            let is_new = !known.contains(&&own.path);
            known.push(&own.path);
            is_new
        });
        reached.map(|own| format!("{} ({})", own.name, own.path.display())).collect()
    }
}

/// Resolves the part of a path that exists.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match there {
        Some((above, found)) => path.strip_prefix(above).map_or(found.clone(), |rest| found.join(rest)),
        None => path.to_owned(),
    }
}
