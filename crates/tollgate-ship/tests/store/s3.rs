//! Tests of an S3 server as a store.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_ship::{
    Addressing, ConditionalCreate, Created, ObjectStore, ObjectStoreOptions, OpenError, Pacer, Secret,
    SegmentIdentity, Store, StoreError, StorePlace, StoreReport, probe_store,
};

use crate::gateway::{Gateway, SECRET_KEY, open, options};
use crate::law;

const NODE: &str = "v1/node/web";

fn text_of(error: &dyn std::error::Error) -> String {
    let source = error.source().map(text_of).unwrap_or_default();
    format!("{error}: {source}")
}

#[test]
fn a_bucket_keeps_the_law_of_a_store() {
    let gateway = Gateway::start();
    law::holds(&gateway.store());
}

#[test]
fn a_place_within_a_bucket_keeps_the_law_of_a_store() {
    let gateway = Gateway::start();
    let store = open(options("s3://logs/team a/%41", gateway.address));
    law::holds(&store);
    assert!(gateway.path_of("team a/%41/v1/node/web").is_file());
    assert!(gateway.store().text(NODE, 99).unwrap().is_none());
}

#[test]
fn the_bytes_of_an_object_are_those_of_the_file() {
    let (gateway, folder) = (Gateway::start(), TempDir::new().unwrap());
    let (file, name) = (folder.path().join("file"), "v1/probe/0123456789abcdef");
    fs::write(&file, vec![7; 700_000]).unwrap();
    let identity = SegmentIdentity::from_store("any");
    assert_eq!(gateway.store().create(name, &file, &identity).unwrap(), Created::Stored);
    assert!(fs::read(gateway.path_of(name)).unwrap() == fs::read(&file).unwrap());
}

#[test]
fn the_check_finds_that_the_server_creates_once_and_leaves_nothing() {
    let (gateway, folder) = (Gateway::start(), TempDir::new().unwrap());
    let store = gateway.store();
    let report = probe_store(&store, folder.path()).unwrap();
    let atomic = StoreReport { conditional_create: ConditionalCreate::Atomic, undeleted: Vec::new() };
    assert_eq!(report, atomic);
    assert_eq!(store.list("v1/probe/", None).unwrap(), Vec::<String>::new());
}

#[test]
fn wrong_keys_are_an_error_that_does_not_show_them() {
    let gateway = Gateway::start();
    let secret = "wrong-sesame";
    let store = open(ObjectStoreOptions { secret_key: Some(Secret::new(secret)), ..gateway.options() });
    for error in [store.put_text(NODE, "x").unwrap_err(), store.text(NODE, 9).unwrap_err()] {
        let text = text_of(&error);
        assert!(text.contains("SignatureDoesNotMatch") || text.contains("403"), "{text}");
        assert!(!text.contains(secret) && !text.contains(SECRET_KEY) && !text.contains('\n'), "{text}");
    }
    assert!(store.list("v1/node/", None).is_err() && store.remove(NODE).is_err());
}

#[test]
fn a_missing_bucket_is_no_missing_object() {
    let gateway = Gateway::start();
    let (store, folder) = (open(options("s3://other", gateway.address)), TempDir::new().unwrap());
    for error in [
        store.text(NODE, 9).map(drop).unwrap_err(),
        store.fetch(NODE, &folder.path().join("x"), 9).map(drop).unwrap_err(),
        store.put_text(NODE, "x").unwrap_err(),
        store.list("v1/node/", None).map(drop).unwrap_err(),
    ] {
        assert!(text_of(&error).contains("NoSuchBucket"), "{}", text_of(&error));
    }
    assert!(probe_store(&store, folder.path()).is_err());
}

#[test]
fn a_server_that_is_away_is_an_error_in_bounded_time() {
    let store = {
        let gateway = Gateway::start();
        open(ObjectStoreOptions { timeout: Duration::from_secs(1), ..gateway.options() })
    };
    let begun = Instant::now();
    assert!(matches!(store.text(NODE, 9), Err(StoreError::Call { .. })));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn bytes_leave_and_come_at_the_configured_rate() {
    let (gateway, folder) = (Gateway::start(), TempDir::new().unwrap());
    let (file, name) = (folder.path().join("file"), "v1/probe/0123456789abcdef");
    fs::write(&file, vec![7; 2 << 20]).unwrap();
    let store = ObjectStore::open(gateway.options(), Arc::new(Pacer::new(Some(4 << 20)))).unwrap();
    let begun = Instant::now();
    store.replace(name, &file, &SegmentIdentity::from_store("any")).unwrap();
    let (sent, begun) = (begun.elapsed(), Instant::now());
    store.fetch(name, &folder.path().join("target"), 2 << 20).unwrap();
    let fetched = begun.elapsed();
    // 2 MiB at 4 MiB/s are 0.5 s. A burst of 0.1 s is sent at once, and no wait follows the last piece.
    let least = Duration::from_millis(300);
    assert!(sent >= least && fetched >= least, "{sent:?} {fetched:?}");
}

#[test]
fn options_that_no_store_has_are_refused() {
    let valid = || ObjectStoreOptions {
        access_key: Some("id".to_owned()),
        secret_key: Some(Secret::new("sesame")),
        ..ObjectStoreOptions::new(StorePlace::parse("s3://logs").unwrap())
    };
    let place = |text: &str| StorePlace::parse(text).unwrap();
    let cases: [(ObjectStoreOptions, &str); 10] = [
        (ObjectStoreOptions { endpoint: Some("http://s3.example".to_owned()), ..valid() }, "plain HTTP"),
        (ObjectStoreOptions { secret_key: None, ..valid() }, "need each other"),
        (ObjectStoreOptions { access_key: None, ..valid() }, "need each other"),
        (ObjectStoreOptions { ca: Some("/nonexistent/ca.pem".into()), ..valid() }, "/nonexistent/ca.pem"),
        (ObjectStoreOptions { proxy: Some("https://proxy".to_owned()), ..valid() }, "http://HOST:PORT"),
        (ObjectStoreOptions { proxy: Some("http://me:sesame@proxy:1".to_owned()), ..valid() }, "proxy:1"),
        (ObjectStoreOptions { place: place("gs://logs"), ..valid() }, "service account"),
        (ObjectStoreOptions { place: place("gs://logs"), access_key: None, ..valid() }, "GCS"),
        (
            ObjectStoreOptions {
                place: place("az://logs"),
                session_token: Some(Secret::new("sesame")),
                ..valid()
            },
            "not both",
        ),
        (
            ObjectStoreOptions {
                place: place("az://logs"),
                secret_key: None,
                session_token: Some(Secret::new("sesame")),
                ..valid()
            },
            "shared access signature",
        ),
    ];
    for (options, part) in cases {
        let shown = format!("{options:?}");
        let error: OpenError = ObjectStore::open(options, Arc::new(Pacer::new(None))).map(drop).unwrap_err();
        let text = text_of(&error);
        assert!(text.contains(part) && !text.contains("sesame"), "{shown}: {text}");
    }
    for addressing in [Addressing::Path, Addressing::VirtualHost] {
        ObjectStore::open(ObjectStoreOptions { addressing, ..valid() }, Arc::new(Pacer::new(None))).unwrap();
    }
}
