//! Records that cannot be read become a gap, and a file of their own when they are found again.

use std::fs;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tollgate_load::{Audit, SkipError};
use tollgate_log::{DiskStorage, LogId, Sequence, Storage};

use crate::files::copy;
use crate::iceberg;
use crate::site::{Site, int, text};
use crate::tables;

#[test]
fn a_gap_that_is_found_again_becomes_a_file_of_its_own() {
    find_again(&Site::new());
    let site = iceberg::site();
    find_again(&site);
    // The table of gaps has both events, with the same records.
    let mut gaps = site.rows("tollgate_gaps");
    assert_eq!(gaps.len(), 2);
    gaps.sort_by_key(|gap| text(gap, "event") == "filled");
    assert_eq!(gaps.iter().map(|gap| text(gap, "event")).collect::<Vec<_>>(), ["missing", "filled"]);
    let ends = |gap| (int(gap, "first_seq"), int(gap, "last_seq"), int(gap, "_seq"));
    assert_eq!(ends(&gaps[0]), ends(&gaps[1]));
    assert!(!text(&gaps[0], "reason").is_empty() && ends(&gaps[0]).0 == ends(&gaps[0]).2);
    assert_eq!(tables::read(&iceberg::address(&site), &site, "tollgate_gaps")["count"], json!([2, 1]));
}

fn find_again(site: &Site) {
    let log = site.write(600);
    let segments = site.segments(log);
    let hidden = segments[2].clone();
    let aside = site.folder.path().join("aside");
    fs::rename(&hidden, &aside).unwrap();
    let status = site.load();
    assert!(status.missing > 0);
    let gap = site.audit().gaps.remove(0);
    let first: u64 = hidden.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    assert_eq!(gap.first.0, first);
    assert_eq!(site.rows("visits").len() as u64, 600 - status.missing);
    let missing: u64 = site.audit().rows.iter().map(|row| row.missing).sum();
    assert_eq!(missing, status.missing);
    // A second look changes nothing.
    let files = site.files("visits");
    site.load();
    assert_eq!(site.files("visits"), files);

    fs::rename(&aside, &hidden).unwrap();
    assert_eq!(site.load().filled, status.missing);
    site.check_all(600);
    assert!(site.audit().gaps.is_empty());
    let last = gap.last;
    let name = format!("{log}-{first}-{last}.fill.parquet");
    assert!(site.files("visits").iter().any(|file| file.ends_with(&name)), "{:?}", site.files("visits"));
    site.load();
    site.check_all(600);
}

#[test]
fn a_gap_of_two_segments_is_filled_in_two_steps() {
    find_again_in_steps(&Site::new());
    find_again_in_steps(&iceberg::site());
}

fn find_again_in_steps(site: &Site) {
    let log = site.write(600);
    let hidden = site.segments(log)[2..4].to_vec();
    let aside = |number: usize| site.folder.path().join(format!("aside-{number}"));
    for (number, file) in hidden.iter().enumerate() {
        fs::rename(file, aside(number)).unwrap();
    }
    let missing = site.load().missing;
    assert_eq!(site.audit().gaps.len(), 1);
    let mut filled = Vec::new();
    // The second segment comes back first, so the gap that is left has the same first record.
    for number in [1, 0] {
        fs::rename(aside(number), &hidden[number]).unwrap();
        filled.push(site.load().filled);
    }
    assert!(filled.iter().all(|count| *count > 0), "{filled:?}");
    assert_eq!(filled.iter().sum::<u64>(), missing);
    site.check_all(600);
    assert!(site.audit().gaps.is_empty());
}

#[test]
fn records_that_an_operator_skips_are_given_up() {
    skip(&Site::new());
    skip(&iceberg::site());
}

fn skip_records(site: &Site, log: LogId, range: (Sequence, Sequence)) -> Result<(), SkipError> {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    tollgate_load::skip(&storage, &site.dir(), &site.sink(), log, range)
}

