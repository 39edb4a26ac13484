//! Tests that every store must pass: the law of a store.

use std::fs;
use std::path::Path;
use std::thread;

use tollgate_log::{LogId, Sequence};
use tollgate_ship::{
    ConditionalCreate, Created, LISTED_MAX, NodeName, ObjectName, SegmentIdentity, Sent, Store, StoreError,
    send_segment,
};

use crate::segments::{Segment, Segments, read};

/// Number of machines that create one name at the same time.
const RACERS: usize = 16;
/// 1 January 2017, in milliseconds since 1970.
const TEN_YEARS_AGO_MS: u64 = 1_483_228_800_000;
const LOG: &str = "01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b";

/// Checks that an empty store follows the law.
pub(crate) fn holds(store: &dyn Store) {
    holds_apart_from_creates(store, ConditionalCreate::Atomic);
}

/// Checks that an empty store follows the law, and treats a second object of one name as `kind` says.
pub(crate) fn holds_apart_from_creates(store: &dyn Store, kind: ConditionalCreate) {
    let segments = Segments::written(RACERS);
    a_missing_object_is_no_error(store, &segments);
    match kind {
        ConditionalCreate::Ignored => a_later_object_replaces_the_first(store, &segments),
        ConditionalCreate::Atomic | ConditionalCreate::SequentialOnly => {
            an_object_is_created_once(store, &segments);
            a_lost_answer_is_no_fork(store, &segments);
        }
    }
    of_many_machines_one_creates(store, &segments, kind);
    an_object_is_replaced_whole(store, &segments);
    bounds_are_kept(store, &segments);
    a_large_object_comes_back(store, &segments);
    texts_are_written_over(store);
    names_keep_their_spelling(store);
    no_name_leads_out_of_the_layout(store, &segments.all[0]);
    names_are_listed_in_pages(store);
    folders_are_listed(store);
}

fn log() -> LogId {
    LOG.parse().unwrap()
}

/// Returns the name of a segment for one part of the tests.
fn name(part: &str, first: u64) -> String {
    let node = NodeName::encode(part).unwrap();
    ObjectName::Segment { node, log: log(), first: Sequence(first) }.to_string()
}

fn create(store: &dyn Store, name: &str, segment: &Segment) -> Created {
    store.create(name, &segment.file, &segment.identity).unwrap()
}

fn assert_has(store: &dyn Store, segments: &Segments, name: &str, expected: &Segment) {
    let head = store.head(name).unwrap().unwrap();
    let bytes = expected.bytes();
    assert!(head.modified_ms > TEN_YEARS_AGO_MS, "{name} has the time {}", head.modified_ms);
    assert_eq!((head.bytes, head.identity), (bytes.len() as u64, Some(expected.identity.clone())));
    let target = segments.free_path("fetched");
    assert_eq!(store.fetch(name, &target, head.bytes).unwrap(), Some(head.bytes));
    assert_eq!(fs::read(&target).unwrap(), bytes, "{name}");
    fs::remove_file(target).unwrap();
}

fn a_missing_object_is_no_error(store: &dyn Store, segments: &Segments) {
    let (name, target) = (name("missing", 1), segments.free_path("missing"));
    assert_eq!(store.head(&name).unwrap(), None);
    assert_eq!(store.text(&name, 9).unwrap(), None);
    assert_eq!(store.fetch(&name, &target, 9).unwrap(), None);
    assert_eq!(read(&target), None);
    store.remove(&name).unwrap();
    let log_prefix = ObjectName::segments_of_log(&NodeName::encode("missing").unwrap(), log());
    assert_eq!(store.list(&log_prefix, None).unwrap(), Vec::<String>::new());
    assert_eq!(store.folders("v1/seg/").unwrap(), Vec::<String>::new());
}

