//! The store of a ship target.

use std::sync::Arc;

use anyhow::Context;
use tollgate_ship::{FolderStore, ObjectStore, Pacer, Store};

use crate::config::{Objects, ShipConfig, StorePlace};

/// Makes the store of a ship target. It may be away: the target waits for it.
///
/// # Errors
/// A file that the configuration named is gone since it was read.
pub(crate) fn open_store(ship: &ShipConfig) -> anyhow::Result<Box<dyn Store>> {
    match &ship.place {
        StorePlace::Folder(folder) => Ok(Box::new(FolderStore::new(folder, pacer_of(ship)))),
        StorePlace::Objects(objects) => Ok(Box::new(open_objects(ship, objects)?)),
    }
}

/// Makes the object store of a ship target.
///
/// # Errors
/// A file that the configuration named is gone since it was read.
pub(crate) fn open_objects(ship: &ShipConfig, objects: &Objects) -> anyhow::Result<ObjectStore> {
    let store = ObjectStore::open(objects.options.clone(), pacer_of(ship));
    store.with_context(|| format!("cannot use store {ship}"))
}

fn pacer_of(ship: &ShipConfig) -> Arc<Pacer> {
    Arc::new(Pacer::new(ship.bytes_per_second))
}
