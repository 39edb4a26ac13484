//! The stores that commands and configuration name.

use std::path::{Path, absolute};
use std::sync::Arc;

use anyhow::{Context, ensure};
use tollgate_ship::{FolderStore, Pacer, Store};

/// Opens the store that a command names: the path of a folder.
///
/// # Errors
/// The folder does not exist, or the text names another kind of store.
pub(crate) fn open_store(place: &str, bytes_per_second: Option<u64>) -> anyhow::Result<Arc<dyn Store>> {
    ensure!(!place.contains("://"), "store {place:?} is no folder: allowed is the path of a folder");
    let folder = absolute(Path::new(place)).with_context(|| format!("store {place:?}"))?;
    ensure!(folder.is_dir(), "store {} does not exist or is no folder: make or mount it", folder.display());
    Ok(Arc::new(FolderStore::new(folder, Arc::new(Pacer::new(bytes_per_second)))))
}
