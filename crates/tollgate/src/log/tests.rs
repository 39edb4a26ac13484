//! Logs that the real writer made, with damage added by the tests.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tollgate_log::{
    AcceptedDamage, Appender, Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogId, LogOptions,
    Schema, SchemaId, SegmentState, Transaction, Value, read_footer, segments,
};

use super::folder::{LogFolder, settled};
use super::follower::{Follower, Reach, Start};
use super::format::Printer;
use super::ls::Content;
use super::output::Output;
use super::verify::{SegmentCounts, Verify};
use crate::cli::RecordFormat;
use crate::config::FILE_NAME;

pub(super) fn schema() -> Schema {
    let column = |(name, kind, origin): &(&str, ColumnType, ColumnOrigin)| Column {
        name: (*name).to_owned(),
        kind: *kind,
        origin: *origin,
    };
    let columns = [
        ("flag", ColumnType::Bool, ColumnOrigin::Stored),
        ("n", ColumnType::Int, ColumnOrigin::Stored),
        ("x", ColumnType::Float, ColumnOrigin::Stored),
        ("text", ColumnType::Text, ColumnOrigin::Stored),
        ("raw", ColumnType::Bytes, ColumnOrigin::Stored),
        ("at", ColumnType::Timestamp, ColumnOrigin::Stored),
        ("doc", ColumnType::Json, ColumnOrigin::Stored),
        ("id", ColumnType::Uuid, ColumnOrigin::Stored),
        ("client", ColumnType::Inet, ColumnOrigin::Stored),
        ("number", ColumnType::Int, ColumnOrigin::Sequence),
    ];
    Schema::new("all", columns.iter().map(column).collect()).unwrap()
}

pub(super) fn small() -> Schema {
    let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    Schema::new("small", vec![column]).unwrap()
}

pub(super) fn open(dir: &Path) -> (Log, Appender) {
    let mut options = LogOptions::new(dir);
    options.segment_bytes_max = 1;
    let (log, _) = Log::open(Arc::new(DiskStorage), options, vec![schema(), small()], |_| {}).unwrap();
    let appender = log.appender(|| {});
    (log, appender)
}

