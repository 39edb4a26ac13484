//! Tests with answers that the network loses, cuts or changes. The store never returns a wrong result.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_ship::{
    ConditionalCreate, Created, ObjectStore, ObjectStoreOptions, PutChecksum, Sent, Store, StoreError,
    probe_store, send_segment,
};

use crate::gateway::{Gateway, open, options};
use crate::meddler::{Meddler, Meddling};
use crate::segments::{Segment, Segments, eventually, read};

const NAME: &str = "v1/seg/web/01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b/00000000000000000001.seg";

/// Returns a plan that disturbs the first `count` requests of a method.
fn first(count: usize, method: &'static str, meddling: Meddling) -> impl FnMut(&str) -> Meddling + Send {
    let mut left = count;
    move |line| {
        if left == 0 || !line.starts_with(method) {
            return Meddling::Pass;
        }
        left -= 1;
        meddling
    }
}

fn behind(meddler: &Meddler) -> ObjectStore {
    let options = options("s3://logs", meddler.address);
    open(ObjectStoreOptions { timeout: Duration::from_secs(2), ..options })
}

fn send(store: &ObjectStore, segment: &Segment) -> Result<Sent, StoreError> {
    send_segment(store, NAME, &segment.file, &segment.identity)
}

/// Repeats the send of a segment until the store answers, like a ship target.
fn send_until_answered(store: &ObjectStore, segment: &Segment) -> (usize, Sent) {
    for failed in 0..10 {
        if let Ok(sent) = send(store, segment) {
            return (failed, sent);
        }
    }
    panic!("ten calls failed");
}

#[test]
fn a_segment_whose_answer_was_lost_is_present_and_no_fork() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, first(1, "PUT", Meddling::LoseAnswer));
    let (failed, sent) = send_until_answered(&behind(&meddler), &segments.all[0]);
    assert_eq!(
        (failed, sent),
        (1, Sent::Present),
        "the call whose answer was lost is not repeated by itself"
    );
    assert_eq!(read(&gateway.path_of(NAME)).unwrap(), segments.all[0].bytes());
}

#[test]
fn a_segment_that_a_busy_server_stored_is_present() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, first(1, "PUT", Meddling::BusyAfter));
    let (failed, sent) = send_until_answered(&behind(&meddler), &segments.all[0]);
    assert_eq!((failed, sent), (0, Sent::Present), "{:?}", meddler.seen());
}

#[test]
fn a_store_refuses_a_segment_that_was_damaged_on_the_way_with_each_checksum() {
    for checksum in PutChecksum::ALL {
        let (gateway, segments) = (Gateway::start(), Segments::written(1));
        let segment = &segments.all[0];
        let meddler = Meddler::start(gateway.address, |line| match line.starts_with("PUT") {
            true => Meddling::Damage,
            false => Meddling::Pass,
        });
        let options = ObjectStoreOptions { checksum, ..options("s3://logs", meddler.address) };
        let error = send(&open(options), segment).unwrap_err();
        assert!(matches!(error, StoreError::Call { .. }), "{checksum:?}: {error:?}");
        assert!(gateway.store().head(NAME).unwrap().is_none(), "{checksum:?}");
        let direct = ObjectStoreOptions { checksum, ..gateway.options() };
        assert_eq!(send(&open(direct), segment).unwrap(), Sent::Stored, "{checksum:?}");
    }
}

#[test]
fn a_busy_server_is_asked_again_within_one_call() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, first(2, "PUT", Meddling::Refuse(503)));
    assert_eq!(send(&behind(&meddler), &segments.all[0]).unwrap(), Sent::Stored);
    assert_eq!(meddler.seen().len(), 3, "{:?}", meddler.seen());
}

#[test]
fn a_server_that_stays_busy_is_an_error_after_few_tries() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, first(usize::MAX, "PUT", Meddling::Refuse(503)));
    assert!(matches!(send(&behind(&meddler), &segments.all[0]), Err(StoreError::Call { .. })));
    assert_eq!(meddler.seen().len(), 4, "{:?}", meddler.seen());
    assert_eq!(read(&gateway.path_of(NAME)), None);
}

#[test]
fn a_conflict_with_a_write_that_came_to_nothing_is_tried_again() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, first(1, "PUT", Meddling::Refuse(409)));
    assert_eq!(send(&behind(&meddler), &segments.all[0]).unwrap(), Sent::Stored);
    let seen = meddler.seen();
    let methods: Vec<_> = seen.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(methods, ["PUT", "HEAD", "PUT"]);
}

#[test]
fn a_connection_that_the_server_closed_meanwhile_fails_no_call() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, |_| Meddling::PassAndClose);
    let store = behind(&meddler);
    for first in 1..=50_usize {
        let name = NAME.replace("0001.seg", &format!("{first:04}.seg"));
        let segment = &segments.all[0];
        assert_eq!(store.create(&name, &segment.file, &segment.identity).unwrap(), Created::Stored);
        // The answer does not announce the end of the connection.
        eventually("the connection is closed", || !meddler.has_established());
    }
    assert_eq!(meddler.seen().len(), 50);
}

#[test]
fn a_silent_server_is_an_error_after_the_timeout() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let meddler = Meddler::start(gateway.address, first(usize::MAX, "PUT", Meddling::Silence));
    let begun = Instant::now();
    let error = send(&behind(&meddler), &segments.all[0]).unwrap_err();
    let text = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(text.contains("request timed out"), "{text}");
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(meddler.seen().len(), 1, "a PUT that may have taken place is not repeated by itself");
}

