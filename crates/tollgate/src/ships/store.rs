//! The store of a ship target.

use std::sync::Arc;

use tollgate_ship::{FolderStore, Pacer, Store};

use crate::config::{ShipConfig, StorePlace};

/// Makes the store of a ship target. It may be away: the target waits for it.
pub(super) fn open_store(ship: &ShipConfig) -> Box<dyn Store> {
    let pacer = Arc::new(Pacer::new(ship.bytes_per_second));
    match &ship.place {
        StorePlace::Folder(folder) => Box::new(FolderStore::new(folder, pacer)),
    }
}
