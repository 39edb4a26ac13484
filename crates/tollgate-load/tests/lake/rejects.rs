//! Rejects are rows of a table of their own. A retry adds files, and changes none.

use std::cell::Cell;
use std::fs;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tollgate_load::{ItemRow, Retried, SinkOptions};
use tollgate_log::{Level, SchemaId, Value, join_chain};

use crate::files::copy;
use crate::iceberg;
use crate::logs::{self, add, hand_over, visits};
use crate::site::{Site, int, text};

fn written(site: Site) -> Site {
    let log = site.open_log(&[visits()]);
    let mut appender = log.appender(|| {});
    for n in 0..20 {
        add(&mut appender, SchemaId(0), &[Value::Int(n), Value::Text("/a")]);
        if n % 5 == 0 {
            let item = n.to_string();
            let appended = appender.append(Level::Written, |transaction| {
                transaction.reject(SchemaId(0), "n is a text", item.as_bytes());
            });
            appended.unwrap();
        }
    }
    hand_over(&mut appender);
    drop(appender);
    log.close().unwrap();
    site
}

#[test]
fn rejects_have_their_table_with_reason_and_item() {
    find_rejects(&written(Site::new()));
    find_rejects(&written(iceberg::site()));
}

fn find_rejects(site: &Site) {
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (20, 4));
    let rejects = site.rows("tollgate_rejects");
    assert_eq!(rejects.len(), 4);
    assert_eq!(text(&rejects[1], "text"), "5");
    assert_eq!(text(&rejects[1], "reason"), "n is a text");
    assert_eq!((text(&rejects[1], "stream"), text(&rejects[1], "refused_by")), ("visits", "ingest"));
    let row = site.audit().rows.remove(0);
    assert_eq!((row.loaded, row.rejected, row.missing), (20, 4, 0));
}

#[test]
fn a_retry_brings_rejects_that_fit_by_now_once() {
    retry(&written(Site::new()));
    retry(&written(iceberg::site()));
}

fn retry(site: &Site) {
    site.load();
    let sink = SinkOptions { declared: [visits()].into_iter().collect(), ..site.sink() };
    let read = |_: &str, item: &[u8]| match std::str::from_utf8(item).unwrap() {
        "10" => Err("n is ten".to_owned()),
        number => {
            let mut row = ItemRow::default();
            row.push("n", &Value::Int(number.parse::<i64>().unwrap() + 100));
            Ok(row)
        }
    };
    let retried = sink.retry_rejects(&read).unwrap();
    assert_eq!((retried.loaded, retried.duplicates, retried.kept), (3, 0, 1));
    let mut found: Vec<_> =
        site.rows("visits").iter().map(|row| int(row, "n")).filter(|n| *n >= 100).collect();
    found.sort_unstable();
    assert_eq!(found, [100, 105, 115]);
    assert!(site.files("visits").iter().any(|file| file.ends_with("retry-1.parquet")));
    let row = site.audit().rows.remove(0);
    assert_eq!((row.loaded, row.rejected, row.ingested), (23, 1, 24));

    // The second retry finds one reject, and makes no file.
    let files = site.files("visits");
    let retried = sink.retry_rejects(&read).unwrap();
    assert_eq!((retried.loaded, retried.kept), (0, 1));
    assert_eq!(site.files("visits"), files);
}

/// Writes a log with as many rejects as these.
fn written_rejects(site: Site, count: u64) -> Site {
    logs::write(&site.dir(), logs::SEGMENT_BYTES, &[visits()], |appender| {
        for n in 0..count {
            let item = n.to_string();
            let appended = appender.append(Level::Synced, |transaction| {
                transaction.reject(SchemaId(0), "n is a text", item.as_bytes());
            });
            appended.unwrap();
            hand_over(appender);
        }
    });
    site.load();
    site
}

fn sink_of(site: &Site) -> SinkOptions {
    SinkOptions { declared: [visits()].into_iter().collect(), ..site.sink() }
}