fn skip(site: &Site) {
    let log = site.write(600);
    let hidden = site.segments(log)[2].clone();
    fs::remove_file(&hidden).unwrap();
    let missing = site.load().missing;
    let gap = site.audit().gaps.remove(0);
    skip_records(site, log, (gap.first, gap.last)).unwrap();
    let rows = site.audit().rows;
    let given_up: u64 = rows.iter().map(|row| row.given_up).sum();
    assert_eq!((given_up, rows.iter().map(|row| row.missing).sum::<u64>()), (missing, 0));
    site.load();
    assert_eq!(site.rows("visits").len() as u64, 600 - missing);
}

/// What a load that ended before its commit left.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Plan,
    PlanAndFiles,
}

/// Writes a log, and leaves the plan of its first load. Returns the log and the last record of the plan.
fn leave_whole_plan(site: &Site, left: Left) -> (LogId, u64) {
    let log = site.write(600);
    let before = TempDir::new().unwrap();
    let root = site.folder.path();
    copy(root, before.path());
    site.load();
    let commits = site.lake().join(format!("_tollgate/lake/log/{log}"));
    let plan = commits.join("00000000000000000001.plan");
    let text = fs::read(&plan).unwrap();
    let last = serde_json::from_slice::<Json>(&text).unwrap()["last"].as_u64().unwrap();
    if left == Left::Plan {
        fs::remove_dir_all(site.lake()).unwrap();
        drop(fs::remove_file(root.join("catalog.sqlite")));
        copy(before.path(), root);
        fs::create_dir_all(&commits).unwrap();
        fs::write(plan, text).unwrap();
    } else {
        // The loads of the other segments did not begin.
        for file in fs::read_dir(&commits).unwrap().map(|entry| entry.unwrap().path()) {
            if file != plan {
                fs::remove_file(file).unwrap();
            }
        }
    }
    (log, last)
}

