//! The store of a ship target.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tollgate_log::LogOptions;
use tollgate_ship::{
    FolderStore, NodeName, ObjectStore, Pacer, Store, VolumeOptions, VolumeStore, VolumeWatch,
};

use crate::config::{Objects, ShipConfig, StorePlace, Volumes};

/// Folder of the lists and answers of volumes, in the log folder. Its name is not the id of a log.
const VOLUMES: &str = "volumes";
/// Shortest interval between two looks at the folders of volumes.
const LOOK: Duration = Duration::from_secs(1);

/// The store of a ship target, and the state of its volumes if it has any.
pub(crate) struct OpenStore {
    pub(crate) store: Box<dyn Store>,
    pub(crate) volumes: Option<VolumeWatch>,
}

/// Makes the store of a ship target. It may be away: the target waits for it.
///
/// # Errors
/// A file that the configuration named is gone since it was read, or the memory of volumes cannot be used.
pub(crate) fn open_store(ship: &ShipConfig, log: &LogOptions) -> anyhow::Result<OpenStore> {
    Ok(match &ship.place {
        StorePlace::Folder(folder) => {
            OpenStore { store: Box::new(FolderStore::new(folder, pacer_of(ship))), volumes: None }
        }
        StorePlace::Volumes(volumes) => {
            let store = VolumeStore::open(volume_options(ship, volumes, log)?, pacer_of(ship))
                .with_context(|| format!("cannot use the memory of {ship}"))?;
            let watch = store.watch();
            OpenStore { store: Box::new(store), volumes: Some(watch) }
        }
        StorePlace::Objects(objects) => {
            OpenStore { store: Box::new(open_objects(ship, objects)?), volumes: None }
        }
    })
}

fn volume_options(ship: &ShipConfig, volumes: &Volumes, log: &LogOptions) -> anyhow::Result<VolumeOptions> {
    Ok(VolumeOptions {
        folders: volumes.folders.clone(),
        same_device: volumes.same_device,
        home: volume_home(ship, log),
        logs: log.dir.clone(),
        node: node_of(log)?,
        sinks: ship.sinks().to_vec(),
        bytes_max: volumes.bytes_max,
        age_max: volumes.age_max,
        on_full: volumes.on_full(),
        look: LOOK.min(ship.poll),
    })
}

/// Returns the folder where this machine remembers its volumes: which ones are away, and the answers.
///
/// It is in the log folder, because it is worth as much as the segments: without it, segments are sent again.
pub(crate) fn volume_home(ship: &ShipConfig, log: &LogOptions) -> PathBuf {
    log.dir.join(VOLUMES).join(&ship.name)
}

/// Returns the name of this machine in stores.
///
/// # Errors
/// The configuration gives the machine no name.
pub(crate) fn node_of(log: &LogOptions) -> anyhow::Result<NodeName> {
    NodeName::encode(&log.node).context("node in [log] is empty")
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