/// Returns the row of an item that is a number.
fn row_of(item: &[u8]) -> ItemRow {
    let mut row = ItemRow::default();
    row.push("n", &Value::Int(std::str::from_utf8(item).unwrap().parse().unwrap()));
    row
}

/// Checks that each reject is a row once.
fn check_rows(site: &Site, count: u64) {
    let mut found: Vec<_> = site.rows("visits").iter().map(|row| int(row, "n")).collect();
    found.sort_unstable();
    assert_eq!(found, (0..count.cast_signed()).collect::<Vec<_>>());
    let row = site.audit().rows.remove(0);
    assert_eq!((row.loaded, row.rejected, row.ingested), (count, 0, count));
}

#[test]
fn two_retries_at_once_bring_each_reject_once() {
    for is_other_plan in [false, true] {
        retry_during_a_retry(&written_rejects(Site::new(), 700), is_other_plan);
        retry_during_a_retry(&written_rejects(iceberg::site(), 700), is_other_plan);
    }
}

/// Retries rejects. When the retry has read the rejects, runs another one, which brings all of them or the
/// even ones.
fn retry_during_a_retry(site: &Site, is_other_plan: bool) {
    let inner = |_: &str, item: &[u8]| match item.last().unwrap() % 2 {
        1 if is_other_plan => Err("n is odd".to_owned()),
        _ => Ok(row_of(item)),
    };
    let is_first = Cell::new(true);
    let outer = |_: &str, item: &[u8]| {
        if is_first.replace(false) {
            let retried = sink_of(site).retry_rejects(&inner).unwrap();
            assert_eq!(retried.loaded, if is_other_plan { 350 } else { 700 });
        }
        Ok(row_of(item))
    };
    let retried = sink_of(site).retry_rejects(&outer).unwrap();
    check_rows(site, 700);
    assert_eq!((retried.loaded, retried.kept), (if is_other_plan { 350 } else { 0 }, 0));
}

#[test]
fn a_retry_leaves_out_files_of_other_programs_and_takes_each_reject_once() {
    let site = written_rejects(Site::new(), 4);
    let file = site.lake().join(&site.files("tollgate_rejects")[0]);
    let beside = |end: &str| file.with_file_name(format!("{}{end}", file.file_name().unwrap().display()));
    fs::copy(&file, beside(".new")).unwrap();
    fs::write(beside(".crc"), "x").unwrap();
    fs::write(file.with_file_name("_SUCCESS"), "").unwrap();
    // A copy under the name of a load has the same rejects.
    fs::copy(&file, file.with_extension("2.parquet")).unwrap();
    assert_eq!(retry_all(&site).unwrap(), Retried { loaded: 4, duplicates: 0, kept: 0 });
    check_rows(&site, 4);
}

#[test]
fn a_file_of_rejects_that_cannot_be_read_is_named_with_the_remedy() {
    let site = written_rejects(Site::new(), 4);
    let name = site.files("tollgate_rejects").remove(0);
    let file = site.lake().join(&name);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let error = retry_all(&site).unwrap_err();
    assert!(error.contains(&format!("{name} of the lake cannot be read: ")), "{error}");
    assert!(error.contains("move it away") && !error.contains("cannot write"), "{error}");
    fs::write(&file, &whole).unwrap();
    assert_eq!(retry_all(&site).unwrap().loaded, 4);
    check_rows(&site, 4);
}

/// Retries the rejects of a site with the numbers as rows.
fn retry_all(site: &Site) -> Result<Retried, String> {
    let retried = sink_of(site).retry_rejects(&|_: &str, item: &[u8]| Ok(row_of(item)));
    retried.map_err(|error| join_chain(&error))
}

/// What a retry that ended before its commit left.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Plan,
    PlanAndFiles,
}

