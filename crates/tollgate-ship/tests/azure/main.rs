//! The tests that every store must pass, with Azurite, a server with the protocol of Azure Blob Storage.
//! `make stores` runs these tests.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod azurite;
#[path = "../store/law.rs"]
mod law;
#[path = "../store/segments.rs"]
mod segments;

use std::sync::Arc;

use tempfile::TempDir;
use tollgate_ship::{ConditionalCreate, ObjectStore, Pacer, Secret, Store, probe_store};

use azurite::Azurite;

#[test]
fn a_container_keeps_the_law_of_a_store() {
    for place in ["az://logs", "az://logs/team a/%41"] {
        let azurite = Azurite::start();
        law::holds(&ObjectStore::open(azurite.options(place), Arc::new(Pacer::new(None))).unwrap());
    }
}

#[test]
fn the_check_finds_that_azure_creates_once() {
    let (azurite, folder) = (Azurite::start(), TempDir::new().unwrap());
    let store = ObjectStore::open(azurite.options("az://logs"), Arc::new(Pacer::new(None))).unwrap();
    let report = probe_store(&store, folder.path()).unwrap();
    assert_eq!((report.conditional_create, report.undeleted.len()), (ConditionalCreate::Atomic, 0));
}

#[test]
fn a_wrong_key_or_container_of_azure_is_an_error() {
    let azurite = Azurite::start();
    let mut options = azurite.options("az://logs");
    options.secret_key = Some(Secret::new("c2VzYW1l"));
    for options in [options, azurite.options("az://other")] {
        let store = ObjectStore::open(options, Arc::new(Pacer::new(None))).unwrap();
        assert!(store.put_text("v1/node/web", "x").is_err() && store.text("v1/node/web", 9).is_err());
    }
}
