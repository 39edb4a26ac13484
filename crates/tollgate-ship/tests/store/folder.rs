//! Tests of a folder as a store.

use std::sync::Arc;

use tempfile::TempDir;
use tollgate_ship::{FolderStore, Pacer};

use crate::law;

#[test]
fn a_folder_keeps_the_law_of_a_store() {
    let folder = TempDir::new().unwrap();
    law::holds(&FolderStore::new(folder.path(), Arc::new(Pacer::new(None))));
}
