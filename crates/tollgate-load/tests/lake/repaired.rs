//! Segments that are repaired or put back, after a plan or a gap was made of their damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use tollgate_load::{Loader, SinkOptions, Taken};
use tollgate_log::{ColumnType, DiskStorage, Level, LogId, Schema, SchemaId, Value};

use crate::iceberg;
use crate::logs::{PATIENCE, add, column, eventually, hand_over, visits};
use crate::site::Site;
use crate::tables;

/// Returns a sink that takes only visits.
fn only_visits(site: &Site) -> SinkOptions {
    SinkOptions { taken: Taken::Only(["visits".to_owned()].into()), ..site.sink() }
}

/// Writes a log with visits and as many orders, and seals it. An order has one number in the column `column`.
fn write_both(site: &Site, rows: i64, order: &str) -> LogId {
    let orders = Schema::new("orders", vec![column(order, ColumnType::Int)]).unwrap();
    let log = site.open_log(&[visits(), orders]);
    let mut appender = log.appender(|| {});
    for n in 0..rows {
        add(&mut appender, SchemaId(0), &[Value::Int(n), Value::Text("/a/path")]);
        let appended = add(&mut appender, SchemaId(1), &[Value::Int(n)]);
        hand_over(&mut appender);
        // A segment is closed only between writes, and one write takes all waiting batches.
        if n % 20 == 0 {
            eventually("it is written", || appender.reached(appended, Level::Written).is_some());
        }
    }
    drop(appender);
    let id = log.id();
    log.close().unwrap();
    id
}

/// Moves a segment of a log away. Returns where it is now, and where it was.
fn hide(site: &Site, log: LogId) -> (PathBuf, PathBuf) {
    let (aside, segment) = (site.folder.path().join("aside"), site.segments(log)[2].clone());
    fs::rename(&segment, &aside).unwrap();
    (aside, segment)
}

/// Returns the paths of the commits in a folder, in order.
fn commits(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut commits: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "commit")).collect();
    commits.sort();
    commits
}

#[test]
fn a_fill_prepares_only_the_streams_of_the_sink() {
    // A stream that the sink does not take may have a column with a name of the files.
    for (site, order) in [(Site::new(), "day"), (iceberg::site(), "day"), (iceberg::site(), "n")] {
        let log = write_both(&site, 300, order);
        let sink = only_visits(&site);
        let (aside, segment) = hide(&site, log);
        let missing = site.load_with(sink.clone()).unwrap().missing;
        assert!(missing > 0);
        fs::rename(&aside, &segment).unwrap();
        assert_eq!(site.load_with(sink).unwrap().filled, missing);
        assert_eq!(site.rows("visits").len(), 300);
        assert!(site.lake().join("_tollgate/lake/columns/visits").exists());
        assert!(!site.lake().join("_tollgate/lake/columns/orders").exists(), "{order}");
        if let Some(catalog) = &site.catalog {
            assert_eq!(tables::location(catalog, "orders"), None);
        }
    }
}

#[test]
fn a_decided_fill_has_the_streams_of_its_plan() {
    let site = Site::new();
    let log = write_both(&site, 300, "n");
    let (aside, segment) = hide(&site, log);
    let missing = site.load().missing;
    fs::rename(&aside, &segment).unwrap();
    assert_eq!(site.load().filled, missing);
    // The fill ends before its files get their names, as after a kill.
    let fills = site.lake().join(format!("_tollgate/lake/log/{log}/fill"));
    for commit in commits(&fills) {
        fs::remove_file(commit).unwrap();
    }
    for file in ["visits", "orders"].into_iter().flat_map(|stream| site.files(stream)) {
        if file.ends_with(".fill.parquet") {
            fs::remove_file(site.lake().join(file)).unwrap();
        }
    }
    assert!(site.rows("orders").len() < 300);
    assert_eq!(site.load_with(only_visits(&site)).unwrap().filled, missing);
    assert_eq!((site.rows("visits").len(), site.rows("orders").len()), (300, 300));
}

