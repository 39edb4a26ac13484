//! An object store as a warehouse.

use tollgate_lake::iceberg::{FoundObject, Objects};
use tollgate_lake::{Created, LakeError};
use tollgate_ship::{Content, ObjectStore, StoreError};

use crate::sink::parquet::created_of;

/// Maximum bytes of a metadata file, a manifest or a manifest list.
const BYTES_MAX: u64 = 1 << 30;

/// An object store as a warehouse.
pub(super) struct StoreObjects {
    store: ObjectStore,
    address: String,
}

impl StoreObjects {
    pub(super) const fn new(store: ObjectStore, address: String) -> Self {
        Self { store, address }
    }
}

impl Objects for StoreObjects {
    fn address(&self) -> &str {
        &self.address
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, LakeError> {
        self.store.create_object(name, Content::Bytes(bytes), None).map(created_of).map_err(failed(name))
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), LakeError> {
        self.store.replace_object(name, text).map_err(failed(name))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LakeError> {
        self.store.object_bytes(name, BYTES_MAX).map_err(failed(name))
    }

    fn size(&self, name: &str) -> Result<Option<u64>, LakeError> {
        self.store.size_of_object(name).map_err(failed(name))
    }

    fn walk(&self, prefix: &str) -> Result<Vec<FoundObject>, LakeError> {
        let objects = self.store.objects_below(prefix).map_err(failed(prefix))?.into_iter();
        // A time ahead of this clock is no age, so the object stays.
        let found = |(name, written): (String, std::time::SystemTime)| {
            let age = written.elapsed().unwrap_or_default();
            FoundObject { name, age }
        };
        Ok(objects.map(found).collect())
    }

    fn remove(&self, name: &str) -> Result<(), LakeError> {
        self.store.remove_object(name).map_err(failed(name))
    }
}

fn failed(name: &str) -> impl FnOnce(StoreError) -> LakeError {
    LakeError::call("reach", name)
}
