//! The store of a ship target.

use std::sync::Arc;

use anyhow::Context;
use tollgate_ship::{FolderStore, ObjectStore, Pacer, Store};

use crate::config::{ShipConfig, StorePlace};

/// Makes the store of a ship target. It may be away: the target waits for it.
///
/// # Errors
/// A file that the configuration named is gone since it was read.
pub(crate) fn open_store(ship: &ShipConfig) -> anyhow::Result<Box<dyn Store>> {
    let pacer = Arc::new(Pacer::new(ship.bytes_per_second));
    match &ship.place {
        StorePlace::Folder(folder) => Ok(Box::new(FolderStore::new(folder, pacer))),
        StorePlace::Objects(objects) => {
            let store = ObjectStore::open(objects.options.clone(), pacer);
            Ok(Box::new(store.with_context(|| format!("cannot use store {ship}"))?))
        }
    }
}