#[test]
fn a_download_that_is_cut_each_time_is_an_error() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let segment = &segments.all[0];
    gateway.store().create(NAME, &segment.file, &segment.identity).unwrap();
    let meddler = Meddler::start(gateway.address, first(usize::MAX, "GET", Meddling::Cut(100)));
    let (store, target) = (behind(&meddler), segments.free_path("target"));
    assert!(matches!(store.fetch(NAME, &target, 1 << 20), Err(StoreError::Call { .. })));
    assert!(store.text(NAME, 1 << 20).is_err());
    let part = read(&target).unwrap();
    assert!(segment.bytes().starts_with(&part) && part.len() < segment.bytes().len());
}

#[test]
fn a_download_that_is_cut_once_goes_on_where_it_was_cut() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let segment = &segments.all[0];
    gateway.store().create(NAME, &segment.file, &segment.identity).unwrap();
    let meddler = Meddler::start(gateway.address, first(1, "GET", Meddling::Cut(100)));
    let (store, target) = (behind(&meddler), segments.free_path("target"));
    assert_eq!(store.fetch(NAME, &target, 1 << 20).unwrap(), Some(segment.bytes().len() as u64));
    assert_eq!(read(&target).unwrap(), segment.bytes());
    assert_eq!(meddler.seen().len(), 2);
}

#[test]
fn a_lost_answer_to_a_look_or_a_list_is_repeated_or_an_error_and_never_an_absence() {
    let (gateway, segments) = (Gateway::start(), Segments::written(1));
    let segment = &segments.all[0];
    gateway.store().create(NAME, &segment.file, &segment.identity).unwrap();
    let prefix = NAME.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap();
    for meddling in [Meddling::LoseAnswer, Meddling::Refuse(503), Meddling::Cut(10)] {
        for count in [1, usize::MAX] {
            for method in ["HEAD", "GET"] {
                let meddler = Meddler::start(gateway.address, first(count, method, meddling));
                let store = behind(&meddler);
                if let Ok(head) = store.head(NAME) {
                    assert_eq!(
                        head.unwrap().identity.as_ref(),
                        Some(&segment.identity),
                        "{meddling:?} {count}"
                    );
                }
                if let Ok(names) = store.list(&prefix, None) {
                    assert_eq!(names, [NAME], "{meddling:?} {count}");
                }
                if let Ok(folders) = store.folders("v1/seg/") {
                    assert_eq!(folders, ["web"], "{meddling:?} {count}");
                }
            }
        }
    }
}

/// Returns an answer to a list request, with two keys.
macro_rules! listed {
    ($one:literal, $other:literal) => {
        concat!(
            "<ListBucketResult><IsTruncated>false</IsTruncated>",
            "<Contents><Key>v1/node/",
            $one,
            "</Key><Size>1</Size><ETag>e</ETag>",
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>",
            "<Contents><Key>v1/node/",
            $other,
            "</Key><Size>1</Size><ETag>e</ETag>",
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>",
        )
    };
}

#[test]
fn a_server_that_lists_from_the_start_each_time_repeats_no_name() {
    let gateway = Gateway::start();
    let meddler = Meddler::start(gateway.address, |_| Meddling::Say(listed!("a", "b")));
    let store = behind(&meddler);
    assert_eq!(store.list("v1/node/", None).unwrap(), ["v1/node/a", "v1/node/b"]);
    assert_eq!(store.list("v1/node/", Some("v1/node/a")).unwrap(), ["v1/node/b"]);
    assert_eq!(store.list("v1/node/", Some("v1/node/b")).unwrap(), Vec::<String>::new());
}

#[test]
fn names_out_of_order_are_an_error_because_the_next_page_would_lack_some() {
    let gateway = Gateway::start();
    let meddler = Meddler::start(gateway.address, |_| Meddling::Say(listed!("b", "a")));
    assert!(matches!(behind(&meddler).list("v1/node/", None), Err(StoreError::Call { .. })));
}

#[test]
fn the_check_names_a_server_that_ignores_the_condition() {
    let (gateway, folder) = (Gateway::start(), TempDir::new().unwrap());
    let meddler = Meddler::start(gateway.address, first(usize::MAX, "PUT", Meddling::AlwaysStored));
    let report = probe_store(&behind(&meddler), folder.path()).unwrap();
    assert_eq!(report.conditional_create, ConditionalCreate::Ignored);
    assert_eq!(gateway.store().list("v1/probe/", None).unwrap(), Vec::<String>::new());
}

#[test]
fn the_check_names_a_server_that_ignores_the_condition_of_writers_at_once() {
    let (gateway, folder) = (Gateway::start(), TempDir::new().unwrap());
    let mut puts = 0;
    let meddler = Meddler::start(gateway.address, move |line| {
        puts += usize::from(line.starts_with("PUT"));
        // The first two requests are of the writers that write one after the other.
        if puts > 2 && line.starts_with("PUT") { Meddling::AlwaysStored } else { Meddling::Pass }
    });
    let report = probe_store(&behind(&meddler), folder.path()).unwrap();
    assert_eq!(report.conditional_create, ConditionalCreate::SequentialOnly);
}