/// Leaves the plan of a retry of four rejects and of one that is deleted.
fn leave_plan(site: &Site, left: Left, change: impl FnOnce(&mut Json)) {
    let (before, root) = (TempDir::new().unwrap(), site.folder.path());
    copy(root, before.path());
    assert_eq!(retry_all(site).unwrap().loaded, 4);
    let folder = site.lake().join("_tollgate/lake/retry");
    let plan = folder.join("00000000000000000001.plan");
    let mut text: Json = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    let mut deleted = text["resolved"][0].clone();
    deleted["sequence"] = json!(999);
    text["resolved"].as_array_mut().unwrap().push(deleted);
    change(&mut text);
    match left {
        Left::Plan => {
            fs::remove_dir_all(site.lake()).unwrap();
            copy(before.path(), root);
            fs::create_dir_all(&folder).unwrap();
        }
        Left::PlanAndFiles => fs::remove_file(plan.with_extension("commit")).unwrap(),
    }
    fs::write(plan, text.to_string()).unwrap();
}

#[test]
fn a_retry_whose_rejects_are_deleted_is_given_up_if_the_lake_has_nothing_of_it() {
    for site in [Site::new(), iceberg::site()] {
        let site = written_rejects(site, 4);
        leave_plan(&site, Left::Plan, |_| ());
        assert_eq!(retry_all(&site).unwrap(), Retried { loaded: 4, duplicates: 0, kept: 0 });
        check_rows(&site, 4);
        assert!(site.files("visits")[0].ends_with("/retry-2.parquet"), "{:?}", site.files("visits"));
        assert_eq!(retry_all(&site).unwrap(), Retried::default());
    }
}

#[test]
fn a_retry_whose_rejects_are_deleted_ends_if_the_lake_has_all_of_it() {
    for site in [Site::new(), iceberg::site()] {
        let site = written_rejects(site, 4);
        leave_plan(&site, Left::PlanAndFiles, |_| ());
        let files = site.files("visits");
        // The number has the reject that is deleted too.
        assert_eq!(retry_all(&site).unwrap(), Retried { loaded: 5, duplicates: 0, kept: 0 });
        assert_eq!((site.files("visits"), site.rows("visits").len()), (files, 4));
        assert_eq!(retry_all(&site).unwrap(), Retried::default());
    }
}

#[test]
fn a_retry_without_its_rejects_names_the_files_to_move_if_some_are_there() {
    let site = written_rejects(Site::new(), 4);
    let absent = "visits/day=1999-01-01/retry-1.parquet";
    leave_plan(&site, Left::PlanAndFiles, |plan| {
        plan["files"].as_array_mut().unwrap().push(json!({"name": absent, "rows": 1}));
    });
    let there = site.files("visits").remove(0);
    let error = retry_all(&site).unwrap_err();
    let expected = format!("the lake has {there}, and lacks {absent}. Move the first ones away");
    assert!(error.contains(&expected), "{error}");
    fs::rename(site.lake().join(there), site.folder.path().join("aside")).unwrap();
    assert_eq!(retry_all(&site).unwrap().loaded, 4);
    check_rows(&site, 4);
}

#[test]
fn a_retry_counts_the_rows_of_the_retry_that_it_finishes() {
    for site in [Site::new(), iceberg::site()] {
        let site = written_rejects(site, 4);
        let read =
            |_: &str, item: &[u8]| if item == b"3" { Err("n is 3".to_owned()) } else { Ok(row_of(item)) };
        assert_eq!(sink_of(&site).retry_rejects(&read).unwrap().loaded, 3);
        let commit = site.lake().join("_tollgate/lake/retry/00000000000000000001.commit");
        fs::remove_file(commit).unwrap();
        // This retry has the same reason, so it repeats the plan.
        let retried = sink_of(&site).retry_rejects(&read).unwrap();
        assert_eq!((retried.loaded, retried.kept), (3, 1));
        assert_eq!(site.rows("visits").len(), 3);
    }
}
