//! Calls for the files of tables, of which other programs write some: bytes, sizes, ages, removal.

use std::time::SystemTime;

use futures_util::TryStreamExt;
use object_store::{GetOptions, ObjectStoreExt};

use super::{ObjectStore, failed, found, pieces};
use crate::store::StoreError;

impl ObjectStore {
    /// Reads an object of at most `bytes_max` bytes. `None`: there is no such object.
    ///
    /// # Errors
    /// The store does not answer, or the object has more bytes.
    pub fn object_bytes(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let key = self.free_key(name)?;
        self.run("read", name, bytes_max, async {
            let result = found(self.service.get(&key).await).map_err(failed("read", name))?;
            let Some(result) = result else { return Ok(None) };
            let mut bytes = Vec::new();
            let mut pieces = pieces(result, "read", name, bytes_max)?;
            while let Some(piece) = pieces.next().await? {
                bytes.extend_from_slice(&piece);
            }
            Ok(Some(bytes))
        })
    }

    /// Returns the bytes of an object. `None`: there is no such object.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn size_of_object(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let key = self.free_key(name)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let result = self.run("look at", name, 0, async {
            found(self.service.get_opts(&key, options).await).map_err(failed("look at", name))
        })?;
        Ok(result.map(|found| found.meta.size))
    }

    /// Returns the names of all objects below a prefix that ends in `/`, and when each was written by the
    /// clock of the store.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn objects_below(&self, prefix: &str) -> Result<Vec<(String, SystemTime)>, StoreError> {
        let folder = self.prefix(prefix)?;
        let place = &self.options.place;
        let objects = self.service.list(Some(&folder)).try_filter_map(async |found| {
            let name = place.name(found.location.as_ref());
            Ok(name.map(|name| (name.to_owned(), SystemTime::from(found.last_modified))))
        });
        self.run("list", prefix, 0, async { objects.try_collect().await.map_err(failed("list", prefix)) })
    }

    /// Removes an object. A missing object is no error.
    ///
    /// # Errors
    /// It is unknown whether the object is removed.
    pub fn remove_object(&self, name: &str) -> Result<(), StoreError> {
        let key = self.free_key(name)?;
        self.run("remove", name, 0, async {
            found(self.service.delete(&key).await).map(drop).map_err(failed("remove", name))
        })
    }
}