/// Leaves the plan of a load, of which a batch is then damaged.
fn leave_plan(site: &Site, left: Left) -> (LogId, u64) {
    let (log, last) = leave_whole_plan(site, left);
    let segment = &site.segments(log)[0];
    let mut bytes = fs::read(segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(segment, bytes).unwrap();
    (log, last)
}

/// Returns the sums of the rows of an audit: loaded, given up, missing.
fn sums(audit: &Audit) -> (u64, u64, u64) {
    let rows = audit.rows.iter().map(|row| (row.loaded, row.given_up, row.missing));
    rows.fold((0, 0, 0), |all, row| (all.0 + row.0, all.1 + row.1, all.2 + row.2))
}

#[test]
fn a_skip_gives_up_a_plan_of_damaged_records_and_the_others_are_loaded() {
    for site in [Site::new(), iceberg::site()] {
        let (log, last) = leave_plan(&site, Left::Plan);
        let error = site.load_with(site.sink()).unwrap_err().to_string();
        let expected = format!("give the load up: `tollgate load --skip {log} 1-{last}`");
        assert!(error.contains("which cannot be read any more (") && error.contains(&expected), "{error}");
        skip_records(&site, log, (Sequence(1), Sequence(last))).unwrap();
        let status = site.load();
        let (loaded, given_up, missing) = sums(&site.audit());
        assert!(given_up > 0 && given_up < last && missing == 0, "{given_up} of {last}, {missing} missing");
        assert_eq!((loaded, status.filled), (600 - given_up, last - given_up));
        let numbers = site.numbers("visits").remove(&log).unwrap();
        assert_eq!(numbers.len() as u64, loaded);
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}

#[test]
fn a_plan_whose_files_are_all_there_is_committed_in_place_of_a_skip() {
    let site = Site::new();
    let (log, last) = leave_plan(&site, Left::PlanAndFiles);
    let error = skip_records(&site, log, (Sequence(1), Sequence(last))).unwrap_err().to_string();
    assert!(error.contains(&format!("the next record to load is {}", last + 1)), "{error}");
    site.load();
    assert_eq!(sums(&site.audit()), (600, 0, 0));
    site.check_all(600);
}

/// Leaves the plan of a load of all segments, of which the last one is then lost. Returns the log, and the
/// last records that are left and that the plan has.
fn leave_plan_without_its_end(site: &mut Site) -> (LogId, u64, u64) {
    site.file_bytes = 1 << 30;
    let (log, last) = leave_whole_plan(site, Left::Plan);
    assert_eq!(last, 600);
    let lost = site.segments(log).pop().unwrap();
    let first: u64 = lost.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    assert!(first > 1);
    fs::remove_file(lost).unwrap();
    (log, first - 1, last)
}

#[test]
fn a_plan_whose_end_is_lost_is_given_up_by_the_command_of_its_error() {
    for mut site in [Site::new(), iceberg::site()] {
        let (log, end, last) = leave_plan_without_its_end(&mut site);
        let error = site.load_with(site.sink()).unwrap_err().to_string();
        let records = format!("has records {}-{last}, which cannot be read any more", end + 1);
        let reason = format!("(the log ends with record {end}): put their segment back from a copy");
        let command = format!("`tollgate load --skip {log} 1-{last}`");
        assert!([&records, &reason, &command].iter().all(|part| error.contains(*part)), "{error}");
        let refused = skip_records(&site, log, (Sequence(1), Sequence(last - 1))).unwrap_err().to_string();
        assert!(refused.contains(&format!("its sealed segments end at {end}")), "{refused}");
        skip_records(&site, log, (Sequence(1), Sequence(last))).unwrap();
        assert_eq!(site.load().filled, end);
        assert_eq!(sums(&site.audit()), (end, last - end, 0));
        assert_eq!(site.numbers("visits").remove(&log).unwrap().len() as u64, end);
    }
}

#[test]
fn a_skip_up_to_the_lost_end_of_a_plan_loads_all_records_that_are_left() {
    for mut site in [Site::new(), iceberg::site()] {
        let (log, end, _) = leave_plan_without_its_end(&mut site);
        skip_records(&site, log, (Sequence(1), Sequence(end))).unwrap();
        assert_eq!(site.load().filled, end);
        assert_eq!(sums(&site.audit()), (end, 0, 0));
        site.check_all(end.cast_signed());
    }
}

#[test]
fn a_skip_up_to_the_damage_of_a_plan_loads_all_records_that_can_be_read() {
    let mut site = Site::new();
    site.file_bytes = 1 << 30;
    let (log, last) = leave_whole_plan(&site, Left::Plan);
    let segments = site.segments(log);
    let first: u64 = segments[2].file_stem().unwrap().to_str().unwrap().parse().unwrap();
    fs::remove_file(&segments[2]).unwrap();
    skip_records(&site, log, (Sequence(1), Sequence(first - 1))).unwrap();
    let status = site.load();
    assert_eq!(status.filled, first - 1);
    assert_eq!(sums(&site.audit()), (last - status.missing, 0, status.missing));
}

#[test]
fn a_plan_whose_end_is_truncated_is_given_up_by_the_command_of_its_error() {
    for mut site in [Site::new(), iceberg::site()] {
        site.file_bytes = 1 << 30;
        let (log, last) = leave_whole_plan(&site, Left::Plan);
        let segment = site.segments(log).pop().unwrap();
        let bytes = fs::read(&segment).unwrap();
        fs::write(&segment, &bytes[..bytes.len() / 2]).unwrap();
        let error = site.load_with(site.sink()).unwrap_err().to_string();
        assert!(error.contains(&format!("`tollgate load --skip {log} 1-{last}`")), "{error}");
        skip_records(&site, log, (Sequence(1), Sequence(last))).unwrap();
        let status = site.load();
        let (loaded, given_up, missing) = sums(&site.audit());
        assert!(loaded > 0 && given_up > 0, "{loaded} loaded, {given_up} given up");
        assert_eq!((loaded, missing), (status.filled, 0));
        assert_eq!(site.numbers("visits").remove(&log).unwrap().len() as u64, loaded);
    }
}
