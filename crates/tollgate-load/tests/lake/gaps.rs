//! Records that cannot be read become a gap, and a file of their own when they are found again.

use std::fs;

use serde_json::json;

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

fn skip(site: &Site) {
    let log = site.write(600);
    let hidden = site.segments(log)[2].clone();
    fs::remove_file(&hidden).unwrap();
    let missing = site.load().missing;
    let gap = site.audit().gaps.remove(0);
    let storage: std::sync::Arc<dyn tollgate_log::Storage> = std::sync::Arc::new(tollgate_log::DiskStorage);
    tollgate_load::skip(&storage, &site.dir(), &site.sink(), log, (gap.first, gap.last)).unwrap();
    let rows = site.audit().rows;
    let given_up: u64 = rows.iter().map(|row| row.given_up).sum();
    assert_eq!((given_up, rows.iter().map(|row| row.missing).sum::<u64>()), (missing, 0));
    site.load();
    assert_eq!(site.rows("visits").len() as u64, 600 - missing);
}