/// Damages the first segment at a byte that `find` finds, and leaves the plan of the first load. Then the
/// segment is repaired. Returns the plan.
fn leave_plan(site: &Site, sink: SinkOptions, log: LogId, find: impl FnOnce(&[u8]) -> usize) -> Json {
    let segment = &site.segments(log)[0];
    let bytes = fs::read(segment).unwrap();
    let mut damaged = bytes.clone();
    damaged[find(&bytes)] ^= 1;
    fs::write(segment, damaged).unwrap();
    site.load_with(sink).unwrap();
    let commits = site.lake().join(format!("_tollgate/lake/log/{log}"));
    let plan = commits.join("00000000000000000001.plan");
    let text = fs::read(&plan).unwrap();
    // The load ends before its files get their names, as after a kill.
    fs::remove_dir_all(site.lake()).unwrap();
    drop(fs::remove_file(site.folder.path().join("catalog.sqlite")));
    fs::create_dir_all(&commits).unwrap();
    fs::write(plan, &text).unwrap();
    fs::write(segment, bytes).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn a_plan_that_ends_with_a_gap_is_finished_after_the_repair() {
    for site in [Site::new(), iceberg::site()] {
        let log = site.write(600);
        let last_path = |bytes: &[u8]| bytes.windows(5).rposition(|part| part == b"/path").unwrap();
        let plan = leave_plan(&site, site.sink(), log, last_path);
        assert_eq!((&plan["gaps"][0]["last"], &plan["chain"]), (&plan["last"], &Json::Null), "{plan}");
        let status = site.load();
        assert!(status.missing > 0 && status.missing + status.rows == 600 + status.filled, "{status:?}");
        // A loader that runs fills the gap with its next pass.
        site.load();
        site.check_all(600);
        assert!(site.audit().gaps.is_empty());
    }
}

#[test]
fn a_plan_with_a_gap_counts_no_record_of_it_as_skipped() {
    let site = Site::new();
    let log = write_both(&site, 300, "n");
    let plan = leave_plan(&site, only_visits(&site), log, |bytes| bytes.len() / 2);
    assert!(plan["chain"].is_number() && plan["gaps"][0].is_object(), "{plan}");
    site.load_with(only_visits(&site)).unwrap();
    site.load_with(only_visits(&site)).unwrap();
    assert_eq!(site.rows("visits").len(), 300);
    // The last commit of loads has their sums. The fill has its own.
    let folder = site.lake().join(format!("_tollgate/lake/log/{log}"));
    let (loads, mut fills) = (commits(&folder), commits(&folder.join("fill")));
    fills.extend(loads.last().cloned());
    let skipped = fills.iter().map(|commit| {
        let read: Json = serde_json::from_slice(&fs::read(commit).unwrap()).unwrap();
        read["counts"]["orders"]["skipped"].as_u64().unwrap()
    });
    assert_eq!(skipped.collect::<Vec<_>>().iter().sum::<u64>(), 300);
}

#[test]
fn a_loader_counts_the_records_of_gaps_again_only_after_a_change() {
    let site = Site::new();
    let log = site.write(600);
    let (aside, segment) = hide(&site, log);
    let mut options = site.options(site.sink());
    options.tuning.poll = Duration::from_millis(1);
    let loader = Loader::start(options, Arc::new(DiskStorage), None).unwrap();
    // The second pass counts the records, and tries to fill the gap.
    eventually("the gap is known", || loader.status().caught_up >= 3);
    let missing = loader.status().in_gaps;
    assert!(missing > 0);
    // A look at the gaps would fail now.
    let fills = site.lake().join(format!("_tollgate/lake/log/{log}/fill"));
    fs::write(&fills, "in the way").unwrap();
    let passes = loader.status().caught_up;
    let has_failed = || loader.status().last_error.is_some();
    eventually("it goes on", || loader.status().caught_up >= passes + 10 || has_failed());
    let status = loader.status();
    assert_eq!((status.last_error, status.in_gaps), (None, missing));
    fs::remove_file(&fills).unwrap();
    fs::rename(&aside, &segment).unwrap();
    eventually("the gap is filled and counted", || loader.status().in_gaps == 0);
    assert_eq!(loader.finish(PATIENCE).unwrap().filled, missing);
    site.check_all(600);
}