/// Appends one transaction and waits until it is synced. Each segment has only one batch, so the next record
/// is in a new segment.
pub(super) fn append<R>(appender: &mut Appender, fill: impl FnOnce(&mut Transaction<'_>) -> R) -> R {
    let (ticket, result) = appender.append(Level::Synced, fill).unwrap();
    assert!(appender.hand_over());
    while appender.reached(ticket.unwrap(), Level::Synced).is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    result
}

pub(super) fn append_rows(appender: &mut Appender, rows: i64) {
    append(appender, |transaction| {
        for row in 0..rows {
            transaction.row(SchemaId(1), |values| values.push(Value::Int(row))).unwrap();
        }
    });
}

/// Writes and closes a log of one segment per entry of `rows`.
pub(super) fn log_of(dir: &Path, rows: &[i64]) -> LogId {
    let (log, mut appender) = open(dir);
    let id = log.id();
    rows.iter().for_each(|rows| append_rows(&mut appender, *rows));
    drop(appender);
    log.close().unwrap();
    id
}

pub(super) fn segment(dir: &Path, log: LogId, index: usize) -> PathBuf {
    segments(&DiskStorage, dir, log).unwrap()[index].1.clone()
}

pub(super) fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn verified(dir: &Path, log: LogId) -> (SegmentCounts, String) {
    let mut out = Vec::new();
    let mut verify = Verify {
        dir,
        accepted: AcceptedDamage::default(),
        loaded: None,
        counts: SegmentCounts::default(),
        out: &mut out,
    };
    verify.log(log).unwrap();
    let counts = verify.counts;
    let text = String::from_utf8(out).unwrap();
    (counts, text.replace(&log.to_string(), "LOG").replace(&dir.display().to_string(), "DIR"))
}

/// Prints one log. Returns whether no record was missing.
pub(super) fn print_log(dir: &Path, log: LogId, printer: &mut Printer, out: &mut Vec<u8>) -> bool {
    let mut follower = Follower::new(dir, Reach::Written, Some(log), &Start::Kept).unwrap();
    let mut out = Output::new(out);
    while follower.look(printer, &mut out).unwrap() {}
    follower.is_whole()
}

fn printed(dir: &Path, log: LogId, stream: Option<&str>) -> (bool, String) {
    let mut out = Vec::new();
    let mut printer = Printer::new(RecordFormat::Json, stream, None).unwrap();
    let is_whole = print_log(dir, log, &mut printer, &mut out);
    (is_whole, String::from_utf8(out).unwrap().replace(&log.to_string(), "LOG"))
}

#[test]
fn every_type_is_printed_as_json() {
    let dir = TempDir::new().unwrap();
    let (log, mut appender) = open(dir.path());
    let id = log.id();
    let values = [
        Value::Bool(true),
        Value::Int(9_007_199_254_740_993),
        Value::Float(0.5),
        Value::Text("a\"\u{1b}"),
        Value::Bytes(b"foob"),
        Value::Timestamp(1_500_000),
        Value::Json("{\n\"a\": 18446744073709551615}"),
        Value::Uuid([0xab; 16]),
        Value::Inet("::1".parse().unwrap()),
    ];
    append(&mut appender, |transaction| {
        transaction.row(SchemaId(0), |row| values.iter().try_for_each(|value| row.push(*value))).unwrap();
        transaction.row(SchemaId(0), |row| (0..5).try_for_each(|_| row.push(Value::Null))).unwrap();
        transaction.row(SchemaId(1), |row| row.push(Value::Int(-1))).unwrap();
        transaction.reject(SchemaId(1), "unknown field \"m\"", b"{\"m\":1}");
        transaction.reject(SchemaId(1), "no UTF-8", &[0xff]);
    });
    drop(appender);
    log.close().unwrap();
    let (is_whole, text) = printed(dir.path(), id, None);
    let expected = concat!(
        r#"{"log":"LOG","sequence":1,"stream":"all","flag":true,"n":9007199254740993,"x":0.5,"text":"a\"\u001b","#,
        r#""raw":"Zm9vYg==","at":"1970-01-01T00:00:01.5Z","doc":{ "a": 18446744073709551615},"#,
        r#""id":"abababab-abab-abab-abab-abababababab","client":"::1","number":1}"#,
        "\n",
        r#"{"log":"LOG","sequence":2,"stream":"all","flag":null,"n":null,"x":null,"text":null,"raw":null,"#,
        r#""at":null,"doc":null,"id":null,"client":null,"number":2}"#,
        "\n",
        r#"{"log":"LOG","sequence":3,"stream":"small","n":-1}"#,
        "\n",
        r#"{"log":"LOG","sequence":4,"stream":"small","reject":"unknown field \"m\"","item":"{\"m\":1}"}"#,
        "\n",
        r#"{"log":"LOG","sequence":5,"stream":"small","reject":"no UTF-8","item_base64":"/w=="}"#,
        "\n",
    );
    assert!(is_whole);
    assert_eq!(text, expected);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(printed(dir.path(), id, Some("small")).1.lines().count(), 3);
    assert_eq!(printed(dir.path(), id, Some("other")), (true, String::new()));
}

#[test]
fn a_gap_is_read_around_and_told() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[1, 2, 1]);
    fs::remove_file(segment(dir.path(), log, 1)).unwrap();
    let (is_whole, text) = printed(dir.path(), log, None);
    assert!(!is_whole);
    let expected = "{\"log\":\"LOG\",\"sequence\":1,\"stream\":\"small\",\"n\":0}\n\
                    {\"log\":\"LOG\",\"sequence\":4,\"stream\":\"small\",\"n\":0}\n";
    assert_eq!(text, expected);
}

#[test]
fn whole_segments_verify_with_their_digest() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[3, 2]);
    let (counts, text) = verified(dir.path(), log);
    assert_eq!(counts.summary(1), "2 segments in 1 log: 2 ok, 0 open, 0 torn, 0 bad");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("ok    LOG/00000000000000000001.sealed  records 1-3  sha256:"), "{text}");
    assert!(lines[1].starts_with("ok    LOG/00000000000000000004.sealed  records 4-5  sha256:"), "{text}");
}

#[test]
fn damage_is_named_with_its_place_and_its_records() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[3, 2]);
    let path = segment(dir.path(), log, 1);
    // The last bytes before the footer are the payload of the last batch.
    let footer = read_footer(&DiskStorage, &path).unwrap().unwrap();
    flip(&path, footer.content_bytes - 17);
    let (counts, text) = verified(dir.path(), log);
    assert_eq!(counts.summary(1), "2 segments in 1 log: 1 ok, 0 open, 0 torn, 1 bad");
    let bad = text.lines().nth(1).unwrap();
    let (place, rest) = bad.split_once(": ").unwrap();
    assert!(place.starts_with("BAD   DIR/LOG/00000000000000000004.sealed at byte "), "{bad}");
    assert!(rest.starts_with("records 4-5: "), "{bad}");
}