fn an_object_is_created_once(store: &dyn Store, segments: &Segments) {
    let [one, other] = [&segments.all[0], &segments.all[1]];
    let name = name("once", 1);
    assert_eq!(create(store, &name, one), Created::Stored);
    assert_has(store, segments, &name, one);
    for again in [other, one] {
        assert_eq!(create(store, &name, again), Created::Exists);
        assert_has(store, segments, &name, one);
    }
    store.remove(&name).unwrap();
    assert_eq!(store.head(&name).unwrap(), None);
    assert_eq!(create(store, &name, other), Created::Stored);
    assert_has(store, segments, &name, other);
}

fn a_later_object_replaces_the_first(store: &dyn Store, segments: &Segments) {
    for part in ["once", "sent"] {
        for segment in &segments.all[..2] {
            assert_eq!(create(store, &name(part, 1), segment), Created::Stored);
            assert_has(store, segments, &name(part, 1), segment);
        }
    }
}

fn of_many_machines_one_creates(store: &dyn Store, segments: &Segments, kind: ConditionalCreate) {
    for round in 1..=5 {
        let name = name("race", round);
        let created: Vec<_> = thread::scope(|scope| {
            let start = |segment| {
                let name = &name;
                scope.spawn(move || create(store, name, segment))
            };
            let racers: Vec<_> = segments.all[..RACERS].iter().map(start).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let winners: Vec<_> = (0..RACERS).filter(|at| created[*at] == Created::Stored).collect();
        if kind == ConditionalCreate::Atomic {
            assert_eq!(winners.len(), 1, "{created:?}");
            assert_has(store, segments, &name, &segments.all[winners[0]]);
        } else {
            // The identity may be the one of another winner, because such a server stores it separately.
            let target = segments.free_path("fetched");
            store.fetch(&name, &target, u64::MAX).unwrap().unwrap();
            let bytes = fs::read(&target).unwrap();
            assert!(winners.iter().any(|at| segments.all[*at].bytes() == bytes), "{created:?}");
            fs::remove_file(target).unwrap();
        }
    }
}

fn an_object_is_replaced_whole(store: &dyn Store, segments: &Segments) {
    let name = name("replaced", 1);
    for segment in [&segments.all[2], &segments.all[3]] {
        store.replace(&name, &segment.file, &segment.identity).unwrap();
        assert_has(store, segments, &name, segment);
    }
}

fn a_lost_answer_is_no_fork(store: &dyn Store, segments: &Segments) {
    let [one, other] = [&segments.all[4], &segments.all[5]];
    let name = name("sent", 1);
    let send = |segment: &Segment| send_segment(store, &name, &segment.file, &segment.identity).unwrap();
    assert_eq!(send(one), Sent::Stored);
    assert_eq!(send(one), Sent::Present);
    assert_eq!(send(other), Sent::Forked { found: one.identity.to_string() });
}

fn bounds_are_kept(store: &dyn Store, segments: &Segments) {
    let (taken, target) = (name("bounds", 1), segments.free_path("bounds"));
    let segment = &segments.all[0];
    let bytes = segment.bytes().len() as u64;
    create(store, &taken, segment);
    let is_too_large = |error: &StoreError| {
        let StoreError::TooLarge { found, limit, .. } = error else { return false };
        (*found, *limit) == (bytes, bytes - 1)
    };
    let error = store.fetch(&taken, &target, bytes - 1).unwrap_err();
    assert!(is_too_large(&error), "{error:?}");
    let error = store.text(&taken, bytes - 1).unwrap_err();
    assert!(is_too_large(&error), "{error:?}");
    assert_eq!(read(&target), None);
    fs::write(&target, "mine").unwrap();
    store.fetch(&taken, &target, bytes).unwrap_err();
    assert_eq!(read(&target).unwrap(), b"mine", "a file that is there is not written over");
    let (free, missing) = (name("bounds", 2), segments.free_path("missing"));
    let error = store.create(&free, &missing, &segment.identity).unwrap_err();
    assert!(matches!(error, StoreError::File { .. }), "{error:?}");
    assert_eq!(store.head(&free).unwrap(), None);
}

fn a_large_object_comes_back(store: &dyn Store, segments: &Segments) {
    let (name, source, target) =
        (name("large", 1), segments.free_path("large"), segments.free_path("larger"));
    // This size is not a multiple of a piece of any store.
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(&source, &bytes).unwrap();
    let identity = SegmentIdentity::from_store("large");
    assert_eq!(store.create(&name, &source, &identity).unwrap(), Created::Stored);
    assert_eq!(store.fetch(&name, &target, 3_000_001).unwrap(), Some(3_000_001));
    assert!(fs::read(&target).unwrap() == bytes);
    fs::write(&source, "").unwrap();
    store.replace(&name, &source, &identity).unwrap();
    assert_eq!(store.text(&name, 0).unwrap().as_deref(), Some(""));
}

fn texts_are_written_over(store: &dyn Store) {
    let name = ObjectName::Node(NodeName::encode("web").unwrap()).to_string();
    for text in ["at_ms 1\n", "", "at_ms 2 ü\n"] {
        store.put_text(&name, text).unwrap();
        assert_eq!(store.text(&name, 64).unwrap().as_deref(), Some(text));
    }
}

fn names_keep_their_spelling(store: &dyn Store) {
    let nodes = ["a b", "a/b", "ü%25", ".", "..", "~+&?#", "web-1.example_x"];
    let mut names: Vec<_> =
        nodes.iter().map(|node| ObjectName::Node(NodeName::encode(node).unwrap()).to_string()).collect();
    for name in &names {
        store.put_text(name, name).unwrap();
    }
    for name in &names {
        assert_eq!(store.text(name, 99).unwrap().as_ref(), Some(name));
    }
    names.push("v1/node/web".to_owned());
    names.sort();
    assert_eq!(store.list(&ObjectName::nodes(), None).unwrap(), names);
}

fn no_name_leads_out_of_the_layout(store: &dyn Store, segment: &Segment) {
    for name in ["../x", "/etc/x", "v1/seg/../../x", "v1/node/..", "v1/node/a/../b", "", "v1", "v1/node/a b"]
    {
        assert!(store.create(name, &segment.file, &segment.identity).is_err(), "{name:?}");
        assert!(store.replace(name, &segment.file, &segment.identity).is_err(), "{name:?}");
        assert!(store.put_text(name, "x").is_err() && store.text(name, 9).is_err(), "{name:?}");
        assert!(store.fetch(name, Path::new("/nonexistent/x"), 9).is_err(), "{name:?}");
        assert!(store.remove(name).is_err() && store.head(name).is_err(), "{name:?}");
    }
}

fn names_are_listed_in_pages(store: &dyn Store) {
    let want = |first: u64| ObjectName::Want { log: log(), first: Sequence(first) }.to_string();
    let count = LISTED_MAX as u64 + 50;
    let names: Vec<_> = (1..=count).map(|at| want(at * 10)).collect();
    thread::scope(|scope| {
        for part in names.chunks(names.len().div_ceil(8)) {
            scope.spawn(move || part.iter().rev().for_each(|name| store.put_text(name, "wanted\n").unwrap()));
        }
    });
    let prefix = ObjectName::wanted_of(log());
    let first = store.list(&prefix, None).unwrap();
    assert_eq!(first, names[..LISTED_MAX]);
    let rest = store.list(&prefix, first.last().map(String::as_str)).unwrap();
    assert_eq!(rest, names[LISTED_MAX..]);
    assert_eq!(store.list(&prefix, names.last().map(String::as_str)).unwrap(), Vec::<String>::new());
    // The list may also begin after a name that has no object.
    assert_eq!(store.list(&prefix, Some(&want(count * 10 - 5))).unwrap(), names[names.len() - 1..]);
}

fn folders_are_listed(store: &dyn Store) {
    let mut nodes = store.folders(&ObjectName::segments()).unwrap();
    let parts = ["bounds", "large", "once", "race", "replaced", "sent"];
    // A folder on a disk is not removed with its last file.
    nodes.retain(|node| parts.contains(&node.as_str()));
    assert_eq!(nodes, parts);
    let node = NodeName::encode("race").unwrap();
    assert_eq!(store.folders(&ObjectName::segments_of_node(&node)).unwrap(), [LOG]);
}
