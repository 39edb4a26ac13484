//! Opens the stores that commands name.

use std::path::{Path, absolute};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use tollgate_ship::{FolderStore, ObjectStore, ObjectStoreOptions, Pacer, Store, StorePlace, is_volume};

use crate::cli::StoreArguments;
use crate::config::denial;

/// Maximum bytes of one segment that is read from a store: twice the largest configurable size of a shipped
/// segment.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 2 << 30;

/// Opens the store that a command names: the path of a folder, or the place in an object store.
///
/// # Errors
/// The folder does not exist or is a volume, or the place or its options are wrong.
pub(crate) fn open_store(place: &str, service: &StoreArguments) -> anyhow::Result<Arc<dyn Store>> {
    let pacer = Arc::new(Pacer::new(None));
    if place.contains("://") {
        let place = StorePlace::parse(place)?;
        let StoreArguments { endpoint, region, checksum, ca_file: ca } = service.clone();
        let options = ObjectStoreOptions { endpoint, region, checksum, ca, ..ObjectStoreOptions::new(place) };
        return Ok(Arc::new(ObjectStore::open(options, pacer)?));
    }
    let folder = absolute(Path::new(place)).with_context(|| format!("store {place:?}"))?;
    if let Some(refusal) = denial(&folder) {
        bail!(refusal);
    }
    ensure!(folder.is_dir(), "store {} does not exist or is no folder: make or mount it", folder.display());
    ensure!(
        !is_volume(&folder),
        "store {} is a volume: fill it by `volumes` in [ship.NAME], load it by `tollgate load --from`",
        folder.display()
    );
    Ok(Arc::new(FolderStore::new(folder, pacer)))
}