#[test]
fn a_missing_segment_is_told_by_the_one_behind_it() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[1, 2, 1]);
    fs::remove_file(segment(dir.path(), log, 1)).unwrap();
    let (counts, text) = verified(dir.path(), log);
    assert_eq!((counts.ok, counts.bad), (1, 1));
    assert!(text.contains("does not continue the segment before, which ends at 1"), "{text}");
    // If the first segments were deleted, no record is missing.
    fs::remove_file(segment(dir.path(), log, 0)).unwrap();
    let (counts, _) = verified(dir.path(), log);
    assert_eq!((counts.ok, counts.bad), (1, 0));
}

/// Copies a log as a crash leaves it: its files, and a lock that no process holds.
fn crashed(from: &Path, log: LogId) -> TempDir {
    let to = TempDir::new().unwrap();
    let folder = to.path().join(log.to_string());
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(from.join(log.to_string())).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    to
}

fn append_garbage(dir: &Path, log: LogId) {
    use std::io::Write;
    let path = segment(dir, log, 0);
    OpenOptions::new().append(true).open(path).unwrap().write_all(&[7; 100]).unwrap();
}

#[test]
fn a_log_that_is_written_is_open_whatever_its_end() {
    let dir = TempDir::new().unwrap();
    let mut options = LogOptions::new(dir.path());
    options.segment_bytes_max = 1 << 20;
    let (log, _) = Log::open(Arc::new(DiskStorage), options, vec![schema(), small()], |_| {}).unwrap();
    let mut appender = log.appender(|| {});
    append_rows(&mut appender, 2);
    let (counts, text) = verified(dir.path(), log.id());
    assert_eq!(
        (counts.open, text.as_str()),
        (1, "open  LOG/00000000000000000001.open  records 1-2  not sealed\n")
    );

    let dead = crashed(dir.path(), log.id());
    append_garbage(dead.path(), log.id());
    let (counts, text) = verified(dead.path(), log.id());
    assert_eq!((counts.torn, counts.bad), (1, 0), "{text}");
    assert!(text.starts_with("torn  DIR/LOG/00000000000000000001.open at byte "), "{text}");
    assert!(text.contains(": records 3-?: "), "{text}");

    append_garbage(dir.path(), log.id());
    let (counts, text) = verified(dir.path(), log.id());
    assert_eq!(
        (counts.open, text.as_str()),
        (1, "open  LOG/00000000000000000001.open  records 1-2  being written\n")
    );
    assert!(printed(dir.path(), log.id(), None).0, "a live log is read to its end quietly");
    drop(appender);
    drop(log);
}

#[test]
fn a_look_makes_no_lock_file() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[1]);
    let lock = dir.path().join(log.to_string()).join("lock");
    fs::remove_file(&lock).unwrap();
    verified(dir.path(), log);
    assert!(!lock.exists());
}

#[test]
fn a_listing_takes_sealed_segments_from_their_footers() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[3, 2]);
    let (name, path) = segments(&DiskStorage, dir.path(), log).unwrap()[1].clone();
    let content = Content::of(name, &path).unwrap();
    assert_eq!((content.sequence().as_str(), content.records), ("4..5", 2));
    assert_eq!(content.bytes, fs::metadata(&path).unwrap().len());
    assert!(content.digest.starts_with("sha256:"));
    // A segment without a whole footer is read from start to end.
    flip(&path, content.bytes - 1);
    assert!(read_footer(&DiskStorage, &path).unwrap().is_none());
    assert_eq!(Content::of(name, &path).unwrap().records, 2);
}

#[test]
fn a_segment_sealed_since_it_was_listed_is_found() {
    let dir = TempDir::new().unwrap();
    let log = log_of(dir.path(), &[1]);
    let (name, path) = segments(&DiskStorage, dir.path(), log).unwrap()[0].clone();
    let open = name.with_state(SegmentState::Open);
    let listed = open.path(path.parent().unwrap());
    assert_eq!(settled(open, listed), (name, path));
}

#[test]
fn a_folder_means_its_log() {
    let dir = TempDir::new().unwrap();
    let app = |name: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.join("data/log")).unwrap();
        path
    };
    let plain = app("plain");
    assert_eq!(LogFolder::find(&plain).unwrap().dir, plain.join("data/log"));
    assert_eq!(LogFolder::find(&plain.join("data/log")).unwrap().dir, plain.join("data/log"));
    let written = app("written");
    fs::create_dir(written.join("other")).unwrap();
    fs::write(written.join(FILE_NAME), "[log]\ndir = \"other\"\n").unwrap();
    assert_eq!(LogFolder::find(&written).unwrap().dir, written.join("other"));
    assert_eq!(LogFolder::find(&written.join(FILE_NAME)).unwrap().dir, written.join("other"));
    let error = LogFolder::find(&dir.path().join("none")).err().unwrap().to_string();
    assert!(
        error.ends_with("none does not exist: nothing was recorded yet, or the path is wrong"),
        "{error}"
    );
}
