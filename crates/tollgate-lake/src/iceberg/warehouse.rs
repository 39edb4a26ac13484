//! The folder or store of all tables: names of objects, their addresses, and calls for whole objects.

use std::time::Duration;

use crate::error::LakeError;
use crate::names::table_folder;
use crate::place::Created;

/// An object of the warehouse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// Name of the object, relative to the warehouse.
    pub name: String,
    /// How long ago it was written, by the clocks of the store and of this machine.
    pub age: Duration,
}

/// Calls for whole objects of a folder or a store.
pub trait Objects: Send + Sync {
    /// Returns the address of the warehouse, as metadata has it: `file:///srv/lake`, `s3://bucket/prefix`.
    fn address(&self) -> &str;

    /// Stores bytes under a new name, durably.
    ///
    /// # Errors
    /// It is unknown whether the bytes are stored.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Created, LakeError>;

    /// Stores a short text under a name, in place of an earlier one.
    ///
    /// # Errors
    /// It is unknown whether the text is stored.
    fn replace(&self, name: &str, text: &str) -> Result<(), LakeError>;

    /// Reads an object. `None`: there is no such object.
    ///
    /// # Errors
    /// The place does not answer.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LakeError>;

    /// Returns the bytes of an object. `None`: there is no such object.
    ///
    /// # Errors
    /// The place does not answer.
    fn size(&self, name: &str) -> Result<Option<u64>, LakeError>;

    /// Returns all objects below a prefix that ends in `/`.
    ///
    /// # Errors
    /// The place does not answer.
    fn walk(&self, prefix: &str) -> Result<Vec<FoundObject>, LakeError>;

    /// Removes an object.
    ///
    /// # Errors
    /// It is unknown whether the object is removed.
    fn remove(&self, name: &str) -> Result<(), LakeError>;
}

/// Reads an object that has to exist.
pub(super) fn needed(objects: &dyn Objects, name: &str) -> Result<Vec<u8>, LakeError> {
    objects.read(name)?.ok_or_else(|| LakeError::Missing { name: name.to_owned() })
}

/// Returns the name of the folder of a table.
pub fn folder_of(namespace: &str, table: &str) -> String {
    format!("{}/{}", table_folder(namespace), table_folder(table))
}

/// Returns the address of an object.
pub(super) fn address_of(objects: &dyn Objects, name: &str) -> String {
    format!("{}/{name}", objects.address().trim_end_matches('/'))
}

/// Returns the name of the object at an address. `None`: it is outside of the warehouse.
pub(super) fn name_at(objects: &dyn Objects, address: &str) -> Option<String> {
    let base = plain(objects.address());
    let rest = plain(address);
    let name = rest.strip_prefix(base.trim_end_matches('/'))?.strip_prefix('/')?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the name of the folder at an address. `None`: it is outside of the warehouse.
pub(super) fn folder_at(objects: &dyn Objects, address: &str) -> Option<String> {
    name_at(objects, address).map(|name| name.trim_end_matches('/').to_owned())
}

/// Returns an address in one form. Engines write `file:/x`, `file:///x` and `/x`, and `s3a://` for `s3://`.
fn plain(address: &str) -> String {
    if let Some(rest) = address.strip_prefix("file:") {
        return format!("/{}", rest.trim_start_matches('/'));
    }
    for scheme in ["s3a://", "s3n://"] {
        if let Some(rest) = address.strip_prefix(scheme) {
            return format!("s3://{rest}");
        }
    }
    address.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(&'static str);

    impl Objects for At {
        fn address(&self) -> &str {
            self.0
        }
        fn create(&self, _: &str, _: &[u8]) -> Result<Created, LakeError> {
            Ok(Created::Stored)
        }
        fn replace(&self, _: &str, _: &str) -> Result<(), LakeError> {
            Ok(())
        }
        fn read(&self, _: &str) -> Result<Option<Vec<u8>>, LakeError> {
            Ok(None)
        }
        fn size(&self, _: &str) -> Result<Option<u64>, LakeError> {
            Ok(None)
        }
        fn walk(&self, _: &str) -> Result<Vec<FoundObject>, LakeError> {
            Ok(Vec::new())
        }
        fn remove(&self, _: &str) -> Result<(), LakeError> {
            Ok(())
        }
    }

    #[test]
    fn an_address_of_any_engine_names_its_object() {
        let folder = At("file:///srv/lake");
        assert_eq!(address_of(&folder, "a/b"), "file:///srv/lake/a/b");
        for address in ["file:///srv/lake/a/b", "file:/srv/lake/a/b", "/srv/lake/a/b"] {
            assert_eq!(name_at(&folder, address).as_deref(), Some("a/b"), "{address}");
        }
        for address in ["/srv/lake2/a", "/srv/lake", "/srv/lake/", "s3://srv/lake/a", "/srv"] {
            assert_eq!(name_at(&folder, address), None, "{address}");
        }
        let bucket = At("s3://bucket/x");
        for address in ["s3://bucket/x/a", "s3a://bucket/x/a"] {
            assert_eq!(name_at(&bucket, address).as_deref(), Some("a"), "{address}");
        }
        assert_eq!(name_at(&bucket, "s3://bucket/xy/a"), None);
    }
}
